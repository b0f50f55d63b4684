//! Runs a program as another user: this program again under a hidden subcommand, which drops its
//! privileges and then becomes that program, for programs that refuse to run as root.

use std::{
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use nix::unistd::{User, geteuid};

use super::launch::own_binary;

/// The hidden subcommand that makes this program another user's.
pub const SUBCOMMAND: &str = "__as";

/// Users without rights of their own, in the order they are tried.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// A user that a program is run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
}

impl Owner {
    /// Whom to become: `Ok(None)` unless this process is root's. The error says that there is
    /// nobody to become.
    pub fn to_become() -> Result<Option<Self>, String> {
        if !geteuid().is_root() {
            return Ok(None);
        }
        for name in USERS {
            if let Ok(Some(user)) = User::from_name(name)
                && !user.uid.is_root()
            {
                return Ok(Some(Self { uid: user.uid.as_raw(), gid: user.gid.as_raw() }));
            }
        }
        Err(format!("run as root, and there is no user {} to run it as", USERS.join(" or ")))
    }
}

/// The program and arguments that run `program` as `owner`, or as they are without one. The
/// supervisor is the lane's, when it is not the running program.
pub fn command(
    supervisor: Option<&Path>,
    owner: Option<Owner>,
    program: &Path,
    arguments: Vec<OsString>,
) -> Result<(OsString, Vec<OsString>), String> {
    let Some(owner) = owner else { return Ok((program.into(), arguments)) };
    let own = match supervisor {
        Some(path) => path.to_owned(),
        None => own_binary().map_err(|(_, reason)| reason)?,
    };
    let mut words: Vec<OsString> = vec![SUBCOMMAND.into()];
    words.extend([owner.uid.to_string().into(), owner.gid.to_string().into()]);
    words.push(program.into());
    words.extend(arguments);
    Ok((own.into(), words))
}

/// Drops the privileges and becomes the program. Arguments: user id, group id, the program's
/// absolute path, its arguments. Returns only when that failed.
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut number = || arguments.next()?.to_str()?.parse::<u32>().ok();
    let (Some(uid), Some(gid)) = (number(), number()) else { return ExitCode::FAILURE };
    let Some(program) = arguments.next().map(PathBuf::from) else { return ExitCode::FAILURE };
    // As root, this also drops the supplementary groups, before the user id changes.
    let error = Command::new(&program).args(arguments).uid(uid).gid(gid).exec();
    tell(&program, &error);
    ExitCode::FAILURE
}

#[expect(clippy::print_stderr, reason = "standard error is the program's own, which is to read it")]
fn tell(program: &Path, error: &std::io::Error) {
    let name = program.file_name().unwrap_or(OsStr::new("?"));
    eprintln!("failed to execute {} as another user: {error}", name.display());
}
