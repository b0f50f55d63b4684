//! A streaming JSON tokenizer: what a JSON-RPC line says of itself, without keeping the line.

use serde_json::Value;

/// Containers deeper than this are not followed (1 MiB of bits). A line of 256 MiB can nest deeper.
const MAX_DEPTH: usize = 8 << 20;
/// Keys, ids and methods longer than this are not told apart.
const MAX_CAPTURE: usize = 1_024;

/// A member whose value matters only as a scalar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Int(i64),
    Text(String),
    Other,
}

impl Scalar {
    fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::String(text) if text.len() <= MAX_CAPTURE => Self::Text(text.clone()),
            value => value.as_i64().map_or(Self::Other, Self::Int),
        }
    }
}

/// What decides where a line goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) object: bool,
    pub(crate) array: bool,
    /// `"jsonrpc": "2.0"`.
    pub(crate) jsonrpc: bool,
    pub(crate) id: Option<Scalar>,
    pub(crate) method: Option<Scalar>,
    pub(crate) result: bool,
    pub(crate) error: bool,
    /// `isError` of the result is `true`.
    pub(crate) is_error: bool,
    /// `code` of the error.
    pub(crate) code: Option<i64>,
}

impl Facts {
    /// The same facts of a parsed value.
    pub(crate) fn of(value: &Value) -> Self {
        let member = |name: &str| value.get(name);
        Self {
            object: value.is_object(),
            array: value.is_array(),
            jsonrpc: member("jsonrpc").and_then(Value::as_str) == Some("2.0"),
            id: member("id").map(Scalar::of),
            method: member("method").map(Scalar::of),
            result: member("result").is_some(),
            error: member("error").is_some(),
            is_error: member("result").and_then(|result| result.get("isError"))
                == Some(&Value::Bool(true)),
            code: member("error").and_then(|error| error.get("code")).and_then(Value::as_i64),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value must come.
    Value,
    /// After `[`.
    ItemOrEnd,
    /// After `{`.
    KeyOrEnd,
    /// After a comma in an object.
    Key,
    Colon,
    /// After a value inside a container.
    CommaOrEnd,
    Text {
        key: bool,
    },
    Escape {
        key: bool,
    },
    Hex {
        key: bool,
        left: u8,
    },
    /// A number or a literal.
    Bare,
    /// After the outermost value.
    Done,
    /// No JSON, or deeper than is followed.
    Broken,
}

/// A known key of the message (depth 1) or of its result or error (depth 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Jsonrpc,
    Id,
    Method,
    Result,
    Error,
    IsError,
    Code,
    Other,
}

/// Reads one line in pieces.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    state: State,
    /// One bit for each open container: whether it is an object.
    kinds: Vec<u64>,
    depth: usize,
    deepest: usize,
    outer: Name,
    inner: Name,
    capture: Vec<u8>,
    capturing: bool,
    facts: Facts,
}

impl Default for Tokenizer {
    fn default() -> Self {
        Self {
            state: State::Value,
            kinds: Vec::new(),
            depth: 0,
            deepest: 0,
            outer: Name::Other,
            inner: Name::Other,
            capture: Vec::new(),
            capturing: false,
            facts: Facts::default(),
        }
    }
}

impl Tokenizer {
    /// The facts of a complete line and how deep it nests; `None` when it is no JSON.
    pub(crate) fn skim(line: &[u8]) -> Option<(Facts, usize)> {
        let mut tokenizer = Self::default();
        tokenizer.push(line);
        tokenizer.finish()
    }

    /// Reads on.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            match self.state {
                State::Broken => return,
                State::Text { key } => {
                    let run = plain_run(rest);
                    self.keep(&rest[..run]);
                    rest = &rest[run..];
                    let Some((byte, mut after)) = rest.split_first() else { return };
                    self.keep(&[*byte]);
                    match byte {
                        // The usual escapes, without leaving the text.
                        b'\\' if after.first().is_some_and(|byte| b"\"\\n".contains(byte)) => {
                            self.keep(&after[..1]);
                            after = &after[1..];
                        }
                        b'"' => self.end_of_text(key),
                        b'\\' => self.state = State::Escape { key },
                        // RFC 8259, section 7: control characters must be escaped.
                        _ => self.state = State::Broken,
                    }
                    rest = after;
                    continue;
                }
                State::Escape { key } => {
                    self.keep(&[*byte]);
                    self.state = match byte {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                            State::Text { key }
                        }
                        b'u' => State::Hex { key, left: 4 },
                        _ => State::Broken,
                    };
                }
                State::Hex { key, left } => {
                    self.keep(&[*byte]);
                    self.state = match (byte.is_ascii_hexdigit(), left) {
                        (false, _) => State::Broken,
                        (true, 1) => State::Text { key },
                        (true, left) => State::Hex { key, left: left - 1 },
                    };
                }
                State::Bare if byte.is_ascii_alphanumeric() || b"+-.".contains(byte) => {
                    self.keep(&[*byte]);
                }
                State::Bare => {
                    self.end_of_bare();
                    continue;
                }
                _ if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') => {}
                _ => self.structure(*byte),
            }
            rest = after;
        }
    }

    /// Ends the line.
    pub(crate) fn finish(mut self) -> Option<(Facts, usize)> {
        if self.state == State::Bare {
            self.end_of_bare();
        }
        (self.state == State::Done).then_some((self.facts, self.deepest))
    }

    /// Bytes held, for the test of the bound.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.kinds.capacity() * 8 + self.capture.capacity()
    }

    fn structure(&mut self, byte: u8) {
        match (self.state, byte) {
            (State::Value | State::ItemOrEnd, b'{') => self.open(true),
            (State::Value | State::ItemOrEnd, b'[') => self.open(false),
            (State::Value | State::ItemOrEnd, b'"') => {
                let wanted = self.wants_scalar();
                self.start(State::Text { key: false }, wanted, byte);
            }
            (State::Value | State::ItemOrEnd, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                // A short number is checked by its grammar, so all are captured.
                self.start(State::Bare, true, byte);
            }
            (State::KeyOrEnd | State::Key, b'"') => {
                let wanted = self.depth <= 2;
                self.start(State::Text { key: true }, wanted, byte);
            }
            (State::Colon, b':') => self.state = State::Value,
            (State::CommaOrEnd, b',') => {
                self.state = if self.in_object() { State::Key } else { State::Value };
            }
            (State::CommaOrEnd | State::KeyOrEnd, b'}') if self.in_object() => self.close(),
            (State::CommaOrEnd | State::ItemOrEnd, b']') if !self.in_object() => self.close(),
            _ => self.state = State::Broken,
        }
    }

    fn start(&mut self, state: State, capturing: bool, byte: u8) {
        self.state = state;
        self.capture.clear();
        self.capturing = capturing;
        self.keep(&[byte]);
    }

    #[inline]
    fn keep(&mut self, bytes: &[u8]) {
        if self.capturing {
            // Two bytes more than the cap are room for the quotes; longer ones are told by length.
            let room = (MAX_CAPTURE + 3).saturating_sub(self.capture.len());
            self.capture.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn wants_scalar(&self) -> bool {
        self.depth == 1
            && self.in_object()
            && matches!(self.outer, Name::Jsonrpc | Name::Id | Name::Method)
    }

    fn in_object(&self) -> bool {
        let Some(at) = self.depth.checked_sub(1) else { return false };
        self.kinds.get(at / 64).is_some_and(|bits| bits >> (at % 64) & 1 == 1)
    }

    fn open(&mut self, object: bool) {
        if self.depth == MAX_DEPTH {
            self.state = State::Broken;
            return;
        }
        match self.depth {
            0 => (self.facts.object, self.facts.array) = (object, !object),
            _ => self.value(&Scalar::Other, false),
        }
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.kinds.len() {
            self.kinds.push(0);
        }
        if let Some(bits) = self.kinds.get_mut(word) {
            *bits = *bits & !(1 << bit) | u64::from(object) << bit;
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        self.inner = Name::Other;
        self.state = if object { State::KeyOrEnd } else { State::ItemOrEnd };
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.state = if self.depth == 0 { State::Done } else { State::CommaOrEnd };
    }

    fn end_of_text(&mut self, key: bool) {
        let text = self.captured();
        if key {
            let name = text.as_deref().unwrap_or("");
            match self.depth {
                1 => self.outer = outer_name(name),
                2 => self.inner = inner_name(name),
                _ => {}
            }
            self.state = State::Colon;
            return;
        }
        self.value(&text.map_or(Scalar::Other, Scalar::Text), false);
        self.state = if self.depth == 0 { State::Done } else { State::CommaOrEnd };
    }

    /// The captured text, decoded.
    fn captured(&self) -> Option<String> {
        if !self.capturing || self.capture.len() > MAX_CAPTURE + 2 {
            return None;
        }
        serde_json::from_slice(&self.capture).ok()
    }

    fn end_of_bare(&mut self) {
        let text = self.capture.as_slice();
        let fits = match text {
            b"true" | b"false" | b"null" => true,
            // A number too long to capture is taken as it comes.
            text if text.len() > MAX_CAPTURE => text.iter().all(|b| !b"tfn".contains(b)),
            text => is_number(text),
        };
        if !fits {
            self.state = State::Broken;
            return;
        }
        let scalar = match text {
            b"null" => Scalar::Null,
            text => std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok())
                .map_or(Scalar::Other, Scalar::Int),
        };
        let is_true = text == b"true";
        self.value(&scalar, is_true);
        self.state = if self.depth == 0 { State::Done } else { State::CommaOrEnd };
    }

    /// A value begins (a container) or ended (a scalar) where the known keys say. The last of
    /// equal keys counts, as it does for serde_json.
    fn value(&mut self, scalar: &Scalar, is_true: bool) {
        if !self.in_object() || !self.facts.object {
            return;
        }
        let facts = &mut self.facts;
        match (self.depth, self.outer, self.inner) {
            (1, Name::Jsonrpc, _) => facts.jsonrpc = *scalar == Scalar::Text("2.0".into()),
            (1, Name::Id, _) => facts.id = Some(scalar.clone()),
            (1, Name::Method, _) => facts.method = Some(scalar.clone()),
            (1, Name::Result, _) => (facts.result, facts.is_error) = (true, false),
            (1, Name::Error, _) => (facts.error, facts.code) = (true, None),
            (2, Name::Result, Name::IsError) => facts.is_error = is_true,
            (2, Name::Error, Name::Code) => {
                facts.code = if let Scalar::Int(code) = scalar { Some(*code) } else { None };
            }
            _ => {}
        }
    }
}

fn outer_name(name: &str) -> Name {
    match name {
        "jsonrpc" => Name::Jsonrpc,
        "id" => Name::Id,
        "method" => Name::Method,
        "result" => Name::Result,
        "error" => Name::Error,
        _ => Name::Other,
    }
}

fn inner_name(name: &str) -> Name {
    match name {
        "isError" => Name::IsError,
        "code" => Name::Code,
        _ => Name::Other,
    }
}

/// The number grammar of RFC 8259, section 6.
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|b| b.is_ascii_digit()).count();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(text);
    if whole == 0 || (whole > 1 && text.starts_with(b"0")) {
        return false;
    }
    let mut rest = &text[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let n = digits(fraction);
        if n == 0 {
            return false;
        }
        rest = &fraction[n..];
    }
    if let Some(exponent) = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) {
        let sign = usize::from(exponent.starts_with(b"+") || exponent.starts_with(b"-"));
        let n = digits(&exponent[sign..]);
        if n == 0 {
            return false;
        }
        rest = &exponent[sign + n..];
    }
    rest.is_empty()
}

/// How many bytes stand before the next quote, backslash or control character. Whole blocks are
/// asked at once so that the compiler can use wide registers: most of a long line is text.
fn plain_run(bytes: &[u8]) -> usize {
    let special = |byte: u8| (byte == b'"') | (byte == b'\\') | (byte < 0x20);
    let mut at = 0;
    for block in bytes.chunks_exact(64) {
        if block.iter().fold(false, |any, byte| any | special(*byte)) {
            break;
        }
        at += block.len();
    }
    for word in bytes[at..].chunks_exact(8) {
        let found = specials(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += word.len();
    }
    let rest = &bytes[at..];
    at + rest.iter().position(|byte| special(*byte)).unwrap_or(rest.len())
}

/// The high bit of each special byte, exact up to the lowest one: a byte is below `n` when taking
/// `n` from it borrows from its high bit.
fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES << 7;
    let below = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | is(b'"') | is(b'\\')) & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn json() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("false".to_owned()),
            any::<i64>().prop_map(|n| n.to_string()),
            any::<u64>().prop_map(|n| n.to_string()),
            (-1e9..1e9_f64).prop_map(|n| Value::from(n).to_string()),
            Just("-32602".to_owned()),
            Just("1E+2".to_owned()),
            Just(r#""2.0""#.to_owned()),
            Just(r#""\u0069\/\\\"\ud83d\ude00""#.to_owned()),
            any::<String>().prop_map(|text| Value::from(text).to_string()),
        ];
        let key = prop_oneof![
            prop::sample::select(vec![
                r#""isError""#,
                r#""code""#,
                r#""id""#,
                r#""result""#,
                r#""\u0063ode""#
            ])
            .prop_map(str::to_owned),
            any::<String>().prop_map(|text| Value::from(text).to_string()),
        ];
        scalar.prop_recursive(4, 24, 5, move |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(|items| format!("[ {} ]", items.join(" ,"))),
                vec((key.clone(), inner), 0..4).prop_map(|members| object(&members)),
            ]
        })
    }

    fn object(members: &[(String, String)]) -> String {
        let members: Vec<_> = members.iter().map(|(k, v)| format!("{k} :{v}")).collect();
        format!("{{{}}}", members.join(", "))
    }

    fn line() -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec![
            r#""jsonrpc""#,
            r#""id""#,
            r#""method""#,
            r#""result""#,
            r#""error""#,
            r#""\u0069d""#,
            r#""x""#,
        ]);
        let whole = vec((key.prop_map(str::to_owned), json()), 0..6).prop_map(|m| object(&m));
        prop_oneof![4 => whole, 1 => json()]
    }

    proptest! {
        #[test]
        fn it_agrees_with_serde_json_however_the_line_is_split(
            line in line(),
            cuts in vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let bytes = line.as_bytes();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut tokenizer = Tokenizer::default();
            for pair in cuts.windows(2) {
                tokenizer.push(&bytes[pair[0]..pair[1]]);
            }
            let value: Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(tokenizer.finish().map(|(facts, _)| facts), Some(Facts::of(&value)));
        }

        #[test]
        fn a_damaged_line_is_refused_whenever_serde_json_refuses_its_syntax(
            line in line(),
            at in any::<prop::sample::Index>(),
            byte in prop::sample::select(b"{}[],:\"\\x1 .-\x01".to_vec()),
        ) {
            let mut bytes = line.into_bytes();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let skimmed = Tokenizer::skim(&bytes).is_some();
            match serde_json::from_slice::<Value>(&bytes) {
                Ok(_) => prop_assert!(skimmed),
                // What serde_json cannot hold is still syntax: lone surrogates, huge numbers, and
                // characters cut in half.
                Err(error) => {
                    let said = error.to_string();
                    let held = ["surrogate", "hex escape", "out of range", "unicode"];
                    prop_assert!(!skimmed || held.iter().any(|word| said.contains(word)), "{}", said);
                }
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
            let _ = Tokenizer::skim(&bytes);
        }

        #[test]
        fn random_structure_never_panics(text in r#"[\[\]{}:,"\\ 0-9tfnu.eE+-]{0,80}"#) {
            let skimmed = Tokenizer::skim(text.as_bytes()).is_some();
            if serde_json::from_str::<Value>(&text).is_ok() {
                prop_assert!(skimmed);
            }
        }
    }

    #[test]
    fn the_id_may_stand_last_and_depth_is_counted() {
        let deep = format!(
            r#"{{"result":{{"isError":true,"x":{}{}}},"jsonrpc":"2.0","id":7}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        let (facts, depth) = Tokenizer::skim(deep.as_bytes()).unwrap();
        assert_eq!(facts.id, Some(Scalar::Int(7)));
        assert!(facts.jsonrpc && facts.result && facts.is_error && !facts.error);
        assert_eq!(depth, 100_002);
        assert_eq!(Tokenizer::skim(&b"[".repeat(MAX_DEPTH + 1)), None);
    }

    #[test]
    fn only_members_of_the_message_count() {
        let text = r#"{"a":{"id":1,"result":{"isError":true}},"error":{"data":{"code":5}}}"#;
        let (facts, _) = Tokenizer::skim(text.as_bytes()).unwrap();
        assert_eq!(facts, Facts { object: true, error: true, ..Facts::default() });
    }
}
