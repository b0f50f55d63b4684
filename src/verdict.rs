//! Verdicts, and the published rules that are the only thing that can give one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;

/// The five verdicts of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The safe thing was observed.
    Pass,
    /// A weakness that is not the core of the question.
    Part,
    /// The unsafe thing was observed.
    Fail,
    /// The harness could not tell.
    Inconclusive,
    /// The question does not apply.
    Na,
}

impl Verdict {
    /// Half points: pass 2, part 1, fail 0; `None` for what is not scored.
    pub fn half_points(self) -> Option<u32> {
        match self {
            Self::Pass => Some(2),
            Self::Part => Some(1),
            Self::Fail => Some(0),
            Self::Inconclusive | Self::Na => None,
        }
    }

    /// The word as published.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Part => "part",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
            Self::Na => "na",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

/// One published rule. Only `rules!` makes one.
#[derive(Debug, PartialEq, Eq)]
pub struct RuleDef {
    name: &'static str,
    verdict: Verdict,
    text: &'static str,
    file: &'static str,
}

impl RuleDef {
    /// For the `rules!` macro alone; `tests/layers.rs` keeps packs from calling it.
    #[doc(hidden)]
    pub const fn declare(
        name: &'static str,
        verdict: Verdict,
        text: &'static str,
        file: &'static str,
    ) -> Self {
        Self { name, verdict, text, file }
    }

    /// `ListenerReached` reads as `listener-reached` in reports.
    pub fn id(&self) -> String {
        let mut id = String::new();
        for (i, c) in self.name.char_indices() {
            if c.is_ascii_uppercase() && i > 0 {
                id.push('-');
            }
            id.push(c.to_ascii_lowercase());
        }
        id
    }

    /// The verdict this rule gives.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The published sentence.
    pub fn text(&self) -> String {
        self.text.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
    }

    /// The source file the rule is decided in, from the root of the project.
    pub fn file(&self) -> String {
        self.file.replace("src/../", "")
    }
}

/// A rule, and the probes it rests on.
#[derive(Clone, Debug)]
pub struct Ruling {
    /// The rule that gave the verdict.
    pub rule: &'static RuleDef,
    /// Ids of the probes that decided, in order, each once.
    pub because: Vec<String>,
}

impl Ruling {
    /// A ruling by this rule, because of these lines.
    pub fn new<'a>(
        rule: &'static RuleDef,
        because: impl IntoIterator<Item = &'a Evidence>,
    ) -> Self {
        let mut ids: Vec<String> = Vec::new();
        for line in because {
            if !ids.contains(&line.probe) {
                ids.push(line.probe.clone());
            }
        }
        Self { rule, because: ids }
    }
}

/// Declares the rules of a check. A rule that nothing returns is a compile error
/// (`dead_code`); with `pub enum;` in front the rules can be named from other modules.
macro_rules! rules {
    ($($(#[doc = $text:literal])+ $name:ident => $verdict:ident,)+) => {
        rules! { enum; $($(#[doc = $text])+ $name => $verdict,)+ }
    };
    ($vis:vis enum; $($(#[doc = $text:literal])+ $name:ident => $verdict:ident,)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum Rule { $($(#[doc = $text])+ $name,)+ }

        impl Rule {
            $vis fn because<'a>(
                self,
                evidence: impl IntoIterator<Item = &'a $crate::evidence::Evidence>,
            ) -> $crate::verdict::Ruling {
                $crate::verdict::Ruling::new(&RULES[self as usize], evidence)
            }
        }

        pub(crate) static RULES: &[$crate::verdict::RuleDef] =
            &[$($crate::verdict::RuleDef::declare(
                stringify!($name),
                $crate::verdict::Verdict::$verdict,
                concat!($($text, "\n"),+),
                file!(),
            ),)+];
    };
}
