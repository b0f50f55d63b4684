//! The methodology: what each check asks, and the rules that decide it. No input or output below.
#![deny(clippy::disallowed_methods)]

mod core;
mod fs;

/// The packs, in report order.
pub(crate) static PACKS: &[&crate::check::Pack] = &[&core::PACK, &fs::PACK];
