//! Finds orders to read files that hold credentials.
//!
//! Naming such a file is common in honest texts, so a verb and a path are no breach by themselves:
//! something near them must show that the content is meant to travel, or that a model is told to go
//! and get it.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::Weight;
use super::phrases::{Hit, ascii, is_negated, sentence_around};

/// How far around the path the sign of an order may stand, in characters.
const NEARBY: usize = 160;

/// Adds a hit for every order to read a credential file.
pub(super) fn find(text: &[u8], hits: &mut Vec<Hit>) {
    for path in PATHS.captures_iter(text).take(50) {
        let Some(whole) = path.get(0) else { continue };
        let sentence = sentence_around(text, whole.start());
        let start = sentence.start.max(whole.start().saturating_sub(90));
        let Some(verb) = VERBS.find_iter(&text[start..whole.start()]).last() else {
            continue;
        };
        let verb_at = start + verb.start();
        if is_negated(&text[sentence.start..verb_at])
            || REFUSES.is_match(&text[sentence.start..whole.start()])
        {
            continue;
        }
        let near = &text[verb_at.saturating_sub(NEARBY)..text.len().min(whole.end() + NEARBY)];
        let is_order = TRAVELS.is_match(near) || (path.get(1).is_some() && TOLD.is_match(near));
        if is_order {
            let range = verb_at..whole.end();
            hits.push(Hit {
                class: "secret-io",
                weight: Weight::Breach,
                hides_or_leaks: true,
                range,
            });
        }
    }
}

/// Group 1 holds the paths that few honest descriptions name.
static PATHS: LazyLock<Regex> = LazyLock::new(|| {
    ascii(
        "(id (?:rsa|ed25519|ecdsa|dsa)\\b|\\.aws/credentials|/etc/passwd|/etc/shadow|wallet\\.dat|\\.pgpass|\\.git-credentials|\\.bash history|mcp\\.json|claude desktop config)|\\.ssh\\b|\\.netrc|\\.npmrc|\\.kube/config|\\.docker/config\\.json|\\.gnupg|(?:^|[^a-z0-9\\]])\\.env\\b|private keys?\\b|keychain\\b|keyring\\b|(?:seed|recovery) phrase|cookies\\.sqlite|login data\\b",
    )
});
static VERBS: LazyLock<Regex> = LazyLock::new(|| {
    ascii(
        "\\b(?:read|reading|open|cat|load|get|access|fetch|include|retrieve|grab|collect|view|dump|copy|extract|attach|upload|send|paste|print|append|find|take|look up|contents? of|forward|encode|locate|gather|obtain|scan|check)\\b",
    )
});
static REFUSES: LazyLock<Regex> = LazyLock::new(|| {
    ascii(
        "\\b(?:never|den(?:y|ies)|block(?:s|ed)?|refus(?:e|es|ed)|forbid(?:s|den)?|prevents?|rejects?|protects?|detects?|flags?|exclud(?:e|es|ed)|skips?|cannot|can.?t|not allowed|disallow(?:s|ed)?|attempts? to)\\b",
    )
});
/// The content goes into an argument or to somebody.
static TRAVELS: LazyLock<Regex> = LazyLock::new(|| {
    const SLOT: &str = "(?:param|parameters?|arguments?|args?|fields?|sidenote|side note|notes?|context|feedback|query|comments?|reason|metadata|headers?|body)\\b";
    const THING: &str = "(?:it|them|its? [a-z]+|(?:the|their|full|whole|all|any) (?:[a-z]+ )?(?:contents?|text|values?|results?|output|keys?|files?|lines)|everything|what you|that|this)";
    ascii(&format!(
        "\\bcontents?\\b[^\\n]{{0,40}}\\b(?:as|in|into|to|inside|via|through|within)\\b[^\\n]{{0,30}}\\b{SLOT}|\\b(?:pass|provide|put|include|insert|append|supply|place|embed|encode|use|add|return|store|write|give|set|with)(?:ing)? {THING}\\b[^\\n]{{0,30}}\\b(?:as|in|into|inside|within|through|via)\\b[^\\n]{{0,30}}\\b{SLOT}|\\b(?:send|upload|forward|paste|attach|submit|post|transmit|exfiltrate|e?.?mail|leak)(?:ing)? {THING}\\b|\\b(?:pass|provide|supply) (?:it|them) as [`\"']|\\b(?:send|upload|forward|paste|attach|submit|transmit|exfiltrate|leak)\\b[^\\n]{{0,40}}\\bcontents? of\\b|\\b(?:as|in|into|inside|within|via|through) (?:the |a |an |your |this )?[`'\"]?(?:[a-z]+[`'\"]? ){{0,2}}(?:param|parameter|argument|sidenote|side note)\\b"
    ))
});
/// A model is told to do it.
static TOLD: LazyLock<Regex> = LazyLock::new(|| {
    ascii(
        "\\b(?:you (?:must|should|need to|have to|are required)|(?:always|first|please|also|make sure|be sure|remember to)\\b|(?:before|prior to|whenever|when|after) (?:you|using|calling|invoking|running|any|each|every)|in order to (?:use|call)|(?:or|otherwise|else) (?:the|this) tool|(?:the|this) tool (?:will not|won.?t|does not|cannot) work|and (?:send|include|pass|paste|return|report|give|show|print|provide|add|append|post|put|store)|contents? of)",
    )
});
