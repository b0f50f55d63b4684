//! What is legal in a configuration and should be known before a run: paths to real things, real
//! credentials, programs that are not the same tomorrow.

use std::path::Path;

use super::secrets::{secret_flag, secret_name, secret_shape};
use super::{Config, Server};

/// One warning: what is so, and what to do about it. Neither holds a value of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What was found.
    pub what: String,
    /// What to do.
    pub help: String,
}

/// Variables whose paths are where programs and their libraries live.
const PROGRAM_PATHS: &[&str] = &[
    "PATH",
    "NODE_PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "JAVA_HOME",
    "GOROOT",
    "GOPATH",
    "CARGO_HOME",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "VIRTUAL_ENV",
    "UV_CACHE_DIR",
    "NPM_CONFIG_CACHE",
    "npm_config_cache",
];

/// Directories of the system where programs live and a server without privileges writes nothing.
const PROGRAM_ROOTS: &[&str] =
    &["/dev", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/opt/homebrew"];

/// Endings of files that are the server's own program.
const PROGRAM_ENDINGS: &[&str] =
    &["js", "mjs", "cjs", "ts", "mts", "py", "pyz", "jar", "rb", "php", "sh", "wasm", "dll", "exe"];

/// Files that make a directory a package, and so the server's own program.
const PACKAGE_FILES: &[&str] = &[
    "package.json",
    "pyproject.toml",
    "setup.py",
    "pyvenv.cfg",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
];

/// Whether a path has the ending of a program's source.
pub(crate) fn is_program_file(path: &Path) -> bool {
    path.extension()
        .and_then(|ending| ending.to_str())
        .is_some_and(|ending| PROGRAM_ENDINGS.contains(&ending))
}

pub(crate) fn warnings(config: &Config) -> Vec<Warning> {
    let server = &config.server;
    let mut found = Vec::new();
    paths(server, &mut found);
    relative_paths(config, &mut found);
    credentials(server, &mut found);
    found.extend(unpinned(server));
    found
}

fn paths(server: &Server, found: &mut Vec<Warning>) {
    let args = server.args.iter().enumerate().map(|(n, arg)| (format!("argument {}", n + 1), arg));
    let env = server
        .env
        .iter()
        .filter(|(name, _)| !PROGRAM_PATHS.contains(&name.as_str()))
        .map(|(name, value)| (format!("the variable {name}"), value));
    for (place, value) in args.chain(env) {
        if real_path(value) {
            found.push(Warning {
                what: format!("{place} is a path outside the sandbox that exists on this machine"),
                help: "probes may read and change what is there; use ${sandbox} or ${files}".into(),
            });
        }
    }
}

fn real_path(value: &str) -> bool {
    let value = match value.split_once('=') {
        Some((name, value)) if !name.contains('/') => value,
        _ => value,
    };
    // `file:///x` and `sqlite:////x` name the path /x.
    let path = match value.split_once("://") {
        Some((scheme, rest)) if scheme == "file" || scheme.starts_with("sqlite") => {
            if scheme == "file" { rest } else { rest.strip_prefix('/').unwrap_or(rest) }
        }
        _ => value,
    };
    let path = Path::new(path.split(['?', '#']).next().unwrap_or(path));
    if !path.is_absolute() || PROGRAM_ROOTS.iter().any(|root| path.starts_with(root)) {
        return false;
    }
    let Ok(about) = std::fs::metadata(path) else { return false };
    let program = if about.is_dir() {
        PACKAGE_FILES.iter().any(|name| path.join(name).exists())
    } else {
        is_program_file(path) || executable(&about)
    };
    !program
}

#[cfg(unix)]
fn executable(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    about.is_file() && about.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn executable(_: &std::fs::Metadata) -> bool {
    false
}

/// The server starts in a directory of its own, where a relative path means something else.
fn relative_paths(config: &Config, found: &mut Vec<Warning>) {
    if config.server.cwd.is_some() {
        return;
    }
    for (n, arg) in config.server.args.iter().enumerate() {
        let path = Path::new(arg);
        let pathlike = arg.contains('/') || arg.starts_with('.');
        let plain = !arg.starts_with('-') && !arg.contains("${") && path.is_relative();
        if plain && pathlike && !is_program_file(path) && config.folder.join(path).exists() {
            found.push(Warning {
                what: format!(
                    "argument {} is a relative path, and the server starts in a directory of its own",
                    n + 1
                ),
                help: "write ${sandbox}, or set `cwd: .` to start it beside the configuration".into(),
            });
        }
    }
}

fn credentials(server: &Server, found: &mut Vec<Warning>) {
    for (name, value) in &server.env {
        if real_credential(name, value) {
            found.push(Warning {
                what: format!("the variable {name} looks like a real credential"),
                help: format!(
                    "use ${{canary:{name}}}, which also shows whether the server tells it"
                ),
            });
        } else if secret_name(name) && value.contains("${env:") {
            found.push(Warning {
                what: format!(
                    "the variable {name} hands the server a credential of this environment"
                ),
                help: format!(
                    "use ${{canary:{name}}} unless the server needs the real one to start"
                ),
            });
        }
    }
    let mut before = "";
    for (n, arg) in server.args.iter().enumerate() {
        let real = match arg.split_once('=') {
            Some((name, value)) => real_credential(name, value),
            None if !arg.starts_with('-') && secret_flag(before) && before.starts_with('-') => {
                real_credential(before, arg)
            }
            None => real_credential("", arg),
        };
        if real {
            found.push(Warning {
                what: format!("argument {} looks like a real credential", n + 1),
                help: "use ${canary:NAME}, which also shows whether the server tells it".into(),
            });
        }
        before = arg;
    }
    for (name, content) in &server.files {
        if secret_shape(content) && !placeholder_word(content) {
            found.push(Warning {
                what: format!("the file {name} holds what looks like a real credential"),
                help: "use ${canary:NAME} in its content".into(),
            });
        }
    }
}

fn real_credential(name: &str, value: &str) -> bool {
    let by_name = secret_name(name) && value.len() >= 8 && !value.contains("${");
    (by_name || secret_shape(value)) && !placeholder_word(value)
}

/// Whether a value says of itself that it is none.
fn placeholder_word(value: &str) -> bool {
    let value = value.to_lowercase();
    [
        "example",
        "dummy",
        "changeme",
        "change-me",
        "fake",
        "placeholder",
        "your-",
        "your_",
        "xxxx",
        "test",
    ]
    .iter()
    .any(|word| value.contains(word))
}

/// A package that a launcher fetches in whatever version is newest.
fn unpinned(server: &Server) -> Option<Warning> {
    let program = launcher(&server.command)?;
    let mut args = server.args.iter().map(String::as_str).peekable();
    match program {
        "pnpm" | "yarn" => args.next_if_eq(&"dlx").map(drop)?,
        "npm" => args.next_if(|arg| matches!(*arg, "exec" | "x")).map(drop)?,
        "pipx" => args.next_if_eq(&"run").map(drop)?,
        "docker" | "podman" => return None,
        _ => {}
    }
    let mut package = None;
    while let Some(arg) = args.next() {
        match arg {
            "-p" | "--package" | "--from" | "--spec" => {
                package = args.next();
                break;
            }
            "-c" | "--call" | "--python" | "--with" | "--index-url" | "--registry" => {
                _ = args.next()
            }
            "--" => {}
            _ if arg.starts_with("--package=") || arg.starts_with("--from=") => {
                package = arg.split_once('=').map(|(_, name)| name);
                break;
            }
            _ if arg.starts_with('-') => {}
            _ => {
                package = Some(arg);
                break;
            }
        }
    }
    let package = package?;
    // A path or a URL is what it is; a placeholder is not known yet.
    let a_place =
        package.starts_with(['.', '/']) || package.contains("://") || package.contains("${");
    let python = matches!(program, "uvx" | "uv" | "pipx");
    let version = if python {
        package.split_once("==").or_else(|| package.split_once('@')).map(|(_, version)| version)
    } else {
        package.get(1..).and_then(|rest| rest.rsplit_once('@')).map(|(_, version)| version)
    };
    let exact = version.is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit() || c == 'v'));
    if a_place || exact {
        return None;
    }
    let like = if python { "name==1.2.3" } else { "name@1.2.3" };
    Some(Warning {
        what: format!(
            "{program} fetches whatever version of {} is newest",
            super::error::quoted(package)
        ),
        help: format!("name one, as {like}: a grade holds for one version only"),
    })
}

/// The name of the launcher, when the command fetches its program before it starts it.
pub(crate) fn launcher(command: &str) -> Option<&'static str> {
    let name = command.rsplit(['/', '\\']).next().unwrap_or(command);
    let name = name.strip_suffix(".cmd").or_else(|| name.strip_suffix(".exe")).unwrap_or(name);
    ["npx", "uvx", "bunx", "pnpm", "pnpx", "yarn", "npm", "pipx", "docker", "podman"]
        .into_iter()
        .find(|known| *known == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::from_command;

    fn warned(argv: &[&str]) -> Vec<Warning> {
        let argv: Vec<String> = argv.iter().map(|&arg| arg.to_owned()).collect();
        from_command(&argv).expect("a sound command").1
    }

    #[test]
    fn a_package_without_a_version_is_warned_about_and_a_pinned_one_is_not() {
        for argv in [
            &["npx", "-y", "@scope/server"][..],
            &["npx", "server@latest"],
            &["uvx", "mcp-server-git"],
            &["uvx", "--from", "pkg", "tool"],
            &["pnpm", "dlx", "server"],
            &["/usr/local/bin/npx", "server"],
        ] {
            assert_eq!(warned(argv).len(), 1, "{argv:?}");
        }
        for argv in [
            &["npx", "-y", "@scope/server@1.2.3"][..],
            &["uvx", "mcp-server-git==2026.1.1"],
            &["uvx", "mcp-server-git@1.0"],
            &["npx", "--package=server@1.0.0", "bin"],
            &["node", "server.js"],
            &["npm", "run", "start"],
        ] {
            assert_eq!(warned(argv), [], "{argv:?}");
        }
    }

    #[test]
    fn a_path_to_real_data_is_warned_about_and_the_servers_own_program_is_not() {
        let folder = tempfile::tempdir().expect("a directory");
        let data = folder.path().join("real.db");
        let code = folder.path().join("server.js");
        let package = folder.path().join("package");
        std::fs::write(&data, "x").expect("written");
        std::fs::write(&code, "x").expect("written");
        std::fs::create_dir(&package).expect("made");
        std::fs::write(package.join("package.json"), "{}").expect("written");
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        for arg in [
            text(&data),
            format!("--db={}", text(&data)),
            format!("sqlite:///{}", text(&data)),
            format!("file://{}", text(&data)),
            text(folder.path()),
        ] {
            assert_eq!(warned(&["node", &arg]).len(), 1, "{arg}");
        }
        for arg in [
            text(&code),
            text(&package),
            "/dev/null".into(),
            text(&data) + ".gone",
            "${sandbox}/x".into(),
        ] {
            assert_eq!(warned(&["node", &arg]), [], "{arg}");
        }
    }

    #[test]
    fn a_real_credential_is_warned_about_without_its_value() {
        for argv in [
            &["server", "--token", "s3cr3t-value"][..],
            &["server", "--api-key=s3cr3t-value"],
            &["server", "postgres://app:hunter22@db/x"],
            &["server", "ghp_0123456789abcdefghijABCDEFGH"],
        ] {
            let warnings = warned(argv);
            assert_eq!(warnings.len(), 1, "{argv:?}");
            assert!(!format!("{warnings:?}").contains(argv[argv.len() - 1]));
        }
        for argv in [
            &["server", "--token", "${canary:T}"][..],
            &["server", "--token", "test"],
            &["server", "--api-key=your-api-key-here"],
            &["server", "--keyboard", "qwertyuiop"],
        ] {
            assert_eq!(warned(argv), [], "{argv:?}");
        }
    }
}
