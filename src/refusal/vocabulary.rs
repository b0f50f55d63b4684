//! The vocabulary of refusal: `packs/refusals.yaml` as data, and compiled once per subject.

use std::sync::{LazyLock, OnceLock};

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

/// Which target nouns apply to a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A URL a tool was asked to fetch.
    Net,
    /// The same where the scheme is what is probed: phrases that name the scheme count as well.
    Scheme,
    /// A path.
    Fs,
    /// A repository, a revision or a path in one.
    Git,
    /// A statement.
    Db,
    /// A command.
    Exec,
    /// Anything: every noun counts.
    General,
}

impl Subject {
    /// Every subject, in the order of declaration.
    pub const ALL: [Self; 7] =
        [Self::Net, Self::Scheme, Self::Fs, Self::Git, Self::Db, Self::Exec, Self::General];

    /// Whether the labels of the network rules apply.
    pub fn is_net(self) -> bool {
        matches!(self, Self::Net | Self::Scheme)
    }

    /// Whether an address in the text may tie a refusal to the target.
    pub(super) fn knows_addresses(self) -> bool {
        self.is_net() || self == Self::General
    }

    fn takes(self, only_for: &[Self]) -> bool {
        only_for.is_empty()
            || only_for.contains(&self)
            || (self == Self::Scheme && only_for.contains(&Self::Net))
            || (self == Self::General && !only_for.contains(&Self::Scheme))
    }
}

/// One phrase of the vocabulary.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phrase {
    /// A regular expression over a folded reply; it stands on whole words.
    pub says: String,
    /// A reply that this phrase reads.
    pub example: String,
    /// The subjects it counts for; empty for all.
    #[serde(default)]
    pub only_for: Vec<Subject>,
}

/// The whole vocabulary, list by list in the order of use.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    /// What SDKs and languages put before a message.
    pub wrappers: Vec<Phrase>,
    /// What SDKs put before a message about a declared schema.
    pub schema_wrappers: Vec<Phrase>,
    /// Beginnings of a result that is an error as a whole.
    pub whole_errors: Vec<Phrase>,
    /// The same, for short results only.
    pub whole_errors_short: Vec<Phrase>,
    /// Rejections by the shape a schema declares.
    pub schema: Vec<Phrase>,
    /// A check of the server's author inside a schema.
    pub guards: Vec<Phrase>,
    /// Reasons that are never the target.
    pub elsewhere: Vec<Phrase>,
    /// Words of an operating system or a parser that sound like a refusal.
    pub pardons: Vec<Phrase>,
    /// Step 2.
    pub names_the_class: Vec<Phrase>,
    /// Step 2 where the scheme is the target.
    pub names_the_scheme: Vec<Phrase>,
    /// Step 2 outside the network.
    pub names_the_target: Vec<Phrase>,
    /// Step 3.
    pub failures: Vec<Phrase>,
    /// Step 4, the word.
    pub refusal_words: Vec<Phrase>,
    /// Step 4, the noun.
    pub target_nouns: Vec<Phrase>,
    /// Step 5.
    pub addresses: Vec<Phrase>,
}

/// The vocabulary, parsed once.
pub fn vocabulary() -> &'static Vocabulary {
    static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| {
        serde_saphyr::from_str(include_str!("../../packs/refusals.yaml"))
            .expect("the file is compiled in and a test parses it")
    });
    &VOCABULARY
}

/// The vocabulary of one subject, compiled: each list is one automaton.
pub(super) struct Lists {
    pub(super) wrappers: Regex,
    pub(super) schema_wrappers: Regex,
    pub(super) whole_errors: Regex,
    pub(super) whole_errors_short: Regex,
    pub(super) schema: Regex,
    pub(super) guards: Regex,
    pub(super) elsewhere: Regex,
    pub(super) pardons: Regex,
    pub(super) names_the_class: Regex,
    pub(super) names_the_target: Regex,
    pub(super) failures: Regex,
    pub(super) refusal_words: Regex,
    pub(super) target_nouns: Regex,
    pub(super) addresses: Regex,
}

/// The compiled lists of a subject.
pub(super) fn lists(subject: Subject) -> &'static Lists {
    static LISTS: [OnceLock<Lists>; Subject::ALL.len()] =
        [const { OnceLock::new() }; Subject::ALL.len()];
    LISTS[subject as usize].get_or_init(|| compile(subject))
}

fn compile(subject: Subject) -> Lists {
    let all = vocabulary();
    let anywhere = |list: &[&[Phrase]]| expression(&anywhere(&any_of(subject, list)));
    let first = |list: &[Phrase]| expression(&at_the_start(&any_of(subject, &[list])));
    Lists {
        wrappers: first(&all.wrappers),
        schema_wrappers: first(&all.schema_wrappers),
        whole_errors: first(&all.whole_errors),
        whole_errors_short: first(&all.whole_errors_short),
        schema: anywhere(&[&all.schema]),
        guards: anywhere(&[&all.guards]),
        elsewhere: anywhere(&[&all.elsewhere]),
        pardons: anywhere(&[&all.pardons]),
        names_the_class: anywhere(&[&all.names_the_class, &all.names_the_scheme]),
        names_the_target: anywhere(&[&all.names_the_target]),
        failures: anywhere(&[&all.failures]),
        refusal_words: anywhere(&[&all.refusal_words]),
        target_nouns: anywhere(&[&all.target_nouns]),
        addresses: anywhere(&[&all.addresses]),
    }
}

/// The phrases of the lists that count for a subject, as one alternative.
fn any_of(subject: Subject, lists: &[&[Phrase]]) -> String {
    let phrases: Vec<_> = lists
        .iter()
        .flat_map(|list| list.iter())
        .filter(|phrase| subject.takes(&phrase.only_for))
        .map(|phrase| format!("(?:{})", phrase.says))
        .collect();
    // An empty alternative would match everywhere; this one matches nowhere.
    if phrases.is_empty() { r"[^\x00-\xFF]".to_owned() } else { phrases.join("|") }
}

/// A phrase as a list uses it that looks everywhere: it stands on whole words.
pub(super) fn anywhere(says: &str) -> String {
    format!(r"\b{{start-half}}(?:{says})\b{{end-half}}")
}

/// A phrase as a list uses it that looks at the start, behind decoration: Markdown, list marks and
/// the signs servers like to print.
pub(super) fn at_the_start(says: &str) -> String {
    format!(r#"^(?:[\s#*>`"_-]|❌|🚫|⛔|⚠|🔒|\xEF\xB8\x8F)*(?:{says})"#)
}

/// A compiled expression over bytes: ASCII classes only, so that every list stays small.
pub(super) fn expression(says: &str) -> Regex {
    RegexBuilder::new(says)
        .unicode(false)
        .build()
        .expect("the expressions are compiled in and a test compiles each")
}
