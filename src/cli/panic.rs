//! The answer to a fault of sealmark itself: what happened, what to report, exit code 70.

use std::panic::{self, PanicHookInfo};

use super::out;
use crate::error::Error;

/// Makes every panic, on whatever thread, end the process with exit code 70. Servers that run are
/// ended by their supervisors, which see that the harness is gone.
pub fn install(json: bool) {
    panic::set_hook(Box::new(move |info| {
        let error = internal(info);
        out::complain(&error, json);
        #[expect(clippy::exit, reason = "no thread may go on as if nothing had happened")]
        std::process::exit(error.exit_code().into());
    }));
}

fn internal(info: &PanicHookInfo<'_>) -> Error {
    let place = info.location().map(|at| format!("{}:{}:{}", at.file(), at.line(), at.column()));
    let payload = info.payload();
    let what = payload.downcast_ref::<&str>().copied();
    let what = what.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    fault(what.unwrap_or("a panic without words"), place.as_deref())
}

fn fault(what: &str, place: Option<&str>) -> Error {
    Error::Internal {
        message: format!(
            "internal error: {} at {}",
            crate::text::safe(what, 300),
            place.unwrap_or("an unknown place")
        ),
        help: format!(
            "this is a fault of sealmark: report these lines, the command and sealmark {} on {} {}",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            std::env::consts::ARCH
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_its_place_and_what_to_report() {
        let error = fault("index out of bounds\u{1b}", Some("src/x.rs:1:2"));
        assert_eq!(error.message(), "internal error: index out of bounds\\u{1b} at src/x.rs:1:2");
        assert!(error.help().contains(env!("CARGO_PKG_VERSION")));
        assert_eq!(error.exit_code(), 70);
    }
}
