//! What is written from the program is up to date: pages, schemas, `standard.yaml`.
//! `UPDATE=1 cargo test --test generated` writes it. What is written by hand has no dead links.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use sealmark::registry;

/// Folders in which every file is a generated one.
const GENERATED: [&str; 3] = ["docs/checks", "docs/packs", "docs/schema"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn wanted() -> BTreeMap<String, String> {
    let mut wanted: BTreeMap<String, String> = sealmark::docs::pages().into_iter().collect();
    wanted.insert("docs/cli.md".into(), sealmark::cli::reference());
    wanted
}

/// Files of the generated folders, from the root.
fn found() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for folder in GENERATED {
        let Ok(entries) = fs::read_dir(root().join(folder)) else { continue };
        for entry in entries {
            found.insert(format!("{folder}/{}", entry.unwrap().file_name().into_string().unwrap()));
        }
    }
    found
}

#[test]
fn generated_files_are_up_to_date() {
    let wanted = wanted();
    let surplus: Vec<String> =
        found().into_iter().filter(|path| !wanted.contains_key(path)).collect();
    let differs = |path: &String, text: &String| {
        fs::read_to_string(root().join(path)).ok().as_ref() != Some(text)
    };
    let stale: Vec<&String> =
        wanted.iter().filter(|(path, text)| differs(path, text)).map(|(path, _)| path).collect();
    if std::env::var_os("UPDATE").is_some() {
        for path in stale {
            let file = root().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, &wanted[path]).unwrap();
        }
        for path in surplus {
            fs::remove_file(root().join(path)).unwrap();
        }
        return;
    }
    assert!(
        stale.is_empty() && surplus.is_empty(),
        "stale: {stale:?}, their check or pack is gone: {surplus:?}; \
         run UPDATE=1 cargo test --test generated"
    );
}

#[test]
fn every_check_is_linked_from_the_page_of_its_pack() {
    let wanted = wanted();
    for check in registry::checks() {
        let page = &wanted[&format!("docs/packs/{}.md", check.pack)];
        assert!(page.contains(&format!("(../checks/{}.md)", check.id())), "{}", check.id());
    }
}

/// Pages whose links are followed: written by hand or not.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name)).into();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

#[test]
fn no_link_of_a_page_is_dead() {
    let link = regex::Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for found in link.captures_iter(&prose(&text)) {
            let target = &found[1];
            if target.contains("://") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file =
                if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(file.exists(), "{}: {target}", page.display());
            if !anchor.is_empty() {
                let there = anchors(&fs::read_to_string(&file).unwrap());
                assert!(there.contains(anchor), "{}: {target}", page.display());
            }
        }
    }
}

/// A page without its code blocks and inline code.
fn prose(text: &str) -> String {
    let outside = text.split("```").step_by(2).collect::<String>();
    outside.split('`').step_by(2).collect()
}

/// The anchors of a page: its headings as GitHub spells them, and those written out.
fn anchors(text: &str) -> BTreeSet<String> {
    let slug = |heading: &str| {
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>()
    };
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let named = regex::Regex::new(r#"<a id="([^"]+)">"#).unwrap();
    headings
        .map(|line| slug(line.trim_start_matches('#')))
        .chain(named.captures_iter(text).map(|found| found[1].to_owned()))
        .collect()
}

/// The same in a page's examples: every check and rule that is named exists.
#[test]
fn pages_written_by_hand_name_no_check_that_is_gone() {
    let explained = regex::Regex::new(r"sealmark explain ([a-z][a-z0-9/-]+)").unwrap();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for found in explained.captures_iter(&text) {
            let (id, rule) = found[1].split_once('/').unwrap_or((&found[1], ""));
            let check = registry::check(id);
            assert!(check.is_some(), "{}: {id}", page.display());
            let known = rule.is_empty() || registry::rule(check.unwrap(), rule).is_some();
            assert!(known, "{}: {id}/{rule}", page.display());
        }
    }
}

/// Configurations in pages are read as they stand; parts of one are read beside a server.
#[test]
fn every_example_of_a_configuration_is_one() {
    for name in ["README.md", "docs/configuration.md"] {
        let text = fs::read_to_string(root().join(name)).unwrap();
        let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        let examples: Vec<&str> = blocks.filter(|block| !block.starts_with("- run:")).collect();
        assert!(!examples.is_empty(), "{name}");
        for example in examples {
            let whole = if example.contains("server:") {
                example.to_owned()
            } else {
                format!("server: {{ command: node }}\n{example}")
            };
            let names = sealmark::standard::Names::of_registry();
            let read = names.with(|known| sealmark::config::parse(&whole, name, known));
            assert!(read.is_ok(), "{}", read.err().map(|error| error.to_string()).unwrap());
        }
    }
}
