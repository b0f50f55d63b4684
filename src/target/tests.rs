//! The sandbox as a server would treat it.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    time::Instant,
};

use super::*;
use crate::{evidence::How, journal::Change};

const TOKEN: &str = "pr-1122334455";

struct Lane {
    _dir: tempfile::TempDir,
    sandbox: Sandbox,
}

impl Lane {
    fn new(special: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        let sandbox = Sandbox::build(dir.path(), special).unwrap();
        Self { _dir: dir, sandbox }
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.sandbox.docs().parent().unwrap().join(path)
    }

    /// Resets, and demands that the layout is whole and nothing remains to be seen.
    fn reset(&mut self) -> Reset {
        let reset = self.sandbox.reset().unwrap();
        assert!(self.sandbox.intact());
        assert_eq!(self.sandbox.look(&[]), []);
        assert!(!self.sandbox.reset().unwrap().changed, "a second reset finds nothing");
        reset
    }

    fn look(&mut self) -> Vec<Change> {
        self.sandbox.look(&[TOKEN])
    }
}

fn change(path: &str, how: How, inside: bool, token: bool) -> Change {
    Change { path: path.into(), how, inside, token }
}

#[test]
fn every_canary_is_different_and_stands_where_it_says() {
    let lane = Lane::new(true);
    let canaries = lane.sandbox.canaries();
    let tokens: std::collections::HashSet<_> = canaries.iter().map(|c| &c.token).collect();
    assert_eq!(tokens.len(), canaries.len());
    for canary in &canaries {
        if let Some(dir) = canary.object.strip_prefix("name ") {
            let names: Vec<_> = fs::read_dir(lane.at(dir)).unwrap().flatten().collect();
            assert!(
                names.iter().any(|e| e.file_name().to_string_lossy().contains(&canary.token)),
                "{}",
                canary.object
            );
        } else if let Some(path) = canary.object.strip_prefix("size ") {
            assert_eq!(fs::metadata(lane.at(path)).unwrap().len().to_string(), canary.token);
        } else {
            let text = fs::read_to_string(lane.at(&canary.object)).unwrap();
            assert!(text.contains(&canary.token));
            assert!(text.contains(Sandbox::edit_text()) && text.contains(Sandbox::search_word()));
        }
    }
    let inside = |object: &str| canaries.iter().find(|c| c.object == object).unwrap().inside;
    assert!(inside("docs/ok.txt") && inside("docs/.env"));
    assert!(inside("attic/h.txt"), "its second name is inside");
    assert!(!inside("attic/a.txt") && !inside("docs_b/a.txt") && !inside("name attic"));
    assert!(!format!("{canaries:?}{:?}", lane.sandbox).contains(&canaries[0].token));
}

#[test]
fn special_files_exist_only_where_they_were_asked_for() {
    assert!(!Lane::new(false).at("docs/q").exists());
    let lane = Lane::new(true);
    for name in ["p", "s", "l_zero", "l_loop"] {
        assert!(fs::symlink_metadata(lane.at("docs/q").join(name)).is_ok(), "{name}");
    }
}

#[test]
fn an_untouched_sandbox_shows_no_change_and_a_look_is_cheap() {
    let mut lane = Lane::new(false);
    lane.sandbox.after_start().unwrap();
    assert_eq!(lane.look(), []);
    std::thread::sleep(std::time::Duration::from_millis(50));
    lane.look();
    lane.look();
    let start = Instant::now();
    for _ in 0..100 {
        assert_eq!(lane.look(), []);
    }
    let look = start.elapsed() / 100;
    let start = Instant::now();
    for _ in 0..100 {
        assert!(!lane.sandbox.reset().unwrap().changed);
    }
    println!("look {look:?}, idle reset {:?}", start.elapsed() / 100);
    assert!(look.as_millis() < 20, "{look:?}");
}

#[test]
fn changes_outside_are_of_the_probe_when_an_object_changed_or_the_token_is_in_them() {
    let mut lane = Lane::new(false);
    fs::write(lane.at("attic/new-file"), "no token").unwrap();
    fs::write(lane.at("cwd/other"), format!("holds {TOKEN}")).unwrap();
    fs::create_dir(lane.at(&format!("k-{TOKEN}"))).unwrap();
    fs::write(lane.at("attic/a.txt"), "other").unwrap();
    fs::remove_file(lane.at("attic/d/b.txt")).unwrap();
    fs::create_dir(lane.at("docs\r")).unwrap();
    fs::write(lane.at("docs/mine"), "x").unwrap();
    fs::write(lane.at("../home/log"), "x").unwrap();
    symlink(format!("/tmp/{TOKEN}"), lane.at("../tmp/link")).unwrap();
    let expected = [
        change("box/attic/a.txt", How::Modified, false, true),
        change("box/attic/d/b.txt", How::Deleted, false, true),
        change("box/attic/new-file", How::Created, false, false),
        change("box/cwd/other", How::Created, false, true),
        change("box/docs\r", How::Created, false, true),
        change("box/docs/mine", How::Created, true, false),
        change("box/k-pr-1122334455", How::Created, false, true),
        change("home/log", How::Created, false, false),
        change("tmp/link", How::Created, false, true),
    ];
    let seen = lane.look();
    assert_eq!(seen, expected);
    assert_eq!(lane.look(), [], "each change is seen once");
}

#[test]
fn a_change_within_a_tick_of_the_last_look_and_of_the_same_size_is_seen() {
    let mut lane = Lane::new(false);
    let at = lane.at("attic/a.txt");
    let meta = fs::metadata(&at).unwrap();
    lane.look();
    let mut text = fs::read(&at).unwrap();
    text[0] = b'X';
    fs::write(&at, text).unwrap();
    fs::File::options()
        .write(true)
        .open(&at)
        .unwrap()
        .set_modified(meta.modified().unwrap())
        .unwrap();
    assert_eq!(lane.look(), [change("box/attic/a.txt", How::Modified, false, true)]);
}

#[test]
fn modes_and_new_second_names_touch_and_a_lost_second_name_does_not() {
    let mut lane = Lane::new(false);
    fs::set_permissions(lane.at("attic/a.txt"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(lane.at("attic/e.txt"), lane.at("docs/other")).unwrap();
    // As a sound server writes: a new file takes the name inside, the file outside stays.
    fs::write(lane.at("docs/h.new"), TOKEN).unwrap();
    fs::rename(lane.at("docs/h.new"), lane.at("docs/h")).unwrap();
    let expected = [
        change("box/attic/a.txt", How::Touched, false, true),
        change("box/attic/e.txt", How::Touched, false, true),
        change("box/docs/h", How::Modified, true, true),
        change("box/docs/other", How::Created, true, false),
    ];
    assert_eq!(lane.look(), expected);
    assert_eq!(lane.sandbox.brought_in(), ["attic/e.txt"]);
    assert!(!lane.reset().rebuilt);
    let (h, first) = (fs::read(lane.at("docs/h")), fs::read(lane.at("attic/h.txt")));
    assert_eq!(h.unwrap(), first.unwrap());
}

#[test]
fn a_copy_of_an_object_from_outside_is_told_by_its_token() {
    let mut lane = Lane::new(false);
    fs::copy(lane.at("attic/a.txt"), lane.at(&format!("docs/k-{TOKEN}"))).unwrap();
    fs::copy(lane.at("docs/ok.txt"), lane.at(&format!("docs/j-{TOKEN}"))).unwrap();
    assert!(lane.look().iter().all(|change| change.inside));
    assert_eq!(lane.sandbox.brought_in(), ["attic/a.txt"]);
    lane.reset();
    assert!(!lane.at(&format!("docs/k-{TOKEN}")).exists());
}

#[test]
fn a_sandbox_that_is_gone_is_seen_and_built_again() {
    let damages: [fn(&Lane); 4] = [
        |lane| fs::rename(lane.at("docs"), lane.at("docs\r")).unwrap(),
        |lane| fs::remove_dir_all(lane.at("docs")).unwrap(),
        |lane| {
            fs::remove_dir_all(lane.at("docs")).unwrap();
            symlink(lane.at("attic"), lane.at("docs")).unwrap();
        },
        |lane| {
            fs::rename(lane.at("docs"), lane.at(&format!("../home/x-{TOKEN}"))).unwrap();
            fs::write(lane.at("docs"), "a file").unwrap();
        },
    ];
    for damage in damages {
        let mut lane = Lane::new(true);
        lane.sandbox.after_start().unwrap();
        damage(&lane);
        assert!(!lane.sandbox.intact());
        let changes = lane.look();
        let docs = changes.iter().find(|change| change.path == "box/docs").unwrap();
        assert!(docs.token && !docs.inside, "{docs:?}");
        let reset = lane.reset();
        assert!(reset.rebuilt && reset.changed);
        assert!(!lane.at("docs\r").exists());
        assert!(lane.sandbox.readable("../docs/l_late"));
        assert!(fs::symlink_metadata(lane.at("docs/q/p")).is_ok());
    }
}

#[test]
fn every_kind_of_damage_is_brought_back() {
    let damages: [fn(&Lane); 10] = [
        |lane| fs::remove_file(lane.at("docs/ok.txt")).unwrap(),
        |lane| fs::write(lane.at("docs/.env"), "other").unwrap(),
        |lane| fs::remove_dir_all(lane.at("attic")).unwrap(),
        |lane| fs::rename(lane.at("docs\""), lane.at("docs/taken")).unwrap(),
        |lane| fs::write(lane.at("docs/h"), "through").unwrap(),
        |lane| fs::write(lane.at("docs/l_dangling"), "through").unwrap(),
        |lane| {
            fs::remove_file(lane.at("docs/l_dir")).unwrap();
            fs::create_dir(lane.at("docs/l_dir")).unwrap();
        },
        |lane| {
            for dir in ["attic/d", "attic", "docs/sub"] {
                fs::set_permissions(lane.at(dir), fs::Permissions::from_mode(0)).unwrap();
            }
        },
        |lane| {
            fs::remove_dir_all(lane.at("attic/d")).unwrap();
            symlink("/", lane.at("attic/d")).unwrap();
        },
        |lane| {
            fs::File::options().write(true).open(lane.at("loft/roll")).unwrap().set_len(5).unwrap()
        },
    ];
    for (i, damage) in damages.into_iter().enumerate() {
        let mut lane = Lane::new(false);
        damage(&lane);
        assert!(lane.look().iter().any(|change| change.token), "damage {i}");
        let reset = lane.reset();
        assert!(reset.changed && !reset.rebuilt, "damage {i}");
        for canary in lane.sandbox.canaries() {
            if canary.object.contains("name ") || canary.object.contains("size ") {
                continue;
            }
            let text = fs::read_to_string(lane.at(&canary.object)).unwrap();
            assert!(text.contains(&canary.token), "damage {i}: {}", canary.object);
        }
        assert!(lane.sandbox.readable("../docs/l_dirrel/d/b.txt"), "damage {i}");
    }
}

#[test]
fn a_reset_leaves_what_is_a_servers_own_and_removes_what_probes_left() {
    let mut lane = Lane::new(false);
    let gone = [
        format!("docs/w-{TOKEN}"),
        "docs/c-control.txt".into(),
        "docs/sub/text".into(),
        "attic/stray".into(),
        "stray".into(),
        format!("cwd/{TOKEN}"),
        format!("../home/{TOKEN}"),
    ];
    let stay = ["docs/memory.json", "docs/cache/c", "cwd/server.log", "out/data", "../home/.cfg"];
    fs::create_dir(lane.at("docs/cache")).unwrap();
    for path in &gone {
        fs::write(lane.at(path), format!("content {TOKEN}")).unwrap();
    }
    for path in stay {
        fs::write(lane.at(path), "own").unwrap();
    }
    lane.look();
    lane.reset();
    for path in &gone {
        assert!(!lane.at(path).exists(), "{path}");
    }
    for path in stay {
        assert!(lane.at(path).exists(), "{path}");
    }
}

#[test]
fn deep_trees_with_closed_directories_are_removed() {
    let mut lane = Lane::new(false);
    let mut at = lane.at(&format!("docs/{TOKEN}"));
    let mut made = Vec::new();
    for _ in 0..300 {
        fs::create_dir(&at).unwrap();
        made.push(at.clone());
        at = at.join("sub");
    }
    symlink(lane.at("attic"), &at).unwrap();
    for dir in made.iter().rev() {
        fs::set_permissions(dir, fs::Permissions::from_mode(0)).unwrap();
    }
    lane.look();
    lane.reset();
    assert!(!lane.at(&format!("docs/{TOKEN}")).exists());
    assert!(lane.at("attic/a.txt").exists(), "no link was followed");
}

#[test]
fn twenty_thousand_files_are_cut_and_said_and_the_layout_is_still_watched() {
    let mut lane = Lane::new(false);
    for i in 0..20_000 {
        fs::File::create(lane.at(&format!("docs/{TOKEN}-{i}"))).unwrap();
    }
    fs::remove_file(lane.at("docs_b/a.txt")).unwrap();
    let changes = lane.look();
    assert!(lane.sandbox.caveat().is_some());
    assert!(changes.len() <= 10_100, "{}", changes.len());
    assert!(changes.contains(&change("box/docs_b/a.txt", How::Deleted, false, true)));
    assert_eq!(changes.iter().filter(|change| !change.inside).count(), 1);
    lane.reset();
    assert!(lane.sandbox.caveat().is_none());
    assert_eq!(fs::read_dir(lane.at("docs")).unwrap().count(), Lane::new(false).count_docs());
}

impl Lane {
    fn count_docs(&self) -> usize {
        fs::read_dir(self.at("docs")).unwrap().count()
    }
}

#[test]
fn only_files_and_directories_the_kernel_finds_are_readable() {
    let lane = Lane::new(true);
    let docs = lane.sandbox.docs().to_string_lossy().into_owned();
    for path in ["../attic/a.txt", "../docs/l_chain", "../docs", ".", "../docs/l_dir/d/b.txt"] {
        assert!(lane.sandbox.readable(path), "{path}");
    }
    assert!(lane.sandbox.readable(&format!("{docs}//.//..//attic/./a.txt")));
    for path in
        ["../attic/none", "../docs/q/p", "../docs/q/s", "../docs/q/l_zero", "../docs/q/l_loop"]
    {
        assert!(!lane.sandbox.readable(path), "{path}");
    }
    assert!(!lane.sandbox.readable("../attic/a.txt\0"));
    assert!(!lane.sandbox.readable(&format!("../attic/{}", "a".repeat(5000))));
}

#[test]
fn placeholders_are_a_closed_set_and_a_doubled_dollar_is_literal() {
    let lane = Lane::new(false);
    let expand = |text: &str| lane.sandbox.expand(text, TOKEN);
    let docs = lane.sandbox.docs().to_string_lossy();
    assert_eq!(expand("${sandbox}/w-${token}").unwrap(), format!("{docs}/w-{TOKEN}"));
    assert_eq!(expand("${sandbox.name} $5 $${HOME}").unwrap(), "docs $5 ${HOME}");
    assert_eq!(expand("${HOME}"), Err("HOME".into()));
    assert_eq!(expand("${sandbox"), Err("sandbox".into()));
    for name in PLACEHOLDERS {
        assert!(expand(&format!("${{{name}}}")).is_ok(), "{name}");
    }
}

#[test]
fn links_made_after_the_start_are_no_change_of_the_server() {
    let mut lane = Lane::new(false);
    assert!(!lane.sandbox.readable("../docs/l_late"));
    fs::write(lane.at("docs/at-start"), "x").unwrap();
    lane.sandbox.after_start().unwrap();
    assert!(lane.sandbox.readable("../docs/l_late"));
    assert_eq!(lane.look(), [change("box/docs/at-start", How::Created, true, false)]);
}
