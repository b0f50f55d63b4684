//! What a probe sent, in every spelling a server may echo it in, and how to take it out of a text.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// Stands in a text where something the probe sent was taken out.
pub const MARK: &str = "\u{fffc}";

/// Bytes below which a probe's string is left in a text: it could be part of any word.
const SHORTEST: usize = 4;
/// Bytes above which a probe's string is looked for as it is and in JSON escapes only.
const LONG: usize = 2 * 1024;

/// A text in lower case (ASCII) with plain quotes, dashes and spaces, as the vocabulary expects it.
pub fn fold(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            '\u{2018}' | '\u{2019}' | '\u{201b}' => '\'',
            '\u{201c}' | '\u{201d}' | '\u{201f}' => '"',
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            '\u{a0}' | '\u{2007}' | '\u{202f}' => ' ',
            other => other.to_ascii_lowercase(),
        })
        .collect()
}

/// The spellings of everything one probe sent.
pub struct Spellings {
    needles: Option<AhoCorasick>,
    addresses: Vec<String>,
}

impl Spellings {
    /// The spellings of these URLs, paths and statements. A bare host or address is none of them:
    /// it stays in the text.
    pub fn of(sent: &[&str]) -> Self {
        let mut all = BTreeSet::new();
        let mut addresses = BTreeSet::new();
        for text in sent {
            spell(text.trim(), &mut all, &mut addresses);
        }
        let needles: BTreeSet<_> = all
            .iter()
            .map(|spelling| fold(spelling))
            .filter(|spelling| spelling.len() >= SHORTEST && !spelling.contains(MARK))
            .collect();
        let needles = if needles.is_empty() { None } else { automaton(&needles) };
        Self { needles, addresses: addresses.into_iter().collect() }
    }

    /// A folded text with a [`MARK`] wherever something sent stood. Doing it twice changes nothing.
    pub fn strip(&self, folded: &str) -> String {
        let Some(needles) = &self.needles else { return folded.to_owned() };
        let mut text = String::with_capacity(folded.len());
        needles.replace_all_with(folded, &mut text, |_, _, text| {
            text.push_str(MARK);
            true
        });
        text
    }

    /// Whether a folded text names an IP address that was sent as the host of a URL.
    pub(super) fn address_in(&self, folded: &str) -> bool {
        self.addresses.iter().any(|address| folded.contains(address.as_str()))
    }
}

/// One automaton serves one reply, so the kind that is built fastest is the fastest.
fn automaton(needles: &BTreeSet<String>) -> Option<AhoCorasick> {
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(AhoCorasickKind::NoncontiguousNFA))
        .prefilter(false)
        .build(needles)
        .ok()
}

fn spell(text: &str, all: &mut BTreeSet<String>, addresses: &mut BTreeSet<String>) {
    if text.is_empty() || text == "localhost" || address(text).is_some() {
        return;
    }
    all.insert(text.to_owned());
    all.insert(json_escaped(text));
    if text.len() > LONG {
        return;
    }
    let decoded = percent_decoded(text);
    for spelling in [text, &decoded] {
        all.insert(percent_encoded(spelling));
        if let Some(url) = Url::parse(spelling) {
            url.spell(all);
            addresses
                .extend(url.address().into_iter().flat_map(|ip| [ip.to_string(), host_of(ip)]));
        } else if spelling.contains('/') && !spelling.contains(char::is_whitespace) {
            all.insert(without_dots(spelling));
            all.insert(spelling.trim_end_matches('/').to_owned());
        }
    }
    all.insert(decoded);
}

/// A URL cut into what its spellings are built from.
struct Url<'a> {
    scheme: &'a str,
    user: Option<&'a str>,
    host: &'a str,
    port: Option<&'a str>,
    rest: &'a str,
}

impl<'a> Url<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (scheme, after) = text.split_once("://")?;
        if scheme.is_empty()
            || !scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
        {
            return None;
        }
        let end = after.find(['/', '?', '#', '\\']).unwrap_or(after.len());
        let (authority, rest) = after.split_at(end);
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty() => {
                (host, Some(port))
            }
            _ => (place, None),
        };
        Some(Self { scheme, user, host, port, rest })
    }

    fn address(&self) -> Option<IpAddr> {
        address(self.host)
    }

    /// Every way to write it that a server or a URL parser may choose.
    fn spell(&self, all: &mut BTreeSet<String>) {
        let mut hosts = BTreeSet::from([self.host.to_owned(), percent_decoded(self.host)]);
        hosts.insert(self.host.trim_end_matches('.').to_owned());
        if let Some(ip) = self.address() {
            hosts.insert(host_of(ip));
            hosts.insert(if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
        }
        let default = match self.scheme.to_ascii_lowercase().as_str() {
            "http" | "ws" => Some("80"),
            "https" | "wss" => Some("443"),
            "ftp" => Some("21"),
            _ => None,
        };
        let mut ports = BTreeSet::from([self.port]);
        if self.port.is_none() || self.port == default {
            ports.extend([None, default]);
        }
        let mut rests = BTreeSet::new();
        let path = self.rest.split('#').next().unwrap_or_default();
        for rest in [self.rest, path, &without_dots(path), &percent_decoded(path)] {
            rests.extend([rest.to_owned(), rest.trim_end_matches('/').to_owned()]);
        }
        if self.rest.is_empty() {
            rests.insert("/".to_owned());
        }
        if self.scheme.eq_ignore_ascii_case("file") {
            all.extend([format!("{}://{path}", self.scheme), path.to_owned()]);
        }
        for host in &hosts {
            for port in &ports {
                let place = match port {
                    Some(port) => format!("{host}:{port}"),
                    None => host.clone(),
                };
                for rest in &rests {
                    all.insert(format!("{}://{place}{rest}", self.scheme));
                    if let Some(user) = self.user {
                        all.insert(format!("{}://{user}@{place}{rest}", self.scheme));
                    }
                    if port.is_some() {
                        all.insert(format!("{place}{rest}"));
                    }
                }
                if port.is_some() {
                    all.insert(format!("{}://{place}", self.scheme));
                    all.insert(place);
                }
            }
        }
    }
}

/// A host as the WHATWG URL standard serialises it.
fn host_of(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{}]", compressed(ip)),
    }
}

/// An IPv6 address in hexadecimal groups, the first longest run of zeros left out, and no dotted
/// tail (WHATWG URL, IPv6 serializer): the standard library writes `::ffff:127.0.0.1` instead.
fn compressed(ip: Ipv6Addr) -> String {
    let groups = ip.segments();
    let (mut from, mut length) = (groups.len(), 0);
    for start in 0..groups.len() {
        let run = groups[start..].iter().take_while(|group| **group == 0).count();
        if run > length {
            (from, length) = (start, run);
        }
    }
    if length < 2 {
        return joined(&groups);
    }
    format!("{}::{}", joined(&groups[..from]), joined(&groups[from + length..]))
}

fn joined(groups: &[u16]) -> String {
    groups.iter().map(|group| format!("{group:x}")).collect::<Vec<_>>().join(":")
}

/// The address a host spells: dotted, short, decimal, octal or hexadecimal IPv4, or IPv6 in or
/// without brackets.
fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = bare.parse::<Ipv6Addr>() {
        return Some(IpAddr::V6(ip));
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let parts: Vec<u64> = host.split('.').take(5).map(number).collect::<Option<_>>()?;
    let (last, leading) = parts.split_last()?;
    let room = 4usize.checked_sub(leading.len())?;
    if room == 0 || leading.iter().any(|part| *part > 255) || *last >= 1 << (8 * room) {
        return None;
    }
    let high = leading.iter().fold(0, |sum, part| (sum << 8) | part) << (8 * room);
    u32::try_from(high | last).ok().map(|bits| IpAddr::V4(Ipv4Addr::from(bits)))
}

/// One part of an IPv4 address: decimal, octal behind a zero, hexadecimal behind `0x`.
fn number(part: &str) -> Option<u64> {
    let lower = part.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some("") => ("0", 16),
        Some(digits) => (digits, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (&lower[1..], 8),
        None => (lower.as_str(), 10),
    };
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit()) && digits.len() <= 16;
    plain.then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}

fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let byte = pair
            .filter(|pair| pair.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        decoded.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

/// As `encodeURIComponent` does it.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A path with its `.` and `..` segments resolved, as URL parsers and `normalize` do it.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "." => {}
            ".." if kept.last().is_some_and(|last| !last.is_empty() && *last != "..") => {
                kept.pop();
            }
            other => kept.push(other),
        }
    }
    kept.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_as_url_parsers_read_it() {
        let spelled = |host| address(host).map(|ip| ip.to_string()).unwrap_or_default();
        for host in [
            "2130706433",
            "0x7f000001",
            "017700000001",
            "127.1",
            "0177.0.0.1",
            "0x7f.1",
            "127.0.0.1.",
        ] {
            assert_eq!(spelled(host), "127.0.0.1", "{host}");
        }
        assert_eq!(spelled("[::1]"), "::1");
        for host in ["example.com", "256.1.1.1", "1.2.3.4.5", "", "4294967296", "08", "1..2"] {
            assert_eq!(spelled(host), "", "{host}");
        }
    }

    #[test]
    fn a_mapped_address_is_written_in_hexadecimal_groups() {
        for (long, short) in [
            ("::ffff:127.0.0.1", "::ffff:7f00:1"),
            ("0:0:0:0:0:0:0:0", "::"),
            ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
        ] {
            assert_eq!(long.parse().map(compressed), Ok(short.to_owned()));
        }
    }

    #[test]
    fn a_url_goes_in_every_spelling_and_the_bare_host_stays() {
        let spellings = Spellings::of(&["http://2130706433:4416/a%20b/"]);
        for echo in [
            "http://127.0.0.1:4416/a b",
            "http://127.0.0.1:4416/a%20b",
            "http%3A%2F%2F2130706433%3A4416%2Fa%20b%2F",
            "127.0.0.1:4416",
            "HTTP://127.0.0.1:4416",
        ] {
            assert_eq!(spellings.strip(&fold(echo)), MARK, "{echo}");
        }
        assert_eq!(spellings.strip("host 127.0.0.1 no"), "host 127.0.0.1 no");
        let spellings = Spellings::of(&["http://[::ffff:127.0.0.1]:80/c"]);
        for echo in ["http://[::ffff:7f00:1]/c", "http://[::ffff:127.0.0.1]:80/c"] {
            assert_eq!(spellings.strip(echo), MARK, "{echo}");
        }
    }

    #[test]
    fn paths_and_statements_go_as_sent_and_escaped() {
        let spellings = Spellings::of(&["/a/docs/../out/x.txt", "SELECT \"v\" FROM t"]);
        for echo in ["/a/docs/../out/x.txt", "/a/out/x.txt", "SELECT \\\"v\\\" FROM t"] {
            assert_eq!(spellings.strip(&fold(echo)), MARK, "{echo}");
        }
    }
}
