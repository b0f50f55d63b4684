//! Folds a text to lower-case ASCII before the phrase rules read it, so that full-width, accented,
//! look-alike, letter-spaced and zero-width spellings read like plain ones.

use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

use super::unicode::{is_ideographic, is_invisible};

/// Stands for a letter that is not Latin: part of a word, and in no rule.
const OTHER_LETTER: u8 = b'X';
/// Stands for any other character: no part of a word.
const OTHER: u8 = 1;
/// Fewest single letters in a row that count as a letter-spaced word.
const SPACED_LETTERS: usize = 6;

/// A folded text: ASCII bytes, each with the character of the original it came from.
///
/// A line feed stands for the end of a sentence, paragraph or list item; every other run of white
/// space is one space.
#[derive(Debug, Default)]
pub(super) struct Folded {
    pub(super) text: Vec<u8>,
    at: Vec<u32>,
    /// Letter-spaced runs without any sign of where words end, squeezed together.
    pub(super) squeezed: Vec<(usize, usize)>,
}

impl Folded {
    pub(super) fn new(text: &str) -> Self {
        let (letters, at) = to_ascii(text);
        let (letters, at, runs) = join_spaced(&letters, &at);
        lay_out(&letters, &at, &runs)
    }

    /// The character offset in the original of byte `index` of the folded text.
    pub(super) fn origin(&self, index: usize) -> usize {
        self.at.get(index).or(self.at.last()).map_or(0, |&at| at as usize)
    }

    fn push(&mut self, byte: u8, at: u32) {
        self.text.push(byte);
        self.at.push(at);
    }
}

fn to_ascii(text: &str) -> (Vec<u8>, Vec<u32>) {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = Vec::with_capacity(text.len());
    for (index, c) in (0_u32..).zip(text.chars()) {
        if c.is_ascii() {
            bytes.push(c.to_ascii_lowercase() as u8);
            at.push(index);
            continue;
        }
        if is_invisible(c) {
            continue;
        }
        for part in std::iter::once(c).nfkd() {
            if is_combining_mark(part) || is_invisible(part) {
                continue;
            }
            bytes.push(ascii(part));
            at.push(index);
        }
    }
    (bytes, at)
}

fn ascii(c: char) -> u8 {
    if c.is_ascii() {
        return c.to_ascii_lowercase() as u8;
    }
    match c {
        '\u{2018}' | '\u{2019}' | '\u{201B}' | '\u{2032}' => return b'\'',
        '\u{201C}'..='\u{201F}' | '\u{AB}' | '\u{BB}' | '\u{300C}'..='\u{300F}' => return b'"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => return b'-',
        '\u{3002}' => return b'\n',
        '\u{2028}' | '\u{2029}' => return b'\n',
        _ => {}
    }
    if c.is_whitespace() {
        return b' ';
    }
    if let Some(latin) = look_alike(c) {
        return latin;
    }
    if c.is_alphabetic() && !is_ideographic(c) { OTHER_LETTER } else { OTHER }
}

/// The Latin letter that a Cyrillic, Greek, Armenian, small-capital or enclosed letter passes for
/// (a subset of the Unicode confusables, UTS 39).
fn look_alike(c: char) -> Option<u8> {
    for first in ['\u{1F150}', '\u{1F170}', '\u{1F1E6}'] {
        let offset = u32::from(c).wrapping_sub(u32::from(first));
        if offset < 26 {
            return Some(b'a' + u8::try_from(offset).ok()?);
        }
    }
    let latin = match c {
        'а' | 'А' | 'α' | 'Α' | 'ɑ' | 'ᴀ' => b'a',
        'В' | 'в' | 'Β' | 'β' | 'ʙ' | 'ь' | 'Ь' => b'b',
        'с' | 'С' | 'ϲ' | 'Ϲ' | 'ᴄ' => b'c',
        'ԁ' | 'ᴅ' | 'đ' => b'd',
        'е' | 'Е' | 'ε' | 'Ε' | 'ҽ' | 'ᴇ' => b'e',
        'ꜰ' | 'ғ' => b'f',
        'ɡ' | 'ɢ' | 'ց' => b'g',
        'һ' | 'Н' | 'н' | 'Η' | 'հ' | 'ʜ' => b'h',
        'і' | 'І' | 'ι' | 'Ι' | 'ı' | 'ɪ' | 'ɩ' | 'Ӏ' | 'ӏ' => b'i',
        'ј' | 'Ј' | 'ϳ' | 'ᴊ' => b'j',
        'к' | 'К' | 'κ' | 'Κ' | 'ᴋ' => b'k',
        'ʟ' | 'ł' | 'Ł' => b'l',
        'м' | 'М' | 'Μ' | 'ᴍ' => b'm',
        'п' | 'Ν' | 'η' | 'ո' | 'ɴ' => b'n',
        'о' | 'О' | 'ο' | 'Ο' | 'σ' | 'օ' | 'ө' | 'ø' | 'Ø' | 'ᴏ' => b'o',
        'р' | 'Р' | 'ρ' | 'Ρ' | 'ᴘ' => b'p',
        'ԛ' => b'q',
        'г' | 'ᴦ' | 'ʀ' => b'r',
        'ѕ' | 'Ѕ' | 'ꜱ' => b's',
        'т' | 'Т' | 'τ' | 'Τ' | 'ᴛ' => b't',
        'υ' | 'ս' | 'ᴜ' => b'u',
        'ν' | 'ѵ' | 'ᴠ' => b'v',
        'ԝ' | 'ω' | 'ᴡ' => b'w',
        'х' | 'Х' | 'χ' | 'Χ' => b'x',
        'у' | 'У' | 'γ' | 'Υ' | 'ү' | 'ʏ' => b'y',
        'Ζ' | 'ᴢ' => b'z',
        _ => return None,
    };
    Some(latin)
}

/// Joins `i g n o r e` to `ignore`. Two or more separators end a word of a run that has single ones.
fn join_spaced(bytes: &[u8], at: &[u32]) -> (Vec<u8>, Vec<u32>, Vec<(usize, usize)>) {
    let mut out = Vec::with_capacity(bytes.len());
    let mut out_at = Vec::with_capacity(at.len());
    let mut runs = Vec::new();
    let mut index = 0;
    while index < bytes.len() {
        let run = spaced_run(bytes, index);
        if run.letters < SPACED_LETTERS {
            let end = run.end.max(index + 1);
            out.extend_from_slice(&bytes[index..end]);
            out_at.extend_from_slice(&at[index..end]);
            index = end;
            continue;
        }
        let start = out.len();
        let mut gap = 0;
        for position in index..run.end {
            if bytes[position].is_ascii_alphabetic() {
                if gap > 1 {
                    out.push(b' ');
                    out_at.push(at[position]);
                }
                gap = 0;
                out.push(bytes[position]);
                out_at.push(at[position]);
            } else {
                gap += 1;
            }
        }
        if !run.has_words {
            runs.push((start, out.len()));
        }
        index = run.end;
    }
    (out, out_at, runs)
}

struct SpacedRun {
    end: usize,
    letters: usize,
    has_words: bool,
}

/// The longest run of single letters from `start`, each followed by one to four separators.
fn spaced_run(bytes: &[u8], start: usize) -> SpacedRun {
    let is_separator =
        |byte: u8| matches!(byte, b' ' | b'-' | b'.' | b'_' | b'*' | b'|' | b'/' | b'\n');
    let mut run = SpacedRun { end: start, letters: 0, has_words: false };
    let inside_word =
        start.checked_sub(1).is_some_and(|before| bytes[before].is_ascii_alphanumeric());
    if inside_word {
        return run;
    }
    let mut position = start;
    while bytes.get(position).is_some_and(u8::is_ascii_lowercase) {
        if bytes.get(position + 1).is_some_and(u8::is_ascii_alphanumeric) {
            break;
        }
        run.letters += 1;
        run.end = position + 1;
        let gap =
            bytes[position + 1..].iter().take(5).take_while(|byte| is_separator(**byte)).count();
        if !(1..=4).contains(&gap) {
            break;
        }
        position += 1 + gap;
        let goes_on = bytes.get(position).is_some_and(u8::is_ascii_lowercase)
            && !bytes.get(position + 1).is_some_and(u8::is_ascii_alphanumeric);
        run.has_words |= gap > 1 && goes_on;
    }
    run
}

/// Collapses white space and marks where sentences, paragraphs and list items end.
fn lay_out(bytes: &[u8], at: &[u32], runs: &[(usize, usize)]) -> Folded {
    let mut folded = Folded::default();
    let mut moved =
        runs.iter().map(|run| run.0).chain(runs.iter().map(|run| run.1)).collect::<Vec<_>>();
    let mut places = moved.clone();
    places.sort_unstable();
    let mut new_places = Vec::with_capacity(places.len());
    let mut next_place = places.iter().peekable();
    let mut sentence_has_space = false;
    let mut index = 0;
    while index < bytes.len() {
        while next_place.next_if(|place| **place <= index).is_some() {
            new_places.push(folded.text.len());
        }
        let byte = bytes[index];
        if !byte.is_ascii_whitespace() && byte != b'_' {
            folded.push(byte, at[index]);
            index += 1;
            continue;
        }
        let gap = bytes[index..]
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace() || **byte == b'_')
            .count();
        let lines = bytes[index..index + gap].iter().filter(|byte| **byte == b'\n').count();
        let next = &bytes[index + gap..];
        let stop = ends_sentence(&folded.text);
        // "Ignore. Previous. Instructions." is one sentence: a stop after a single word ends none.
        let ends = lines > 1 || (lines == 1 && starts_item(next)) || (sentence_has_space && stop);
        folded.push(if ends { b'\n' } else { b' ' }, at[index]);
        sentence_has_space = !ends && (sentence_has_space || !stop);
        index += gap;
    }
    new_places.resize(places.len(), folded.text.len());
    for place in &mut moved {
        if let Ok(found) = places.binary_search(place) {
            *place = new_places[found];
        }
    }
    let (starts, ends) = moved.split_at(runs.len());
    folded.squeezed = starts.iter().copied().zip(ends.iter().copied()).collect();
    folded
}

fn starts_item(next: &[u8]) -> bool {
    let digits = next.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
    matches!(
        next.first().copied(),
        Some(b'-' | b'*' | b'#' | b'|' | b'>' | b'<' | b'[' | b'{' | OTHER)
    ) || (digits > 0 && matches!(next.get(digits), Some(b'.' | b')')))
}

fn ends_sentence(text: &[u8]) -> bool {
    let closed = text.iter().rev().find(|byte| !matches!(byte, b'"' | b'\'' | b')' | b'`'));
    let short = [b"e.g.".as_slice(), b"i.e.", b"etc.", b"vs."];
    matches!(closed, Some(b'.' | b'!' | b'?')) && !short.iter().any(|end| text.ends_with(end))
}
