//! The command line of sealmark.

fn main() {}
