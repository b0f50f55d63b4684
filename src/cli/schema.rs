//! `sealmark schema config|report`: the JSON Schema of a file that sealmark reads or writes.

use super::args::SchemaArgs;
use super::{names, out};
use crate::docs;
use crate::error::{Error, MET};

pub(crate) fn main(args: &SchemaArgs) -> Result<u8, Error> {
    let text = match args.which.as_str() {
        "config" => docs::config_schema(),
        "report" => docs::report_schema(),
        other => {
            let known = ["config", "report"];
            return Err(names::unknown("schema", other, known, "there are config and report"));
        }
    };
    out::print(text.as_bytes())?;
    Ok(MET)
}
