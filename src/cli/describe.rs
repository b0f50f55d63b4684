//! `sealmark describe`: the whole registry for programs.

use serde_json::Value;
use std::fmt::Write as _;

use super::args::DescribeArgs;
use super::{names, out};
use crate::docs;
use crate::error::{Error, MET};

pub(crate) fn main(args: &DescribeArgs) -> Result<u8, Error> {
    let registry = docs::description();
    let text = match args.format.as_str() {
        "json" => docs::pretty(&registry),
        "yaml" => yaml(&registry),
        other => {
            let known = ["json", "yaml"];
            return Err(names::unknown("format", other, known, "describe has json and yaml"));
        }
    };
    out::print(text.as_bytes())?;
    Ok(MET)
}

/// A JSON value as YAML 1.2 in block style. Texts stand in double quotes, so no word is taken for a
/// number or a boolean.
fn yaml(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

fn block(value: &Value, depth: usize, text: &mut String) {
    let margin = "  ".repeat(depth);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                text.push_str(&margin);
                text.push_str(&key_text(key));
                text.push(':');
                nested(value, depth, text);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&margin);
                text.push('-');
                nested(item, depth, text);
            }
        }
        scalar_or_empty => {
            text.push_str(&margin);
            text.push_str(&scalar(scalar_or_empty));
            text.push('\n');
        }
    }
}

fn nested(value: &Value, depth: usize, text: &mut String) {
    let is_block = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        text.push('\n');
        block(value, depth + 1, text);
    } else {
        text.push(' ');
        text.push_str(&scalar(value));
        text.push('\n');
    }
}

/// Words that YAML 1.1 or 1.2 reads as something else than a text.
const NOT_TEXT: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

/// A key without quotes where no reader could take it for anything but a text.
fn key_text(key: &str) -> String {
    let plain = key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        && !NOT_TEXT.contains(&key.to_lowercase().as_str());
    if plain { key.to_owned() } else { scalar(&key.into()) }
}

/// JSON's spelling is YAML's, except for characters YAML wants escaped (YAML 1.2.2, 5.1).
fn scalar(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn the_registry_is_the_same_in_both_formats() {
        assert_eq!(read(&yaml(&docs::description())), docs::description());
    }

    #[test]
    fn empty_and_nested_values_keep_their_shape() {
        let value = json!({"a": [], "b": {}, "c": [[1, [2]], {"d": null, "e": true}], "no": "yes"});
        assert_eq!(read(&yaml(&value)), value);
    }

    proptest! {
        #[test]
        fn every_text_reads_as_it_was(text in "\\PC{0,40}", control in "[\\x00-\\x1f\u{7f}-\u{a0}]{0,3}") {
            let value = json!([format!("{text}{control}")]);
            prop_assert_eq!(read(&yaml(&value)), value);
        }
    }
}
