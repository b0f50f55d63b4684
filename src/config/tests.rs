//! Configurations as people write them, and as they should not.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;

const KNOWN: Known<'static> = Known {
    packs: &["core", "fs", "effects"],
    later_packs: &["db", "net", "sql-guard"],
    checks: &[
        ("fs-path-escape", false, "critical"),
        ("shutdown", false, "scored"),
        ("refusal-quality", true, "advisory"),
    ],
};

fn read(text: &str) -> (Config, Vec<Warning>) {
    parse(text, "sealmark.yaml", &KNOWN).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> ConfigError {
    match parse(text, "sealmark.yaml", &KNOWN) {
        Ok((config, _)) => panic!("{text:?} was accepted: {config:?}"),
        Err(error) => error,
    }
}

/// Asserts kind, place, and a part of message and help; and that the text has its parts.
#[track_caller]
fn refuses(text: &str, kind: ErrorKind, at: (u32, u32), message: &str, help: &str) {
    let error = refused(text);
    let shown = error.to_string();
    assert_eq!((error.place.line, error.place.column), at, "{shown}");
    assert_eq!(error.kind, kind, "{shown}");
    assert!(error.message.contains(message), "{shown}");
    assert!(error.help.contains(help), "{shown}");
    assert!(shown.contains(&format!("--> sealmark.yaml:{}:{}", at.0, at.1)), "{shown}");
    assert!(shown.lines().last().is_some_and(|line| line.starts_with("help: ")), "{shown}");
    let (marked, caret) = (shown.lines().nth(3), shown.lines().nth(4));
    assert!(marked.is_some_and(|line| line.contains(" | ")), "{shown}");
    assert!(caret.is_some_and(|line| line.contains('^')), "{shown}");
}

const FULL: &str = r#"server:
  command: npx
  args: [-y, "@scope/server@1.2.3", "${sandbox}", 5]
  env:
    ZED: "1"
    API_KEY: "${canary:API_KEY}"
    COUNTRY: no
    PORT: 8080
  cwd: sub
  files:
    settings.json: '{"root": "${sandbox.out}"}'
packs: [core, fs]
tools:
  read_file: { class: read }
  call: { class: git-read, arguments: { project: "${sandbox}", depth: 3 } }
checks:
  shutdown: { enabled: false }
  refusal-quality: { severity: advisory }
profile: ci
world: open
fail_under: B
accept:
  - check: fs-path-escape
    rule: core-breached
    reason: known, being fixed
    until: 2027-01-31
limits: { rows: 500 }
timeouts: { call: 2.5 }
"#;

#[test]
fn a_full_file_is_read_with_order_and_text_as_written() {
    let (config, _) = read(FULL);
    let server = &config.server;
    assert_eq!(server.args, ["-y", "@scope/server@1.2.3", "${sandbox}", "5"]);
    let names: Vec<&str> = server.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ZED", "API_KEY", "COUNTRY", "PORT"]);
    assert_eq!(server.env[2].1, "no");
    assert_eq!(server.env[3].1, "8080");
    assert_eq!(config.packs.as_deref(), Some(&["core".to_owned(), "fs".to_owned()][..]));
    assert_eq!(config.tools["read_file"].class, Some(Class::Read));
    assert_eq!(config.tools["call"].arguments["depth"], serde_json::json!(3));
    assert_eq!(config.fail_under, Letter::B);
    assert_eq!(config.profile, Profile::Ci);
    assert_eq!(config.accept[0].until, jiff::civil::date(2027, 1, 31));
    assert_eq!(config.accept[0].line, 23);
    assert_eq!(config.limits.rows, 500);
    assert_eq!(config.limits.call, Duration::from_millis(2500));
    assert_eq!(config.server_line, 2);
}

#[test]
fn the_placeholders_of_a_file_are_listed() {
    let used = read(FULL).0.placeholders();
    let expected =
        [Placeholder::Sandbox, Placeholder::SandboxOut, Placeholder::Canary("API_KEY".into())];
    assert_eq!(used, BTreeSet::from(expected));
}

#[test]
fn a_small_file_has_the_standard_values() {
    let (config, warnings) = read("server: { command: node }\n");
    assert_eq!(config.fail_under, Letter::A);
    assert_eq!(config.limits, Limits::default());
    assert_eq!((config.packs.is_none(), config.profile), (true, Profile::Standard));
    assert_eq!(config.departures(&KNOWN), []);
    assert_eq!(warnings, []);
}

#[test]
fn json_with_and_without_a_byte_order_mark_and_windows_lines_are_read() {
    let json = r#"{"server": {"command": "node", "env": {"A": "1"}}, "packs": ["core"]}"#;
    assert_eq!(read(json).0.server.env, [("A".to_owned(), "1".to_owned())]);
    assert_eq!(read(&format!("\u{feff}{json}")).0.server.command, "node");
    let windows = "server:\r\n  command: node\r\n  args: [a]\r\n";
    assert_eq!(read(windows).0.server.args, ["a"]);
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    use ErrorKind::Key;
    refuses("server:\n  comand: x\n", Key, (2, 3), "`comand`", "`command`");
    refuses("server: {command: x}\npakcs: []\n", Key, (2, 1), "`pakcs`", "`packs`");
    refuses("server: {command: x}\r\nzzz: 1\r\n", Key, (2, 1), "`zzz`", "the keys here are");
    let text = "server: {command: x}\nchecks:\n  shutdown: {enabld: true}\n";
    refuses(text, Key, (3, 14), "`enabld`", "`enabled`");
    refuses("command: x\n", Key, (1, 1), "`command`", "below");
    refuses("mcpServers: {}\n", Key, (1, 1), "`mcpServers`", "client");
    refuses("\u{feff}servr: 1\n", Key, (1, 1), "`servr`", "`server`");
}

#[test]
fn missing_and_doubled_keys_are_refused() {
    use ErrorKind::{Key, Value};
    refuses("packs: [core]\n", Key, (1, 1), "`server` is missing", "command");
    refuses("server:\n  args: [a]\n", Key, (2, 3), "no command", "command:");
    refuses("server:\n  command: a\n  command: b\n", Key, (3, 3), "twice", "keep one");
    let text = "server:\n  command: a\n  env:\n    A: '1'\n    A: '2'\n";
    refuses(text, Key, (5, 5), "`A` is given twice", "keep one");
    refuses("server:\n  <<: {command: a}\n", Key, (2, 3), "merge keys", "write the keys out");
    refuses("server:\n  command: ' '\n", Value, (2, 12), "empty", "name the program");
    let text = "server: {command: a}\naccept:\n  - check: shutdown\n    reason: x\n";
    refuses(text, Key, (4, 5), "`until` is missing", "2027");
    let text = "server: {command: a}\naccept:\n  - check: shutdown\n    until: 2027-01-01\n";
    refuses(text, Key, (4, 5), "`reason` is missing", "why");
}

#[test]
fn broken_yaml_is_refused_where_it_breaks() {
    use ErrorKind::{Key, Syntax, Value};
    refuses("server:\n\tcommand: x\n", Syntax, (2, 2), "tabs", "spaces");
    refuses("server:\n  command: \"x\n  args: []\n", Syntax, (2, 12), "unclosed quote", "close");
    refuses("server: {command: a\n", Syntax, (1, 9), "unclosed bracket", "close the bracket");
    refuses("server:\n  command: a: b\n", Syntax, (2, 13), "mapping values", "quote");
    refuses("server:\n  command: @x\n", Syntax, (2, 12), "unexpected character", "quote");
    refuses("server: *gone\n", Syntax, (1, 9), "no anchor", "quote");
    refuses("", Syntax, (1, 1), "no content", "configuration.md");
    refuses("# only words\n", Syntax, (2, 1), "no content", "configuration.md");
    refuses("server: {command: a}\n---\nserver: {}\n", Syntax, (3, 1), "more than one", "---");
    refuses("just words\n", Value, (1, 1), "keys with values", "key: value");
    refuses("\u{1}\u{2}\n", Syntax, (1, 1), "unexpected character", "");
    refuses("server: {command: a}\nserver: {command: b}\n", Key, (2, 1), "twice", "");
}

#[test]
fn values_of_the_wrong_type_are_refused() {
    use ErrorKind::Value;
    refuses("server:\n  command: x\n  args: a b\n", Value, (3, 9), "a list", "[a, b]");
    refuses("server:\n  command: [x]\n", Value, (2, 12), "a text", "");
    refuses("server:\n  command: x\n  env: {A: }\n", Value, (3, 10), "found nothing", "\"\"");
    let text = "server: {command: x}\nchecks:\n  shutdown: {enabled: yes}\n";
    refuses(text, Value, (3, 23), "`true` or `false`", "");
    let text = "server: {command: x}\nlimits: {rows: many}\n";
    refuses(text, Value, (2, 16), "a whole number", "10000");
    let text = "server: {command: x}\ntimeouts: {call: soon}\n";
    refuses(text, Value, (2, 18), "a number", "30");
    let text = "server: {command: x}\ntimeouts: {call: -1}\n";
    refuses(text, Value, (2, 18), "out of range", "0.01");
    let text = "server: {command: x}\nlimits: {rows: -1}\n";
    refuses(text, Value, (2, 16), "a whole number", "10000");
    let text = "server: {command: x}\nprofile: [ci]\n";
    refuses(text, Value, (2, 10), "one word", "");
    refuses("server: {command: a}\npacks:\n - a\n- b\n", ErrorKind::Syntax, (4, 3), "", "indent");
    let text = "server: {command: x}\nlimits: {tools: 0}\n";
    refuses(text, Value, (2, 17), "out of range", "from 1 to 1000");
}

#[test]
fn words_outside_their_list_are_refused_with_a_suggestion() {
    use ErrorKind::Value;
    let with = |rest: &str| format!("server: {{command: x}}\n{rest}");
    let text = with("checks:\n  shutdown: {severity: critcal}\n");
    refuses(&text, Value, (3, 24), "`critcal`", "`critical`");
    refuses(&with("fail_under: E\n"), Value, (2, 13), "`E`", "`A`, `B`");
    refuses(&with("profile: fast\n"), Value, (2, 10), "`fast`", "`standard`, ");
    refuses(&with("tools: {t: {class: reed}}\n"), Value, (2, 20), "`reed`", "`read`");
    refuses(&with("packs: [core, sf]\n"), Value, (2, 15), "unknown pack `sf`", "`fs`");
    refuses(&with("packs: [core, core]\n"), Value, (2, 15), "twice", "once");
    refuses(&with("packs: []\n"), Value, (2, 8), "empty", "remove the key");
    let text = with("checks:\n  shutdwn: {enabled: false}\n");
    refuses(&text, Value, (3, 3), "unknown check `shutdwn`", "`shutdown`");
    refuses(&with("checks:\n  shutdown: {}\n"), Value, (3, 3), "changes nothing", "severity");
    refuses(&with("tools:\n  t: {}\n"), Value, (3, 3), "changes nothing", "class");
}

#[test]
fn unsound_accept_entries_are_refused() {
    use ErrorKind::Value;
    let with = |check: &str, reason: &str, until: &str| {
        format!(
            "server: {{command: x}}\naccept:\n- {{check: {check}, reason: {reason}, until: {until}}}\n"
        )
    };
    refuses(&with("shutdow", "r", "2027-01-01"), Value, (3, 11), "unknown check", "`shutdown`");
    refuses(&with("shutdown", "' '", "2027-01-01"), Value, (3, 29), "reason is empty", "why");
    for date in ["2027-02-30", "tomorrow", "20270101", "2027-1-1", "2027-01-01T00:00:00"] {
        refuses(&with("shutdown", "r", date), Value, (3, 39), "is no date", "2027-01-31");
    }
}

#[test]
fn what_comes_later_is_named_as_such() {
    use ErrorKind::NotInThisVersion as Later;
    for key in ["net", "exec", "scope", "sql_guard", "upstream", "identities", "probes"] {
        let text = format!("server: {{command: x}}\n{key}: {{a: 1}}\n");
        refuses(&text, Later, (2, 1), &format!("`{key}` is not in this version"), "remove it");
    }
    refuses("server: {url: 'http://127.0.0.1:1/'}\n", Later, (1, 15), "HTTP", "pack http");
    refuses("server: {start: {command: x}}\n", Later, (1, 17), "HTTP", "pack http");
    refuses("server:\n  headers: {A: b}\n", Later, (2, 3), "HTTP", "pack http");
    refuses("server: {command: x, protocol: modern}\n", Later, (1, 32), "era", "auto");
    refuses("server: {command: x}\nworld: sealed\n", Later, (2, 8), "sealed world", "open");
    refuses("server: {command: x}\npacks: [core, db]\n", Later, (2, 15), "pack db", "`core`");
    refuses("server: {command: x, args: ['${sqlite}']}\n", Later, (1, 30), "sqlite", "later");
}

#[test]
fn a_command_beside_a_url_is_refused() {
    let text = "server:\n  command: x\n  url: http://127.0.0.1/\n";
    refuses(text, ErrorKind::Value, (2, 12), "both", "`start`");
}

#[test]
fn placeholders_are_refused_where_they_stand() {
    use ErrorKind::Placeholder;
    let args = |arg: &str| format!("server:\n  command: x\n  args:\n    - {arg}\n");
    refuses(&args("a/${sandbx}/b"), Placeholder, (4, 9), "${sandbx}", "`${sandbox}`");
    refuses(&args("\"a ${sandbox\""), Placeholder, (4, 10), "not closed", "}");
    refuses(&args("'${sandbox} ${canary:9}'"), Placeholder, (4, 19), "canary:9", "API_KEY");
    let missing = "SEALMARK_TEST_NO_SUCH_VARIABLE";
    let text = args(&format!("${{env:{missing}}}"));
    refuses(&text, Placeholder, (4, 7), missing, "set SEALMARK");
    let block = "server:\n  command: x\n  files:\n    a: |\n      one\n      two ${nope}\n";
    refuses(block, Placeholder, (6, 11), "${nope}", "$${");
    let argument = "server: {command: x}\ntools: {t: {arguments: {a: ['${nope}']}}}\n";
    refuses(argument, Placeholder, (2, 30), "${nope}", "$${");
    assert_eq!(read(&args("$${IFS}")).0.placeholders(), BTreeSet::new());
}

#[test]
fn names_that_cannot_be_are_refused() {
    use ErrorKind::Value;
    refuses("server: {command: x, env: {A=B: '1'}}\n", Value, (1, 28), "variable", "API_KEY");
    for name in ["../x", "/x", "a/../../x", "c:x", "''"] {
        let text = format!("server:\n  command: x\n  files:\n    {name}: y\n");
        refuses(&text, Value, (4, 5), "name of a file", "settings.json");
    }
    refuses("server: {command: \"a\\0b\"}\n", Value, (1, 19), "NUL", "remove");
}

#[test]
fn bombs_and_deep_nesting_end_early() {
    let start = Instant::now();
    let mut bomb = String::from("server: {command: x}\ntools:\n  t:\n    arguments:\n");
    bomb.push_str("      a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..9 {
        let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
        bomb = format!("{bomb}      a{i}: &a{i} [{aliases}]\n");
    }
    let error = refused(&bomb);
    assert_eq!(error.kind, ErrorKind::Syntax, "{error}");
    assert!(error.place.line > 4 && error.help.contains("aliases"), "{error}");
    let deep = "[".repeat(100_000);
    let error = refused(&format!("server: {{command: x}}\ntools: {{t: {{arguments: {{a: {deep}"));
    assert_eq!((error.kind, error.place.line), (ErrorKind::Syntax, 2), "{error}");
    assert!(error.to_string().len() < 1000);
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn files_that_are_none_are_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("a.yaml");
    let refused = |message: &str, help: &str| {
        let error = load(&path, &KNOWN).expect_err("not readable as a configuration");
        assert_eq!(error.kind, ErrorKind::Read, "{error}");
        assert!(error.message.contains(message) && error.help.contains(help), "{error}");
        assert!(error.to_string().contains("a.yaml"));
        error.place
    };
    refused("no such file", "sealmark run -- COMMAND");
    std::fs::create_dir(&path).expect("made");
    refused("directory", "sealmark.yaml");
    std::fs::remove_dir(&path).expect("removed");
    std::fs::write(&path, vec![b'#'; 10 << 20]).expect("written");
    refused("larger than 1048576", "right file");
    std::fs::write(&path, b"server:\n  \x00\x01").expect("written");
    let place = refused("no text", "UTF-8");
    assert_eq!((place.line, place.column), (2, 3));
    std::fs::write(&path, b"server:\n  a\xff").expect("written");
    let place = refused("no UTF-8", "UTF-8");
    assert_eq!((place.line, place.column), (2, 4));
    std::fs::write(&path, b"\xff\xfes\0e\0").expect("written");
    refused("no text", "UTF-16");
}

#[cfg(unix)]
#[test]
fn a_pipe_and_a_file_without_permission_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a directory");
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("made");
    let error = load(&pipe, &KNOWN).expect_err("a pipe");
    assert!(error.message.contains("no regular file"), "{error}");
    let closed = folder.path().join("closed");
    std::fs::write(&closed, "server: {command: x}").expect("written");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o0)).expect("set");
    // The superuser reads it all the same.
    if let Err(error) = load(&closed, &KNOWN) {
        assert_eq!(error.kind, ErrorKind::Read, "{error}");
        assert!(error.help.contains("permissions"), "{error}");
    } else {
        assert!(nix::unistd::geteuid().is_root());
    }
}

#[test]
fn an_error_hides_credentials_and_control_characters() {
    let text =
        "server: {command: x, env: {API_KEY: hunter22, A: \"sk-abcdefghijklmnopqrst\"}, bad: 1}\n";
    let error = refused(text);
    for shown in [error.to_string(), format!("{error:?}")] {
        assert!(!shown.contains("hunter22") && !shown.contains("sk-abcdef"), "{shown}");
    }
    let error = refused("server: {command: x, \"b\\e[31md\": 1}\n");
    assert!(!error.to_string().contains('\u{1b}'), "{error}");
    let secret = "server: {command: x}\nfail_under: ghp_0123456789abcdefghijABCD\n";
    assert!(!refused(secret).to_string().contains("ghp_0123"));
}

fn values() -> Values {
    Values {
        sandbox: "/lane/s".into(),
        canaries: BTreeMap::from([("API_KEY".into(), "SM-canary-1".into())]),
        ..Values::default()
    }
}

#[test]
fn a_launch_has_its_placeholders_expanded_and_its_paths_absolute() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("sealmark.yaml");
    let text = "server:\n  command: ./bin/run\n  args: [server.js, other.js, \"${sandbox}\"]\n  \
                env: {K: \"${canary:API_KEY}\"}\n";
    std::fs::write(&path, text).expect("written");
    std::fs::write(folder.path().join("server.js"), "").expect("written");
    let (config, _) = load(&path, &KNOWN).unwrap_or_else(|error| panic!("{error}"));
    let launch = config.launch(&values()).expect("every value is there");
    let here = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    assert_eq!(launch.command, here("./bin/run"));
    assert_eq!(launch.args, [here("server.js"), "other.js".into(), "/lane/s".into()]);
    assert_eq!(launch.env, [("K".to_owned(), "SM-canary-1".to_owned())]);
    assert_eq!(launch.cwd, None);
    assert!(!format!("{launch:?}").contains("SM-canary"));
    std::fs::write(&path, format!("{text}  cwd: sub\n")).expect("written");
    let (config, _) = load(&path, &KNOWN).unwrap_or_else(|error| panic!("{error}"));
    let launch = config.launch(&values()).expect("every value is there");
    assert_eq!(launch.cwd, Some(folder.path().join("sub")));
    assert_eq!(launch.args[0], "server.js");
}

#[test]
fn a_command_line_is_a_configuration() {
    let argv = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let (config, _) = from_command(&argv(&["npx", "-y", "s@1.0.0", "${sandbox}"])).expect("sound");
    assert_eq!(config.server.args, ["-y", "s@1.0.0", "${sandbox}"]);
    assert_eq!((config.server_line, config.file.is_none()), (1, true));
    assert_eq!(config.start_limit(), Duration::from_secs(60));
    let error = from_command(&argv(&["node", "a${", "b"])).expect_err("unclosed");
    assert_eq!((error.place.line, error.place.column), (1, 7), "{error}");
    let error = from_command(&argv(&["node", "${sandbx}", "${sandbox}"])).expect_err("unknown");
    assert_eq!((error.place.column, error.place.width), (6, 9), "{error}");
    assert!(error.to_string().contains("--> command line:1:6"), "{error}");
    let error = from_command(&[]).expect_err("empty");
    assert!(error.help.contains("sealmark run --"), "{error}");
}

#[test]
fn what_is_locked_and_changed_is_listed() {
    let (config, _) = read(FULL);
    let keys: Vec<String> = config.departures(&KNOWN).into_iter().map(|d| d.key).collect();
    assert_eq!(keys, ["checks.shutdown.enabled", "limits.rows", "timeouts.call"]);
    let (config, _) = read(
        "server: {command: x}\nprofile: deep\nchecks:\n  fs-path-escape: {severity: critical}\n  \
         refusal-quality: {severity: scored}\n",
    );
    let keys: Vec<String> = config.departures(&KNOWN).into_iter().map(|d| d.key).collect();
    assert_eq!(keys, ["profile", "checks.refusal-quality.severity"]);
    assert_eq!(config.limits.probe_string, 1 << 20);
}

#[test]
fn debug_of_a_configuration_shows_no_credential() {
    let text = "server: {command: x, args: [--token, hunter22], env: {API_KEY: hunter22, U: 'http://a:hunter22@h'}, files: {f: hunter22}}\n";
    let debug = format!("{:?}", read(text).0);
    assert!(!debug.contains("hunter22"), "{debug}");
}

#[test]
fn the_schema_names_every_key_with_a_description_and_refuses_others() {
    let schema = json_schema();
    assert_eq!(schema["additionalProperties"], serde_json::json!(false));
    assert_eq!(schema["required"], serde_json::json!(["server"]));
    assert_eq!(schema["properties"]["fail_under"]["default"], "A");
    fn described(schema: &serde_json::Value, path: &str) {
        let properties = schema["properties"].as_object().into_iter().flatten();
        for (key, property) in properties {
            assert!(property["description"].is_string(), "{path}.{key}: {property}");
        }
    }
    described(&schema, "");
    let definitions = schema["$defs"].as_object().expect("definitions");
    definitions.iter().for_each(|(name, definition)| described(definition, name));
    assert_eq!(definitions["LimitsFile"]["properties"]["rows"]["default"], 10_000);
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused_with_a_help_line(text in "[ \\n\\ta-c:{}\\[\\]'\"$&*!|>#,-]{0,60}") {
        for text in [text.clone(), format!("server:\n  command: {text}")] {
            if let Err(error) = parse(&text, "a", &KNOWN) {
                let shown = error.to_string();
                let last = shown.lines().last().unwrap_or_default();
                proptest::prop_assert!(last.starts_with("help: ") && last.len() > 6);
            }
        }
    }
}
