//! Filesystem tools against directories the harness owns.

use crate::check::Needs;

mod fs_special_files;

crate::check::pack! { "fs",
    "Filesystem tools stay inside their directory",
    "`${sandbox}` is used in the configuration, and the server has a tool that reads, lists or writes files.",
    Needs::Sandbox(&["read", "list", "write"]);
    fs_path_escape = calls,
    fs_symlink_escape = calls,
    fs_write_escape = calls,
    fs_special_files = script,
    fs_hard_link = calls,
    fs_dotfiles = calls,
}
