//! Limits and times of a run: one table, from which the struct, its defaults, the keys of the file
//! and the rows for documents are made. All of them are locked (methodology 9 and 11).

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_saphyr::{Location, Spanned};

/// The greatest time a timeout can be set to: an hour.
pub const MAX_SECONDS: f64 = 3600.0;

/// One row of the table, with the value of a run beside the standard one.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The key in the file, such as `timeouts.call`.
    pub key: &'static str,
    /// The value of the run; seconds for timeouts.
    pub value: f64,
    /// The standard value.
    pub standard: f64,
    /// What it limits, in one sentence.
    pub what: &'static str,
}

/// A value outside its range: where it stands, and what is accepted.
pub(crate) struct OutOfRange {
    pub(crate) at: Location,
    pub(crate) range: String,
}

macro_rules! limits {
    (
        counts { $($count:ident = $standard:literal, at most $most:literal, $what:literal;)+ }
        seconds { $($time:ident = $seconds:literal, $why:literal;)+ }
    ) => {
        /// The limits and times of one run (methodology 11).
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Limits {
            $(#[doc = $what] pub $count: u64,)+
            $(#[doc = $why] pub $time: Duration,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self {
                    $($count: $standard,)+
                    $($time: Duration::from_secs_f64($seconds),)+
                }
            }
        }

        /// Counts and sizes. All are locked: another value makes the run CUSTOM.
        #[derive(Debug, Default, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct LimitsFile {
            $(
                #[doc = $what]
                #[schemars(with = "Option<u64>", range(min = 1, max = $most), extend("default" = $standard))]
                $count: Option<Spanned<u64>>,
            )+
        }

        /// Times in seconds. All are locked: another value makes the run CUSTOM.
        #[derive(Debug, Default, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct TimeoutsFile {
            $(
                #[doc = $why]
                #[schemars(with = "Option<f64>", range(min = 0.01, max = MAX_SECONDS), extend("default" = $seconds))]
                $time: Option<Spanned<f64>>,
            )+
        }

        impl Limits {
            /// Takes over what the file sets.
            pub(crate) fn set(
                &mut self,
                limits: &LimitsFile,
                timeouts: &TimeoutsFile,
            ) -> Result<(), OutOfRange> {
                $(if let Some(given) = &limits.$count {
                    if !(1..=$most).contains(&given.value) {
                        let range = format!("a whole number from 1 to {}", $most);
                        return Err(OutOfRange { at: given.referenced, range });
                    }
                    self.$count = given.value;
                })+
                $(if let Some(given) = &timeouts.$time {
                    if !(0.01..=MAX_SECONDS).contains(&given.value) {
                        let range = format!("seconds from 0.01 to {MAX_SECONDS}");
                        return Err(OutOfRange { at: given.referenced, range });
                    }
                    self.$time = Duration::from_secs_f64(given.value);
                })+
                Ok(())
            }

            /// The whole table, counts first.
            pub fn rows(&self) -> Vec<Row> {
                let standard = Self::default();
                vec![
                    $(Row {
                        key: concat!("limits.", stringify!($count)),
                        value: self.$count as f64,
                        standard: standard.$count as f64,
                        what: $what,
                    },)+
                    $(Row {
                        key: concat!("timeouts.", stringify!($time)),
                        value: self.$time.as_secs_f64(),
                        standard: standard.$time.as_secs_f64(),
                        what: $why,
                    },)+
                ]
            }
        }
    };
}

limits! {
    counts {
        rows = 10_000, at most 1_000_000, "Rows in an answer above which a result counts as unlimited.";
        bytes = 10_485_760, at most 268_435_456, "Bytes in an answer above which a result counts as unlimited.";
        probe_string = 65_536, at most 1_048_576, "Bytes of the longest text a probe sends; 1,048,576 in profile deep unless set.";
        reply_kept = 1_048_576, at most 16_777_216, "Bytes kept of one line of a reply; the rest is counted and scanned.";
        reply_counted = 268_435_456, at most 1_073_741_824, "Bytes of one line of a reply after which the instance is given up.";
        tools = 25, at most 1_000, "Tools judged by robust-input, in the order of the list.";
    }
    seconds {
        start = 30.0, "From the start of the process to its answer to initialize.";
        start_launcher = 60.0, "The same for a command that fetches its program first: npx, uvx, docker and their like.";
        list = 30.0, "One list of tools, prompts or resources, over all its pages.";
        call = 10.0, "One call, counted since the last message of the server about it.";
        time_call = 60.0, "One call of a check that asks about time.";
        time_limit = 32.0, "A statement or command that would run for 40 s must be answered within this.";
        backend_gone = 2.0, "After the answer, until the database session of a cancelled statement is gone.";
        close_stdin = 5.0, "From closing standard input to the end of the process.";
        close_term = 3.0, "From SIGTERM to the end of the process; SIGKILL follows.";
        ping = 5.0, "A process that answers no ping within this is mute.";
        silence = 1.0, "The shortest wait after which a living server counts as silent on a request.";
        listener_quiet = 0.3, "The listener is asked until it was quiet for this long after a reply.";
        listener_most = 3.0, "The listener is asked for at most this long after a reply.";
    }
}

impl Limits {
    /// The length of probe texts in profile deep, in bytes.
    pub(crate) const DEEP_PROBE_STRING: u64 = 1_048_576;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_values_are_those_of_the_methodology() {
        let limits = Limits::default();
        assert_eq!((limits.rows, limits.bytes, limits.tools), (10_000, 10 << 20, 25));
        assert_eq!((limits.reply_kept, limits.reply_counted), (1 << 20, 256 << 20));
        assert_eq!(limits.start, Duration::from_secs(30));
        assert_eq!(limits.listener_quiet, Duration::from_millis(300));
        assert!(limits.rows().iter().all(|row| row.value == row.standard));
        assert_eq!(limits.rows().len(), 19);
    }
}
