//! The letter of a grade.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A letter, from the best to the worst (methodology 4). The order is by quality: `A` is the
/// greatest, so "does not meet the gate" is `letter < gate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Letter {
    /// At least 90 % of the points.
    A,
    /// At least 75 %.
    B,
    /// At least 60 %.
    C,
    /// At least 45 %, or a better one capped by a critical fail.
    D,
    /// Below 45 %.
    F,
}

/// The text is none of the five letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("read a letter: expected A, B, C, D or F")]
pub struct NotALetter;

impl Letter {
    /// Every letter, best first.
    pub const ALL: [Self; 5] = [Self::A, Self::B, Self::C, Self::D, Self::F];

    /// The letter as a text of one character.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::F => "F",
        }
    }
}

impl Ord for Letter {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (*other as u8).cmp(&(*self as u8))
    }
}

impl PartialOrd for Letter {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Letter {
    type Err = NotALetter;

    fn from_str(text: &str) -> Result<Self, NotALetter> {
        Self::ALL.into_iter().find(|letter| letter.as_str() == text).ok_or(NotALetter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_is_the_best_and_f_the_worst() {
        let mut letters = Letter::ALL.to_vec();
        letters.sort();
        letters.reverse();
        assert_eq!(letters, Letter::ALL);
        assert!(Letter::B < Letter::A);
    }

    #[test]
    fn a_letter_reads_as_it_is_written_and_nothing_else_does() {
        for letter in Letter::ALL {
            assert_eq!(letter.to_string().parse(), Ok(letter));
        }
        for text in ["a", "E", "A*", "", " A"] {
            assert_eq!(text.parse::<Letter>(), Err(NotALetter), "{text:?}");
        }
    }
}
