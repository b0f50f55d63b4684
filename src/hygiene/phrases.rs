//! Runs the phrase rules over a folded text, sentence by sentence, so that every rule sees a text at
//! most once and only where one of its trigger words stands.

use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::AhoCorasick;
use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use regex::bytes::{Regex, RegexBuilder};

use super::fold::Folded;
use super::rules::{RULES, Rule, WORDS};
use super::secrets;
use super::{Finding, Source, Weight, escape};

/// Matches of one rule looked at in one sentence.
const PER_SENTENCE: usize = 20;
/// How far around a match the words that excuse it may stand, in characters.
const NEARBY: usize = 80;
/// How far back an opening quotation mark is looked for.
const QUOTE_REACH: usize = 400;
/// Shortest Base64 run that is worth a note though nothing was found in it.
const BLOB_MIN: usize = 80;

/// Finds orders to the model in `text` and in what it holds encoded.
pub(super) fn scan(text: &str, source: Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let folded = Folded::new(text);
    for hit in find(&folded) {
        let excused = source.is_content() && !hit.hides_or_leaks;
        let weight = if excused { Weight::Note } else { hit.weight };
        let at = folded.origin(hit.range.start);
        let end = folded.origin(hit.range.end.saturating_sub(1)).max(at);
        findings
            .push((Finding { class: hit.class, weight, at, shown: String::new() }, end + 1 - at));
    }
    if let Some(found) = EMPHASIS.find(text.as_bytes()) {
        let at = text.get(..found.start()).map_or(0, |before| before.chars().count());
        findings.push((
            Finding { class: "emphasis", weight: Weight::Note, at, shown: String::new() },
            found.len(),
        ));
    }
    findings.extend(scan_encoded(text, source));
    // Few findings pay for one walk each; `super::scan` keeps five of a class.
    show(text, findings)
}

/// Fills in the evidence in one walk over the characters.
fn show(text: &str, mut findings: Vec<(Finding, usize)>) -> Vec<Finding> {
    findings.sort_by_key(|(finding, _)| finding.at);
    let mut rest = text.chars();
    let mut position = 0;
    findings
        .into_iter()
        .map(|(mut finding, length)| {
            while position < finding.at && rest.next().is_some() {
                position += 1;
            }
            if finding.shown.is_empty() {
                finding.shown = escape(rest.clone().take(length));
            }
            finding
        })
        .collect()
}

/// A match in a folded text.
pub(super) struct Hit {
    pub(super) class: &'static str,
    pub(super) weight: Weight,
    pub(super) hides_or_leaks: bool,
    pub(super) range: Range<usize>,
}

/// Every match of every rule, with what its surroundings make of it.
fn find(folded: &Folded) -> Vec<Hit> {
    let text = folded.text.as_slice();
    let mut hits = Vec::new();
    let mut sentence = 0..0;
    let mut due = NOTHING_SEEN;
    for found in TRIGGERS.words.find_overlapping_iter(text) {
        if found.start() >= sentence.end {
            run_due(text, &sentence, &mut due, &mut hits);
            sentence = sentence_around(text, found.start());
        }
        let (rule, part) = TRIGGERS.rules[found.pattern().as_usize()];
        due[rule] |= part;
    }
    run_due(text, &sentence, &mut due, &mut hits);
    find_markup(text, &mut hits);
    secrets::find(text, &mut hits);
    for &(start, end) in &folded.squeezed {
        for (class, pattern) in SQUEEZED.iter() {
            if let Some(found) = pattern.find(&text[start..end]) {
                let range = start + found.start()..start + found.end();
                let hides_or_leaks = *class != "override" && *class != "persona";
                hits.push(Hit { class, weight: Weight::Breach, hides_or_leaks, range });
            }
        }
    }
    for hit in &mut hits {
        if hit.weight == Weight::Breach && is_quoted_attack(text, &hit.range) {
            hit.weight = Weight::Note;
        }
    }
    merge(hits)
}

/// Makes one hit of those of one class that overlap, with the weight of the strongest.
fn merge(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_by_key(|hit| (hit.class, hit.range.start));
    let mut merged: Vec<Hit> = Vec::with_capacity(hits.len());
    for hit in hits {
        match merged.last_mut() {
            Some(last) if last.class == hit.class && hit.range.start < last.range.end => {
                last.range.end = last.range.end.max(hit.range.end);
                if hit.weight == Weight::Breach {
                    last.weight = Weight::Breach;
                }
            }
            _ => merged.push(hit),
        }
    }
    merged
}

fn run_due(text: &[u8], sentence: &Range<usize>, due: &mut [u8; RULES.len()], hits: &mut Vec<Hit>) {
    for ((rule, compiled), due) in RULES.iter().zip(&COMPILED).zip(due) {
        let wanted = if rule.also.is_empty() { TRIGGER } else { TRIGGER | ALSO };
        if std::mem::take(due) != wanted {
            continue;
        }
        let words = &text[sentence.clone()];
        for found in compiled.pattern(rule).find_iter(words).take(PER_SENTENCE) {
            if excuses(rule, compiled, words, &found.range()) {
                continue;
            }
            let range = sentence.start + found.start()..sentence.start + found.end();
            let Rule { class, weight, hides_or_leaks, .. } = *rule;
            hits.push(Hit { class, weight, hides_or_leaks, range });
        }
    }
}

fn excuses(rule: &Rule, compiled: &Compiled, words: &[u8], found: &Range<usize>) -> bool {
    if rule.negatable && is_negated(&words[..found.start]) {
        return true;
    }
    let near = found.start.saturating_sub(NEARBY)..words.len().min(found.end + NEARBY);
    compiled.unless(rule).is_some_and(|unless| {
        unless
            .find_iter(&words[near.clone()])
            .any(|excuse| near.start + excuse.end() >= found.start)
    })
}

/// Whether the words right before say that what follows is not to be done.
pub(super) fn is_negated(before: &[u8]) -> bool {
    let last = &before[before.len().saturating_sub(40)..];
    NEGATION.is_match(last)
}

/// The sentence around byte `at`, without the line feeds that end it.
pub(super) fn sentence_around(text: &[u8], at: usize) -> Range<usize> {
    let start = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| at + end);
    start..end
}

/// Whether a match is what a scanner or guard says it looks for: in quotation marks after a word such
/// as "detects", or after "detects text that tries to".
fn is_quoted_attack(text: &[u8], found: &Range<usize>) -> bool {
    let near = &text[found.start.saturating_sub(160)..found.start];
    let sentence = near.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if DETECTS_ATTEMPTS.is_match(&near[sentence..]) {
        return true;
    }
    let mut open = None;
    let mut outside = Vec::new();
    let start = found.start.saturating_sub(QUOTE_REACH);
    for index in start..found.start {
        let byte = text[index];
        let is_letter = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphanumeric);
        let opens = matches!(byte, b'"' | b'`')
            || (byte == b'\'' && !index.checked_sub(1).is_some_and(is_letter));
        match open {
            Some(mark) if mark == byte && (byte != b'\'' || !is_letter(index + 1)) => open = None,
            Some(_) => {}
            None if opens => open = Some(byte),
            None => outside.push(byte),
        }
    }
    let Some(mark) = open else { return false };
    let closes = text[found.end..].iter().take(QUOTE_REACH).any(|byte| *byte == mark);
    closes && DETECTS.is_match(&outside[outside.len().saturating_sub(60)..])
}

/// Tags and turn markers of chat templates that pose as a voice of authority.
fn find_markup(text: &[u8], hits: &mut Vec<Hit>) {
    for found in MARKUP.captures_iter(text).take(50) {
        let Some(whole) = found.get(0) else { continue };
        // `<secret>` is a placeholder in usage lines: there a lone tag counts only where it opens a text.
        let weight = match found.get(1) {
            Some(name) if !is_element(text, &whole.range(), name.as_bytes()) => Weight::Note,
            _ => Weight::Breach,
        };
        hits.push(Hit {
            class: "pseudo-markup",
            weight,
            hides_or_leaks: false,
            range: whole.range(),
        });
    }
    for found in ROLE_LINE.find_iter(text).take(5) {
        hits.push(Hit {
            class: "pseudo-markup",
            weight: Weight::Note,
            hides_or_leaks: false,
            range: found.range(),
        });
    }
}

fn is_element(text: &[u8], tag: &Range<usize>, name: &[u8]) -> bool {
    if text[tag.clone()].contains(&b'/') {
        return true;
    }
    let opens = tag.start == 0 || text[tag.start - 1] == b'\n';
    let speaks = text[tag.end..].iter().take(3).any(u8::is_ascii_alphabetic);
    let closing = [b"</".as_slice(), name].concat();
    let reach = &text[tag.end..text.len().min(tag.end + 4_000)];
    (opens && speaks) || reach.windows(closing.len()).any(|window| window == closing)
}

/// Decodes Base64 and hexadecimal runs and reads what they hold.
fn scan_encoded(text: &str, source: Source) -> Vec<(Finding, usize)> {
    let mut findings = Vec::new();
    let (mut counted, mut at) = (0, 0);
    for run in ENCODED.find_iter(text.as_bytes()) {
        at += text.get(counted..run.start()).map_or(0, |before| before.chars().count());
        counted = run.start();
        let Some(weight) = text.get(run.range()).and_then(|run| judge_encoded(run, source)) else {
            continue;
        };
        let class = if weight == Weight::Breach { "encoded" } else { "base64" };
        findings.push((Finding { class, weight, at, shown: String::new() }, run.len()));
    }
    findings
}

fn judge_encoded(run: &str, source: Source) -> Option<Weight> {
    let is_breach =
        |hit: &Hit| hit.weight == Weight::Breach && (hit.hides_or_leaks || !source.is_content());
    let body = run.trim_matches('=').replace('-', "+").replace('_', "/");
    let decoded = BASE64.decode(&body).ok().into_iter().chain(from_hex(run));
    for bytes in decoded {
        if let Ok(inner) = String::from_utf8(bytes)
            && find(&Folded::new(&inner)).iter().any(is_breach)
        {
            return Some(Weight::Breach);
        }
    }
    let is_mixed = run.bytes().any(|byte| byte.is_ascii_uppercase())
        && run.bytes().any(|byte| byte.is_ascii_lowercase())
        && run.bytes().any(|byte| byte.is_ascii_digit());
    (run.len() >= BLOB_MIN && is_mixed).then_some(Weight::Note)
}

fn from_hex(run: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    run.as_bytes()
        .chunks(2)
        .map(|pair| match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect()
}

static BASE64: LazyLock<GeneralPurpose> = LazyLock::new(|| {
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&alphabet::STANDARD, config)
});

/// Bits for what a sentence holds of a rule.
const TRIGGER: u8 = 1;
const ALSO: u8 = 2;
const NOTHING_SEEN: [u8; RULES.len()] = [0; RULES.len()];

/// The trigger words of all rules, and the rule and bit each stands for.
struct Triggers {
    words: AhoCorasick,
    rules: Vec<(usize, u8)>,
}

static TRIGGERS: LazyLock<Triggers> = LazyLock::new(|| {
    let of_rule = |(index, rule): (usize, &'static Rule)| {
        let triggers = rule.triggers.iter().map(move |word| (*word, (index, TRIGGER)));
        triggers.chain(rule.also.iter().map(move |word| (*word, (index, ALSO))))
    };
    let (words, rules): (Vec<&str>, Vec<(usize, u8)>) =
        RULES.iter().enumerate().flat_map(of_rule).unzip();
    Triggers {
        words: AhoCorasick::new(words).expect("a few hundred words fit an automaton"),
        rules,
    }
});

/// Each rule's patterns, compiled when a text first needs them.
static COMPILED: [Compiled; RULES.len()] = [const { Compiled::new() }; RULES.len()];

struct Compiled {
    pattern: OnceLock<Regex>,
    unless: OnceLock<Regex>,
}

impl Compiled {
    const fn new() -> Self {
        Self { pattern: OnceLock::new(), unless: OnceLock::new() }
    }

    fn pattern(&self, rule: &Rule) -> &Regex {
        self.pattern.get_or_init(|| compile(rule.pattern))
    }

    fn unless(&self, rule: &Rule) -> Option<&Regex> {
        (!rule.unless.is_empty()).then(|| self.unless.get_or_init(|| compile(rule.unless)))
    }
}

/// Runs long enough for a sentence in Base64 or hexadecimal digits.
static ENCODED: LazyLock<Regex> = LazyLock::new(|| ascii("[A-Za-z0-9+/_-]{24,}={0,2}"));
static NEGATION: LazyLock<Regex> = LazyLock::new(|| {
    ascii(
        "\\b(?:never|not|don.?t|doesn.?t|won.?t|can.?t|cannot|must not|avoid|without|prevents?|instead of|rather than|refuses? to)(?: (?:ever|be|being|to|directly|the|any|it|attempt|try|model|agent|you|used))*[^a-z0-9]*$",
    )
});
static DETECTS: LazyLock<Regex> = LazyLock::new(|| {
    ascii(
        "(?:detect|flag|scan(?:s|ning)? for|block|prevent|protects? against|such as|e\\.g|example|pattern|phrase|reject|identif|looks? for|recogni|filter)",
    )
});
static DETECTS_ATTEMPTS: LazyLock<Regex> = LazyLock::new(|| {
    ascii(
        "(?:detect|flag|scan|block|prevent|protect|identif|screen|filter|reject|classif|check|guard)[a-z]* [^\\n]{0,80}\\b(?:attempt|try|tries|trying|texts?|prompts?|messages?|contents?|phrases?|instructions?|inputs?|requests?|whether|injections?|jailbreaks?)\\b[^\\n]{0,40}\\b(?:to|that|which|telling|asking|like|whether|tries|into|for)[^a-z0-9]*(?:\\b(?:the model|the agent|an? [a-z]+|model|agent|assistant|llm|mak(?:e|es|ing)|get|trick|cause|force|it|users?|say|says|contain|contains|tell|tells|ask|asks|to|the)\\b[^a-z0-9]*){0,3}$",
    )
});
static EMPHASIS: LazyLock<Regex> =
    LazyLock::new(|| ascii("\\b(?:IMPORTANT|CRITICAL|MUST|MANDATORY|ALWAYS|NEVER)\\b"));
static MARKUP: LazyLock<Regex> = LazyLock::new(|| {
    ascii(
        "< ?/? ?(?:important|hidden|override|instructions?|critical|mandatory|directives?|system[ -](?:prompt|message|instructions?|note|override|reminder)|hidden[ -]instructions?|secret[ -]instructions?|admin[ -](?:note|message|instructions?)|important[ -](?:note|instructions?))(?:[ :=][^<>\\n]{0,40})? ?/? ?>|< ?/? ?(system|secret|admin|assistant)(?:[ :=][^<>\\n]{0,40})? ?/? ?>|<\\|(?:im[ -]?start|im[ -]?end|system|assistant|start header id|end header id|eot id|begin of text)\\|?>|\\[/?inst\\]|<</?sys>>|\\[/?(?:(?:system|admin|developer)\\]|(?:system|admin|developer|role) (?:message|note|override|directive|instructions?|prompt|notice)\\])",
    )
});
static ROLE_LINE: LazyLock<Regex> = LazyLock::new(|| {
    ascii(
        "(?m)^(?:#{2,4} (?:system|instructions?|assistant|human) ?:|(?:human|assistant|system) ?: )|<\\|endoftext\\|>",
    )
});
static SQUEEZED: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    vec![
        (
            "override",
            ascii(
                "(?:ignore|disregard|forget|override|bypass)[a-z]{0,20}(?:all|any|previous|prior|above|your|the|system|earlier)[a-z]{0,30}(?:instruction|prompt|rule|guideline|polic|directive)",
            ),
        ),
        (
            "conceal",
            ascii(
                "(?:donot|dont|never|without)[a-z]{0,10}(?:tell|inform|mention|notify|alert|reveal|show|let)[a-z]{0,24}(?:user|human|anyone)",
            ),
        ),
        (
            "covert",
            ascii(
                "(?:secretly|covertly|silently|quietly)[a-z]{0,12}(?:send|forward|upload|copy|read|include|bcc|call)",
            ),
        ),
        ("persona", ascii("(?:youarenow(?:an?|the|in)|fromnowonyou)")),
    ]
});

/// Compiles a pattern in the notation of the rules.
fn compile(pattern: &str) -> Regex {
    let (pattern, whole_words) = match pattern.strip_prefix('=') {
        Some(raw) => (raw, false),
        None => (pattern, true),
    };
    let mut expanded = pattern.to_owned();
    for _ in 0..2 {
        for (name, words) in WORDS {
            expanded = expanded.replace(name, words);
        }
    }
    let mut out = String::with_capacity(expanded.len() * 2);
    let mut rest = expanded.as_str();
    while let Some(at) = rest.find([' ', '<']) {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        rest = if let Some(tail) = tail.strip_prefix(' ') {
            out.push_str("(?:[^a-z0-9X\\n]+)");
            tail
        } else if let Some((count, tail)) = gap(tail) {
            let before_word = !count.ends_with('~');
            out.push_str("\\b[^\\n]{0,");
            out.push_str(count.trim_end_matches('~'));
            out.push_str(if before_word { "}?\\b" } else { "}?" });
            tail
        } else {
            out.push('<');
            &tail[1..]
        };
    }
    out.push_str(rest);
    ascii(&if whole_words { format!("\\b(?:{out})\\b") } else { out })
}

/// Compiles every pattern of the rules.
#[cfg(test)]
pub(super) fn compile_all() {
    for (rule, compiled) in RULES.iter().zip(&COMPILED) {
        compiled.pattern(rule);
        compiled.unless(rule);
    }
}

/// Splits `<20>rest` or `<20~>rest`.
fn gap(text: &str) -> Option<(&str, &str)> {
    let (count, tail) = text.strip_prefix('<')?.split_once('>')?;
    let digits = count.strip_suffix('~').unwrap_or(count);
    let is_count = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_count.then_some((count, tail))
}

/// A byte pattern without Unicode classes: folded text is ASCII, and such patterns compile fast.
pub(super) fn ascii(pattern: &str) -> Regex {
    RegexBuilder::new(pattern)
        .unicode(false)
        .build()
        .expect("patterns are fixed and tests compile each")
}
