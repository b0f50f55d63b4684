//! The spellings of a token that are looked for.

use base64::prelude::*;

use super::{Kind, MIN_TOKEN};
use crate::evidence::Form;

pub(super) struct Spelling {
    pub(super) bytes: Vec<u8>,
    pub(super) form: Form,
    pub(super) after: u64,
}

/// Every spelling of a token, each once. The automaton does not tell the cases apart, so one case of
/// each is enough.
pub(super) fn spellings(token: &[u8], kind: Kind) -> Vec<Spelling> {
    let mut list: Vec<Spelling> = Vec::new();
    let mut add = |bytes: Vec<u8>, form, after| {
        if !list.iter().any(|known| known.bytes.eq_ignore_ascii_case(&bytes)) {
            list.push(Spelling { bytes, form, after });
        }
    };
    add(token.to_vec(), Form::Raw, 0);
    add(token.iter().rev().copied().collect(), Form::Reversed, 0);
    add(each(token, |byte| format!("{byte:02x}")), Form::Hex, 0);
    add(each(token, |byte| format!("%{byte:02x}")), Form::Percent, 0);
    for offset in 0..3 {
        let (standard, url) = base64(token, offset);
        add(standard, Form::Base64, 0);
        add(url, Form::Base64, 0);
    }
    if kind == Kind::Secret {
        for (at, piece) in token.windows(MIN_TOKEN).enumerate() {
            add(piece.to_vec(), Form::Masked, (token.len() - MIN_TOKEN - at) as u64);
        }
    }
    list
}

fn each(token: &[u8], spell: impl Fn(u8) -> String) -> Vec<u8> {
    token.iter().flat_map(|byte| spell(*byte).into_bytes()).collect()
}

/// The characters that depend on the token alone when it starts `offset` bytes after a multiple of
/// three, in the standard and the URL alphabet (RFC 4648, sections 4 and 5).
fn base64(token: &[u8], offset: usize) -> (Vec<u8>, Vec<u8>) {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(token);
    let from = (offset * 8).div_ceil(6);
    let to = bytes.len() * 8 / 6;
    let cut = |text: String| text.as_bytes()[from..to].to_vec();
    (cut(BASE64_STANDARD.encode(&bytes)), cut(BASE64_URL_SAFE.encode(&bytes)))
}
