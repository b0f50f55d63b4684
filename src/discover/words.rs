//! Names cut into segments.

use std::{collections::BTreeSet, sync::LazyLock};

use crate::classes::CLASSES;

/// The segments of a name: broken where a lower-case letter or digit meets an upper-case one, where
/// an acronym ends, and at everything that is neither letter nor digit; lower case.
pub(super) fn segments(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().take(256).collect();
    let mut found = Vec::new();
    let mut current = String::new();
    for (i, &c) in chars.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|i| chars.get(i)).copied();
        let after = chars.get(i + 1).copied();
        let hump = c.is_uppercase()
            && before.is_some_and(|b| {
                b.is_lowercase()
                    || b.is_ascii_digit()
                    || b.is_uppercase() && after.is_some_and(char::is_lowercase)
            });
        if (hump || !c.is_alphanumeric()) && !current.is_empty() {
            found.push(std::mem::take(&mut current));
        }
        if c.is_alphanumeric() {
            current.extend(c.to_lowercase());
        }
    }
    if !current.is_empty() {
        found.push(current);
    }
    found
}

/// A name without case and separators, as the role table writes it.
pub(super) fn folded(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).take(64).collect()
}

/// Whether any operation knows the segment as a verb.
pub(super) fn is_verb(segment: &str) -> bool {
    static VERBS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
        CLASSES.operations.iter().flat_map(|op| op.verbs.iter().map(String::as_str)).collect()
    });
    VERBS.contains(segment)
}

/// The first word of a description, the -s of the third person stripped.
pub(super) fn first_word(description: &str) -> Option<String> {
    let word: String =
        description.trim_start().chars().take_while(|c| c.is_alphabetic()).take(32).collect();
    let word = word.to_lowercase();
    let bare = word.strip_suffix('s').filter(|bare| is_verb(bare)).map(str::to_owned);
    bare.or((!word.is_empty()).then_some(word))
}
