//! Text of a server made safe to show: everything a terminal, a log or a reader could be fooled by
//! is written as an escape, and long text is cut.

/// At most `cap` characters of a text, with control characters, bidi controls, invisible
/// characters and line ends escaped. A cut is marked by `…`.
pub fn safe(text: &str, cap: usize) -> String {
    let mut out = String::with_capacity(text.len().min(cap * 4));
    for (n, c) in text.chars().enumerate() {
        if n == cap {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_hidden(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// The known word nearest to one that is unknown, if one is near; case does not count.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    // A third of the letters wrong is still the same word; more is another one.
    let letters = word.chars().count();
    let far = if letters < 2 { 0 } else { (letters / 3).clamp(1, 3) };
    known
        .into_iter()
        .map(|name| (strsim::osa_distance(&word, &name.to_lowercase()), name))
        .filter(|&(distance, _)| distance <= far)
        .min()
        .map(|(_, name)| name)
}

/// Whether a character is shown by nothing, or changes how others are shown.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
            | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0F
            | 0xFEFF | 0xFFA0 | 0xFFF9..=0xFFFB | 0xE0000..=0xE01EF | 0xE000..=0xF8FF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_fool_a_reader_is_written_out() {
        assert_eq!(
            safe("a\x1b[31mb\u{202e}c\nd\u{200b}", 100),
            "a\\u{1b}[31mb\\u{202e}c\\nd\\u{200b}"
        );
        assert_eq!(safe("ünï 日本", 100), "ünï 日本");
        assert_eq!(safe(&"x".repeat(10), 4), "xxxx…");
    }
}
