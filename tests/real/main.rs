//! Published servers, installed at pinned versions and graded whole: what is decided about them is
//! compared with `targets.yaml`, which says what each of them is known to do.
//!
//! Runs with `SEALMARK_REAL=1` only, for it needs npm and PyPI once. Servers stay installed in
//! `target/real-servers`, or in the folder named by `SEALMARK_REAL_CACHE`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod grade;
mod install;
mod table;

use std::io::Write as _;

/// One test for each target, and the list of all of them.
macro_rules! targets {
    ($($test:ident => $id:literal,)+) => {
        const TESTED: &[&str] = &[$($id),+];
        $(#[test] fn $test() { check($id); })+
    };
}

targets! {
    the_sound_filesystem_server_passes_and_hangs_on_a_fifo => "filesystem-2.0.1",
    siblings_with_one_more_character_are_reached => "filesystem-2026.8.31",
    prefix_siblings_and_links_are_read_and_written => "filesystem-2025.3.28",
    a_server_whose_schemas_lost_their_properties_gets_no_a => "filesystem-2025.3.28-bare-schemas",
    refusals_as_success_texts_are_no_errors => "sqlite-2025.4.25",
    a_printed_environment_fails_secret_echo => "everything-2026.8.31",
    a_server_without_its_key_gets_no_letter => "brave-search-0.6.2",
    a_server_made_to_be_broken_gets_an_f => "vulnerable-workspace-0.1.0",
    nothing_fails_in_the_memory_server => "memory-2026.8.31",
    nothing_fails_in_the_thinking_server => "sequential-thinking-2026.8.31",
    nothing_fails_in_the_time_server => "time-2026.10.19",
    nothing_fails_in_the_git_server => "git-2026.10.19",
    nothing_fails_in_the_fetch_server => "fetch-2026.10.24",
    the_reference_postgres_server_is_escaped_by_a_commit => "postgres-0.6.2",
    dbhub_writes_unless_it_is_told_not_to => "dbhub-1.4.0",
    dbhub_told_to_read_only_refuses_writes => "dbhub-1.4.0-readonly",
    a_database_server_with_a_cap_and_a_time_limit_passes => "database-mcp-postgres-0.2.1",
    a_server_of_the_rust_sdk_is_understood => "rmcp-3.11.0",
}

#[test]
fn every_target_of_the_table_has_a_test_and_every_expectation_a_rule() {
    let ids: Vec<String> = table::all().iter().map(|target| target.id.clone()).collect();
    assert_eq!(ids, TESTED);
    let wrong: Vec<String> = table::all().iter().flat_map(table::Target::unknown).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check(id: &str) {
    if std::env::var_os("SEALMARK_REAL").is_none_or(|set| set != "1") {
        // Not through `eprintln!`, which the runner would keep to itself.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {id}; set SEALMARK_REAL=1 to install and grade published servers"
        );
        return;
    }
    let all = table::all();
    let target = all.iter().find(|target| target.id == id).unwrap();
    let place = install::installed(target).unwrap_or_else(|why| panic!("install {id}: {why}"));
    let graded = grade::grade(target, &place);
    let differences = graded.differences(target);
    assert!(
        differences.is_empty(),
        "{id} differs from targets.yaml ({}):\n{}",
        target.why.trim(),
        differences.join("\n")
    );
}
