//! The environment of a server: an allow-list of the harness's own, private folders, and for a
//! launcher what it needs to find its caches and its registry.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    time::Duration,
};

use super::run::{Lane, RUN_VARIABLE};

/// Variables every server gets when the harness has them. HOME and TERM are not among them:
/// HOME is private to the lane, TERM is `dumb`.
const PASSED: &[&str] = &["PATH", "LANG", "LC_ALL", "USER", "LOGNAME", "SHELL"];

/// The search path when the harness has none.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Version managers that put stand-ins for commands on PATH and find the real ones through their
/// own folder: the variable, its default below the user's home, and the part of PATH that tells
/// the manager is in use.
const MANAGERS: &[(&str, &str, &str)] = &[
    ("PYENV_ROOT", ".pyenv", ".pyenv/shims"),
    ("RBENV_ROOT", ".rbenv", ".rbenv/shims"),
    ("NVM_DIR", ".nvm", ".nvm/"),
    ("VOLTA_HOME", ".volta", ".volta/bin"),
    ("ASDF_DIR", ".asdf", ".asdf/shims"),
    ("ASDF_DATA_DIR", ".asdf", ".asdf/shims"),
    ("MISE_DATA_DIR", ".local/share/mise", "mise/shims"),
    ("RUSTUP_HOME", ".rustup", ".cargo/bin"),
    ("CARGO_HOME", ".cargo", ".cargo/bin"),
];

/// Certificate authorities, for a launcher only.
const AUTHORITIES: &[&str] =
    &["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"];

/// Beginnings of the names of a launcher's registry settings, compared without regard to case.
const REGISTRIES: &[&str] = &["npm_config_", "pip_index_url", "pip_extra_index_url", "uv_index"];

/// Further registry settings of launchers.
const REGISTRY_NAMES: &[&str] = &[
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_CONFIG_FILE",
    "UV_NATIVE_TLS",
    "UV_OFFLINE",
    "PIP_CONFIG_FILE",
    "PIP_CERT",
    "BUN_CONFIG_REGISTRY",
    "DENO_CERT",
    "DENO_TLS_CA_STORE",
    "NPM_CONFIG_REGISTRY",
];

/// Parts of a setting's name that mark a credential. A server that prints its environment would
/// carry it into a report, so only [`Stage::Fetch`] passes it.
const CREDENTIALS: &[&str] = &["auth", "token", "password", "username", "_key", "otp"];

/// Proxy variables, in both spellings in use.
const PROXIES: &[&str] = &["http_proxy", "https_proxy", "all_proxy", "no_proxy"];

/// A command that fetches the server's package before it runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Launcher {
    /// npx, npm.
    Npm,
    /// pnpm dlx, pnpx.
    Pnpm,
    /// yarn dlx.
    Yarn,
    /// bunx.
    Bun,
    /// uvx, uv.
    Uv,
    /// pipx.
    Pipx,
    /// deno.
    Deno,
    /// docker, podman.
    Docker,
}

/// What the environment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// A launcher fetches the package, before the first timed start: with the user's proxy and
    /// registry credentials.
    Fetch,
    /// The server runs: without either.
    Serve,
}

/// Which launcher a command is, by the base name of its program.
pub fn launcher(program: &OsStr, arguments: &[OsString]) -> Option<Launcher> {
    let fetches = || arguments.iter().any(|argument| argument == "dlx");
    match Path::new(program).file_name()?.to_str()? {
        "npx" | "npm" => Some(Launcher::Npm),
        "pnpx" => Some(Launcher::Pnpm),
        "pnpm" if fetches() => Some(Launcher::Pnpm),
        "yarn" if fetches() => Some(Launcher::Yarn),
        "bunx" => Some(Launcher::Bun),
        "uvx" | "uv" => Some(Launcher::Uv),
        "pipx" => Some(Launcher::Pipx),
        "deno" => Some(Launcher::Deno),
        "docker" | "podman" => Some(Launcher::Docker),
        _ => None,
    }
}

/// How long a server may take from its start to the answer to `initialize` (methodology 11).
pub fn start_limit(launcher: Option<Launcher>) -> Duration {
    Duration::from_secs(if launcher.is_some() { 60 } else { 30 })
}

/// The environment of a server in `lane`, complete: nothing else of the harness's own may be
/// added. `configured` comes last and so wins. Names that hold `=` or a zero byte are left out,
/// as are values with a zero byte.
pub fn build(
    lane: &Lane,
    launcher: Option<Launcher>,
    stage: Stage,
    configured: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let ambient = std::env::vars_os().collect();
    let mut own = from_ambient(&ambient, launcher, stage);
    let mut set = |name: &str, value: OsString| own.insert(name.into(), value);
    set("HOME", lane.home().into());
    set("TMPDIR", lane.tmp().into());
    for (name, kind) in [
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_RUNTIME_DIR", "run"),
    ] {
        set(name, lane.xdg(kind).into());
    }
    set("TERM", "dumb".into());
    set(RUN_VARIABLE, lane.run().into());
    for (name, value) in configured {
        let (bytes, content) = (name.as_encoded_bytes(), value.as_encoded_bytes());
        if !bytes.is_empty()
            && !bytes.contains(&b'=')
            && !bytes.contains(&0)
            && !content.contains(&0)
        {
            own.insert(name.clone(), value.clone());
        }
    }
    own.into_iter().collect()
}

/// What is taken from the harness's own environment, or follows from it.
fn from_ambient(
    ambient: &BTreeMap<OsString, OsString>,
    launcher: Option<Launcher>,
    stage: Stage,
) -> BTreeMap<OsString, OsString> {
    let get = |name: &str| ambient.get(OsStr::new(name)).filter(|value| !value.is_empty()).cloned();
    let mut own = BTreeMap::new();
    let mut pass = |names: &[&str]| {
        for name in names {
            if let Some(value) = get(name) {
                own.insert(OsString::from(name), value);
            }
        }
    };
    pass(PASSED);
    if launcher.is_some() {
        pass(AUTHORITIES);
        pass(REGISTRY_NAMES);
    }
    let path = own.entry("PATH".into()).or_insert_with(|| DEFAULT_PATH.into()).clone();
    let home = get("HOME").map(PathBuf::from).filter(|home| home.is_absolute());

    for (variable, default, sign) in MANAGERS {
        let in_use =
            || path.as_encoded_bytes().windows(sign.len()).any(|part| part == sign.as_bytes());
        let folder = get(variable)
            .or_else(|| Some(home.as_ref()?.join(default).into()).filter(|_| in_use()));
        if let Some(folder) = folder {
            own.insert(variable.into(), folder);
        }
    }

    // Packages of `pip install --user` are found below HOME, unless this says where.
    let user_site = home.as_ref().map(|home| home.join(".local"));
    let user_site = user_site.filter(|folder| folder.join("lib").is_dir()).map(OsString::from);
    if let Some(folder) = get("PYTHONUSERBASE").or(user_site) {
        own.insert("PYTHONUSERBASE".into(), folder);
    }

    if let Some(launcher) = launcher {
        for (name, value) in caches(launcher, &get, home.as_deref()) {
            own.insert(name.into(), value);
        }
        for (name, value) in ambient {
            if registry_setting(name, stage) {
                own.insert(name.clone(), value.clone());
            }
        }
        if stage == Stage::Fetch {
            for name in PROXIES {
                for name in [(*name).to_owned(), name.to_ascii_uppercase()] {
                    if let Some(value) = get(&name) {
                        own.insert(name.into(), value);
                    }
                }
            }
        }
    }
    own
}

/// Whether a launcher's setting is passed by the beginning of its name. Proxies and credentials
/// are among such settings too: `npm_config_https_proxy`, `UV_INDEX_CORP_PASSWORD`.
fn registry_setting(name: &OsStr, stage: Stage) -> bool {
    let Some(name) = name.to_str().map(str::to_ascii_lowercase) else { return false };
    let held_back = name.contains("proxy") || CREDENTIALS.iter().any(|part| name.contains(part));
    REGISTRIES.iter().any(|start| name.starts_with(start)) && (stage == Stage::Fetch || !held_back)
}

/// The launcher's folders, which are the user's own: a package is fetched once per user, not once
/// per run. Where the user set none, the launcher's documented default.
fn caches(
    launcher: Launcher,
    get: &impl Fn(&str) -> Option<OsString>,
    home: Option<&Path>,
) -> Vec<(&'static str, OsString)> {
    let mac = cfg!(target_os = "macos");
    let base = |variable: &str, default: &str| {
        get(variable).map(PathBuf::from).or_else(|| Some(home?.join(default)))
    };
    let cache = base("XDG_CACHE_HOME", ".cache");
    let data = base("XDG_DATA_HOME", ".local/share");
    let library = home.map(|home| home.join("Library"));
    let below = |folder: &Option<PathBuf>, part: &str| folder.as_ref().map(|path| path.join(part));
    let existing = |path: Option<PathBuf>| path.filter(|path| path.exists());
    let at_home = |part: &str| home.map(|home| home.join(part));

    // npm reads its settings in lower and in upper case; the user's own spelling stays.
    let npm = |name: &'static str, default: Option<PathBuf>| {
        let upper = name.to_ascii_uppercase();
        (name, if get(&upper).is_some() { None } else { default })
    };
    let npmrc = npm("npm_config_userconfig", existing(at_home(".npmrc")));
    let candidates: Vec<(&'static str, Option<PathBuf>)> = match launcher {
        Launcher::Npm => vec![npm("npm_config_cache", at_home(".npm")), npmrc],
        Launcher::Pnpm => vec![
            ("PNPM_HOME", if mac { below(&library, "pnpm") } else { below(&data, "pnpm") }),
            npm(
                "npm_config_cache_dir",
                if mac { below(&library, "Caches/pnpm") } else { below(&cache, "pnpm") },
            ),
            npmrc,
        ],
        Launcher::Yarn => vec![
            (
                "YARN_CACHE_FOLDER",
                if mac { below(&library, "Caches/Yarn") } else { below(&cache, "yarn") },
            ),
            ("YARN_GLOBAL_FOLDER", at_home(".yarn/berry")),
            npmrc,
        ],
        Launcher::Bun => vec![
            ("BUN_INSTALL", at_home(".bun")),
            ("BUN_INSTALL_CACHE_DIR", at_home(".bun/install/cache")),
            npmrc,
        ],
        Launcher::Uv => vec![
            ("UV_CACHE_DIR", below(&cache, "uv")),
            ("UV_TOOL_DIR", below(&data, "uv/tools")),
            ("UV_PYTHON_INSTALL_DIR", below(&data, "uv/python")),
            ("UV_CONFIG_FILE", existing(below(&base("XDG_CONFIG_HOME", ".config"), "uv/uv.toml"))),
        ],
        Launcher::Pipx => vec![
            ("PIPX_HOME", existing(at_home(".local/pipx")).or_else(|| below(&data, "pipx"))),
            (
                "PIP_CACHE_DIR",
                if mac { below(&library, "Caches/pip") } else { below(&cache, "pip") },
            ),
            (
                "PIP_CONFIG_FILE",
                existing(below(&base("XDG_CONFIG_HOME", ".config"), "pip/pip.conf"))
                    .or_else(|| existing(at_home(".pip/pip.conf"))),
            ),
        ],
        Launcher::Deno => vec![(
            "DENO_DIR",
            if mac { below(&library, "Caches/deno") } else { below(&cache, "deno") },
        )],
        Launcher::Docker => {
            let set = |name: &'static str| (name, get(name).map(PathBuf::from));
            vec![
                ("DOCKER_CONFIG", at_home(".docker")),
                set("DOCKER_HOST"),
                set("DOCKER_CONTEXT"),
                set("DOCKER_CERT_PATH"),
                set("DOCKER_TLS_VERIFY"),
                set("CONTAINER_HOST"),
            ]
        }
    };
    candidates
        .into_iter()
        .filter_map(|(name, default)| Some((name, get(name).or(default.map(Into::into))?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ambient(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn built(pairs: &[(&str, &str)], launcher: Option<Launcher>, stage: Stage) -> Vec<String> {
        from_ambient(&ambient(pairs), launcher, stage)
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect()
    }

    #[test]
    fn nothing_unnamed_is_inherited() {
        let own = [
            ("PATH", "/bin"),
            ("GITHUB_TOKEN", "t"),
            ("HTTPS_PROXY", "p"),
            ("LANG", "C"),
            ("HOME", "/h"),
        ];
        assert_eq!(built(&own, None, Stage::Serve), ["LANG=C", "PATH=/bin"]);
        assert_eq!(built(&[], None, Stage::Serve), [format!("PATH={DEFAULT_PATH}")]);
    }

    #[test]
    fn a_launcher_keeps_its_caches_and_loses_proxy_and_credentials() {
        let own = [
            ("HOME", "/h"),
            ("PATH", "/bin"),
            ("HTTPS_PROXY", "p"),
            ("no_proxy", "n"),
            ("npm_config_registry", "r"),
            ("npm_config_https_proxy", "p"),
            ("NPM_CONFIG_//r/:_authToken", "t"),
            ("UV_INDEX_CORP_PASSWORD", "w"),
        ];
        assert_eq!(
            built(&own, Some(Launcher::Npm), Stage::Serve),
            ["PATH=/bin", "npm_config_cache=/h/.npm", "npm_config_registry=r"]
        );
        let fetch = built(&own, Some(Launcher::Npm), Stage::Fetch);
        for passed in ["HTTPS_PROXY=p", "no_proxy=n", "npm_config_https_proxy=p"] {
            assert!(fetch.iter().any(|line| line == passed), "{passed} in {fetch:?}");
        }
    }

    #[test]
    fn a_cache_the_user_moved_is_followed() {
        let own = [("HOME", "/h"), ("XDG_CACHE_HOME", "/c"), ("UV_TOOL_DIR", "/t")];
        let uv = built(&own, Some(Launcher::Uv), Stage::Serve);
        for passed in [
            "UV_CACHE_DIR=/c/uv",
            "UV_TOOL_DIR=/t",
            "UV_PYTHON_INSTALL_DIR=/h/.local/share/uv/python",
        ] {
            assert!(uv.iter().any(|line| line == passed), "{passed} in {uv:?}");
        }
        let upper = [("HOME", "/h"), ("NPM_CONFIG_CACHE", "/n")];
        let npm = built(&upper, Some(Launcher::Npm), Stage::Serve);
        assert!(npm.iter().any(|line| line == "NPM_CONFIG_CACHE=/n"));
        assert!(!npm.iter().any(|line| line.starts_with("npm_config_cache")), "{npm:?}");
    }

    #[test]
    fn a_version_manager_on_the_path_finds_its_folder_without_home() {
        let own = [("HOME", "/h"), ("PATH", "/h/.pyenv/shims:/bin")];
        assert_eq!(
            built(&own, None, Stage::Serve),
            ["PATH=/h/.pyenv/shims:/bin", "PYENV_ROOT=/h/.pyenv"]
        );
        let set = [("PATH", "/bin"), ("VOLTA_HOME", "/v")];
        assert_eq!(built(&set, None, Stage::Serve), ["PATH=/bin", "VOLTA_HOME=/v"]);
    }

    #[test]
    fn launchers_are_known_by_their_base_name() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            launcher(&words[0], &words[1..])
        };
        assert_eq!(of("/usr/bin/npx -y server"), Some(Launcher::Npm));
        assert_eq!(of("pnpm dlx server"), Some(Launcher::Pnpm));
        assert_eq!(of("pnpm start"), None);
        assert_eq!(of("uvx server"), Some(Launcher::Uv));
        assert_eq!(of("node npx"), None);
        assert_eq!(start_limit(of("docker run x")).as_secs(), 60);
        assert_eq!(start_limit(None).as_secs(), 30);
    }
}
