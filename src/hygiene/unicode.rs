//! Finds characters that a reader of a text does not see: tags, bidirectional controls, zero-width
//! characters, variation selectors and controls, each outside the places where scripts need them.

use super::{Finding, Source, Weight, escape};

/// Marks of one direction in a row that right-to-left text can explain.
const MARKS_IN_A_ROW: usize = 2;

/// Finds the invisible characters of `text`; neighbours of one class make one finding.
pub(super) fn scan(text: &str, source: Source) -> Vec<Finding> {
    let chars: Vec<char> = text.chars().collect();
    let page = Page::new(&chars, source);
    let mut findings = Vec::new();
    let mut index = 0;
    while index < chars.len() {
        if let Some(length) = flag_length(&chars[index..]) {
            index += length;
            continue;
        }
        let Some((class, weight)) = page.judge(index) else {
            index += 1;
            continue;
        };
        let mut end = index + 1;
        while end < chars.len() && page.judge(end) == Some((class, weight)) {
            end += 1;
        }
        findings.push(Finding { class, weight, at: index, shown: show(class, &chars[index..end]) });
        index = end;
    }
    findings
}

fn show(class: &str, run: &[char]) -> String {
    if class != "tags" {
        return escape(run.iter().copied());
    }
    escape(run.iter().map(|&c| {
        let low = u32::from(c) & 0x7F;
        char::from_u32(low).unwrap_or(c)
    }))
}

/// The characters of a text with what holds for the whole of it.
struct Page<'a> {
    chars: &'a [char],
    source: Source,
    right_to_left: bool,
    balanced: bool,
}

impl<'a> Page<'a> {
    fn new(chars: &'a [char], source: Source) -> Self {
        let right_to_left = chars.iter().any(|&c| is_right_to_left(c));
        Self { chars, source, right_to_left, balanced: is_balanced(chars) }
    }

    fn before(&self, index: usize) -> Option<char> {
        index.checked_sub(1).and_then(|at| self.chars.get(at)).copied()
    }

    fn after(&self, index: usize) -> Option<char> {
        self.chars.get(index + 1).copied()
    }

    /// The class and weight of the character at `index`, or `None` for one that may stand there.
    fn judge(&self, index: usize) -> Option<(&'static str, Weight)> {
        let c = *self.chars.get(index)?;
        if matches!(c, ' '..='~' | '\n' | '\r' | '\t') {
            return None;
        }
        let (before, after) = (self.before(index), self.after(index));
        let breach = |class| Some((class, Weight::Breach));
        match c {
            '\u{1B}' | '\u{9B}' => breach("ansi"),
            // Form feeds part the pages of old plain-text documents.
            '\u{B}' | '\u{C}' if self.source == Source::Resource => Some(("control", Weight::Note)),
            '\0'..='\u{1F}' | '\u{7F}'..='\u{9F}' => breach("control"),
            '\u{E0000}'..='\u{E007F}' => breach("tags"),
            '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {
                let explained = self.right_to_left && self.balanced;
                Some(("bidi", if explained { Weight::Note } else { Weight::Breach }))
            }
            '\u{200E}' | '\u{200F}' | '\u{61C}' => {
                let before = self.chars[..=index].iter().rev().take(MARKS_IN_A_ROW + 1);
                let explained = self.right_to_left && !before.clone().all(|&other| is_mark(other));
                if explained { None } else { breach("bidi") }
            }
            '\u{FEFF}' if index == 0 => Some(("byte-order-mark", Weight::Note)),
            '\u{AD}' => Some(("soft-hyphen", Weight::Note)),
            '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFD}' => {
                Some(("private-use", Weight::Note))
            }
            '\u{200D}' if self.joins(index) => None,
            '\u{200C}'
                if before.is_some_and(is_joining_script) && after.is_none_or(may_follow_zwnj) =>
            {
                None
            }
            '\u{200B}'
                if before.is_some_and(is_unspaced_script)
                    || after.is_some_and(is_unspaced_script) =>
            {
                None
            }
            '\u{115F}' | '\u{1160}'
                if before.is_some_and(is_jamo) || after.is_some_and(is_jamo) =>
            {
                None
            }
            '\u{17B4}' | '\u{17B5}'
                if before.is_some_and(|c| matches!(c, '\u{1780}'..='\u{17B3}')) =>
            {
                None
            }
            '\u{34F}' if before.is_some_and(is_right_to_left) => None,
            '\u{180B}'..='\u{180D}' | '\u{180F}' if before.is_some_and(is_mongolian) => None,
            '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}' => self.judge_selector(index, c),
            other if is_invisible(other) => breach("zero-width"),
            _ => None,
        }
    }

    /// Whether the zero-width joiner at `index` binds an emoji sequence or shapes a letter.
    fn joins(&self, index: usize) -> bool {
        let modifies = |c: &&char| matches!(c, '\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}');
        let base = self.chars[..index].iter().rev().find(|c| !modifies(c)).copied();
        let emoji = base.is_some_and(is_emoji) && self.after(index).is_some_and(is_emoji);
        emoji || self.before(index).is_some_and(is_joining_script)
    }

    fn judge_selector(&self, index: usize, c: char) -> Option<(&'static str, Weight)> {
        let before = self.before(index);
        let explained = before.is_some_and(|base| match c {
            '\u{FE0E}' | '\u{FE0F}' => is_emoji(base) || matches!(base, '0'..='9' | '#' | '*'),
            '\u{FE00}'..='\u{FE0D}' => is_ideographic(base) || takes_selector(base),
            _ => is_ideographic(base),
        });
        if explained { None } else { Some(("variation-selector", Weight::Breach)) }
    }
}

/// The length of a well-formed subdivision flag at the start of `chars` (UTS 51): a black flag,
/// three to six tag characters and a cancel tag.
fn flag_length(chars: &[char]) -> Option<usize> {
    if chars.first() != Some(&'\u{1F3F4}') {
        return None;
    }
    let is_tag = |c: &&char| matches!(c, '\u{E0030}'..='\u{E0039}' | '\u{E0061}'..='\u{E007A}');
    let tags = chars[1..].iter().take(7).take_while(is_tag).count();
    let ended = chars.get(1 + tags) == Some(&'\u{E007F}');
    ((3..=6).contains(&tags) && ended).then_some(tags + 2)
}

/// Whether every embedding, override and isolate is closed in its paragraph by its own kind.
fn is_balanced(chars: &[char]) -> bool {
    let mut open = Vec::new();
    for &c in chars {
        match c {
            '\u{202A}' | '\u{202B}' | '\u{202D}' | '\u{202E}' => open.push('\u{202C}'),
            '\u{2066}'..='\u{2068}' => open.push('\u{2069}'),
            '\u{202C}' | '\u{2069}' if open.pop() != Some(c) => return false,
            '\n' if !open.is_empty() => return false,
            _ => {}
        }
    }
    open.is_empty()
}

fn is_mark(c: char) -> bool {
    matches!(c, '\u{200E}' | '\u{200F}' | '\u{61C}')
}

/// Characters that take no room and show nothing, whatever they are good for.
pub(super) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FFF9}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}')
}

/// Ideographs, kana and hangul: scripts written without spaces or with their own variants.
pub(super) fn is_ideographic(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11FF}' | '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}'
        | '\u{3021}'..='\u{3029}' | '\u{3041}'..='\u{30FF}' | '\u{3105}'..='\u{318E}'
        | '\u{31A0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{AC00}'..='\u{D7A3}' | '\u{F900}'..='\u{FAFF}' | '\u{FF66}'..='\u{FF9D}'
        | '\u{20000}'..='\u{3FFFD}')
}

fn is_right_to_left(c: char) -> bool {
    matches!(c, '\u{5D0}'..='\u{5F2}' | '\u{620}'..='\u{8FF}' | '\u{FB1D}'..='\u{FDFF}'
        | '\u{FE70}'..='\u{FEFC}' | '\u{10800}'..='\u{10FFF}' | '\u{1E800}'..='\u{1EFFF}')
}

/// Arabic, Syriac, Mongolian and the Indic scripts, whose letters a joiner shapes.
fn is_joining_script(c: char) -> bool {
    matches!(c,
        '\u{620}'..='\u{7FF}' | '\u{840}'..='\u{DFF}' | '\u{F00}'..='\u{109F}'
        | '\u{1780}'..='\u{17FF}' | '\u{1820}'..='\u{18AA}' | '\u{1900}'..='\u{1CFF}'
        | '\u{A800}'..='\u{ABFF}' | '\u{FB50}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}'
        | '\u{11000}'..='\u{11FFF}')
}

fn may_follow_zwnj(c: char) -> bool {
    is_joining_script(c) || c.is_whitespace() || c.is_ascii_punctuation()
}

/// Thai, Lao, Tibetan, Myanmar and Khmer mark places for a line break with U+200B.
fn is_unspaced_script(c: char) -> bool {
    matches!(c, '\u{E01}'..='\u{109F}' | '\u{1780}'..='\u{17FF}' | '\u{1950}'..='\u{19FF}'
        | '\u{1A20}'..='\u{1AAF}' | '\u{A9E0}'..='\u{A9FF}' | '\u{AA60}'..='\u{AADF}')
}

fn is_jamo(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{115E}' | '\u{1161}'..='\u{11FF}' | '\u{A960}'..='\u{A97F}'
        | '\u{D7B0}'..='\u{D7FF}')
}

fn is_mongolian(c: char) -> bool {
    matches!(c, '\u{1820}'..='\u{18AA}')
}

/// Mathematical operators and other bases of the standardized variation sequences.
fn takes_selector(c: char) -> bool {
    matches!(c, '0' | '\u{1000}'..='\u{109F}' | '\u{2200}'..='\u{22FF}' | '\u{2A00}'..='\u{2AFF}'
        | '\u{3000}'..='\u{303F}' | '\u{A840}'..='\u{A877}' | '\u{FF01}'..='\u{FF5E}'
        | '\u{1D400}'..='\u{1D7FF}')
}

fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{A9}' | '\u{AE}' | '\u{203C}' | '\u{2049}' | '\u{20E3}' | '\u{2122}' | '\u{2139}'
        | '\u{2190}'..='\u{21FF}' | '\u{2300}'..='\u{23FF}' | '\u{2460}'..='\u{24FF}'
        | '\u{25A0}'..='\u{27BF}' | '\u{2900}'..='\u{297F}' | '\u{2B00}'..='\u{2BFF}'
        | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}' | '\u{1F000}'..='\u{1FAFF}')
}
