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
    assert!(look.as_millis() < 20, "{look:?}");
}

#[test]
fn changes_outside_are_of_the_probe_when_an_object_changed_or_the_token_is_in_them() {
    let mut lane = Lane::new(false);
    fs::write(lane.at("attic/new-file"), "no token").unwrap();
    fs::write(lane.at("cwd/other"), format!("{TOKEN}\n")).unwrap();
    fs::create_dir(lane.at(&format!("k-{TOKEN}"))).unwrap();
    fs::write(lane.at("attic/a.txt"), "other").unwrap();
    fs::remove_file(lane.at("attic/d/b.txt")).unwrap();
    fs::create_dir(lane.at("docs\r")).unwrap();
    fs::write(lane.at("docs/mine"), "x").unwrap();
    fs::write(lane.at("../home/log"), "x").unwrap();
    symlink(format!("/tmp/{TOKEN}"), lane.at("attic/link")).unwrap();
    fs::write(lane.at("attic/part"), format!("holds {TOKEN}")).unwrap();
    let expected = [
        change("box/attic/a.txt", How::Modified, false, true),
        change("box/attic/d/b.txt", How::Deleted, false, true),
        change("box/attic/link", How::Created, false, true),
        change("box/attic/new-file", How::Created, false, false),
        change("box/attic/part", How::Created, false, true),
        change("box/cwd/other", How::Created, false, true),
        change("box/docs\r", How::Created, false, true),
        change("box/docs/mine", How::Created, true, false),
        change("box/k-pr-1122334455", How::Created, false, true),
        change("home/log", How::Created, false, false),
    ];
    let seen = lane.look();
    assert_eq!(seen, expected);
    for change in seen.iter().filter(|change| !change.path.contains("/docs")) {
        let known = ["box/attic/a.txt", "box/attic/d/b.txt"].contains(&change.path.as_str());
        let carries = lane.sandbox.carries(&change.path, TOKEN);
        assert_eq!(carries, change.token && !known, "{}", change.path);
    }
    assert_eq!(lane.look(), [], "each change is seen once");
}

#[test]
fn a_log_of_requests_in_a_servers_own_places_is_no_escape_and_outlives_a_reset() {
    let mut lane = Lane::new(false);
    let logs = ["../home/mcp.log", "../tmp/mcp.log", "cwd/mcp.log", "out/mcp.log"];
    for round in 0..2 {
        for log in logs {
            let mut file =
                fs::File::options().append(true).create(true).open(lane.at(log)).unwrap();
            let line = format!("write_file {{\"content\":\"{TOKEN}\"}}\n");
            std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
        }
        let changes = lane.look();
        assert_eq!(changes.len(), logs.len());
        for change in changes {
            assert!(!change.token, "round {round}: {}", change.path);
            assert!(!lane.sandbox.carries(&change.path, TOKEN), "round {round}: {}", change.path);
        }
        assert!(!lane.sandbox.reset().unwrap().changed);
        assert!(logs.iter().all(|log| lane.at(log).exists()));
    }
}

#[test]
fn what_a_probe_writes_into_a_servers_own_places_is_its_own_and_goes() {
    for dir in ["../home", "../tmp", "cwd", "out"] {
        let mut lane = Lane::new(false);
        let written = [format!("{dir}/k-{TOKEN}"), format!("{dir}/escaped.txt")];
        fs::create_dir(lane.at(&written[0])).unwrap();
        fs::write(lane.at(&written[1]), format!(" {TOKEN}\n")).unwrap();
        let changes = lane.look();
        assert_eq!(changes.len(), 2, "{changes:?}");
        for change in changes {
            assert!(change.token && lane.sandbox.carries(&change.path, TOKEN), "{}", change.path);
            assert!(!lane.sandbox.carries(&change.path, "pr-5544332211"), "{}", change.path);
        }
        lane.reset();
        assert!(written.iter().all(|path| !lane.at(path).exists()), "{dir}");
    }
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
                fs::set_permissions(lane.at(dir), fs::Permissions::from_mode(0o000)).unwrap();
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
        format!("docs/sub/{TOKEN}/text"),
        "attic/stray".into(),
        "stray".into(),
        format!("cwd/{TOKEN}"),
        format!("../home/{TOKEN}"),
    ];
    let stay = ["docs/memory.json", "docs/cache/c", "cwd/c-own", "out/data", "../home/.cfg"];
    let holding = ["docs/memory.db", "cwd/server.log", "out/db", "../home/db", "../tmp/db"];
    let whole = ["docs/sub/text", "cwd/text", "out/text", "../home/text", "../tmp/text"];
    fs::create_dir(lane.at("docs/cache")).unwrap();
    fs::create_dir(lane.at(&format!("docs/sub/{TOKEN}"))).unwrap();
    for path in &gone {
        fs::write(lane.at(path), format!("content {TOKEN}")).unwrap();
    }
    for path in stay {
        fs::write(lane.at(path), "own").unwrap();
    }
    for path in holding {
        fs::write(lane.at(path), format!("content {TOKEN}")).unwrap();
    }
    for path in whole {
        fs::write(lane.at(path), TOKEN).unwrap();
    }
    lane.look();
    lane.reset();
    for path in gone.iter().map(String::as_str).chain(whole) {
        assert!(!lane.at(path).exists(), "{path}");
    }
    for path in stay.into_iter().chain(holding) {
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
        fs::set_permissions(dir, fs::Permissions::from_mode(0o000)).unwrap();
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

fn fs_specs() -> Vec<(String, &'static crate::check::Spec)> {
    let pack = crate::registry::pack("fs").unwrap();
    pack.checks.iter().map(|check| (check.id(), &*check.spec)).collect()
}

#[test]
fn every_probe_has_an_id_of_its_own_one_input_known_tools_and_known_placeholders() {
    let lane = Lane::new(false);
    let operations = [
        "read",
        "multi-read",
        "list",
        "tree",
        "search",
        "stat",
        "write",
        "edit",
        "append",
        "move",
        "copy",
        "delete",
        "mkdir",
    ];
    for (check, spec) in fs_specs() {
        let mut ids = std::collections::HashSet::new();
        for probe in &spec.probes {
            let at = format!("{check} {}", probe.id);
            assert!(ids.insert(&probe.id), "{at}: twice");
            let pair = probe.path_pair.as_ref();
            let inputs = [probe.path.is_some(), pair.is_some(), probe.make.is_some()];
            assert_eq!(inputs.iter().filter(|given| **given).count(), 1, "{at}");
            assert!(probe.value.is_none() && probe.raw.is_none(), "{at}");
            for tool in spec.tools.iter().chain(&probe.tools) {
                assert!(operations.contains(&tool.as_str()), "{at}: {tool}");
            }
            assert!(probe.tools.iter().all(|tool| spec.tools.contains(tool)), "{at}");
            let paired = |tool: &&String| ["move", "copy"].contains(&tool.as_str());
            assert_eq!(
                probe.tools.iter().all(|t| paired(&t)) && !probe.tools.is_empty(),
                pair.is_some(),
                "{at}"
            );
            let texts = probe.path.iter().chain(pair.into_iter().flat_map(|p| [&p.from, &p.to]));
            for text in texts {
                let sent = lane
                    .sandbox
                    .expand(text, TOKEN)
                    .unwrap_or_else(|name| panic!("{at}: ${{{name}}}"));
                assert!(sent.len() < 4096, "{at}");
            }
            if check != "fs-special-files" {
                assert!(probe.core != probe.family.is_some(), "{at}: core, or of a family");
            }
        }
    }
}

#[test]
fn core_probes_cover_every_operation_the_check_asks_about() {
    for (check, spec) in fs_specs() {
        let informs = spec.severity == crate::check::Severity::Advisory;
        if informs || check == "fs-special-files" {
            continue;
        }
        for tool in spec.tools.iter().filter(|tool| *tool != "stat") {
            let asked = spec
                .probes
                .iter()
                .any(|probe| probe.core && (probe.tools.is_empty() || probe.tools.contains(tool)));
            assert!(asked, "{check}: no core probe for {tool}");
        }
    }
}

#[test]
fn a_probe_sends_no_token_of_an_object() {
    let lane = Lane::new(false);
    for (check, spec) in fs_specs() {
        for text in spec.probes.iter().filter_map(|probe| probe.path.as_ref()) {
            let sent = lane.sandbox.expand(text, TOKEN).unwrap();
            let canaries = lane.sandbox.canaries();
            let told = canaries.iter().find(|canary| sent.contains(&canary.token));
            assert!(told.is_none(), "{check}: {text:?} holds {told:?}");
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn what_a_probe_means_is_readable_without_the_server() {
    let mut lane = Lane::new(false);
    lane.sandbox.after_start().unwrap();
    let mut seen = 0;
    for (check, spec) in fs_specs() {
        for probe in spec.probes.iter().filter(|p| p.direct == crate::check::Direct::Object) {
            let sent = lane.sandbox.expand(probe.path.as_ref().unwrap(), TOKEN).unwrap();
            assert!(lane.sandbox.readable(&sent), "{check} {}: {sent:?}", probe.id);
            seen += 1;
        }
        for pair in spec.probes.iter().filter_map(|probe| probe.path_pair.as_ref()) {
            let from = lane.sandbox.expand(&pair.from, TOKEN).unwrap();
            assert!(lane.sandbox.readable(&from), "{check}: {from:?}");
        }
    }
    assert!(seen > 80, "{seen}");
}

#[test]
fn probes_that_take_the_sandbox_itself_away_come_last() {
    for (check, spec) in fs_specs() {
        for probe in &spec.probes {
            let from = probe.path_pair.as_ref().map(|pair| &pair.from);
            let deleted = probe.path.as_ref().filter(|_| probe.tools.iter().any(|t| t == "delete"));
            let root = from.or(deleted).is_some_and(|path| path == "${sandbox}");
            let last = probe.instance == crate::check::InstanceUse::Last;
            assert!(!root || last, "{check} {}", probe.id);
        }
    }
}
