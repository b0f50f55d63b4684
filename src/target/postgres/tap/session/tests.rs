use super::*;
use crate::target::postgres::tap::log::Mark;

/// A connection with everything that was said on it.
struct Talk {
    session: Session,
    log: Log,
}

impl Talk {
    /// A connection that is ready for a statement.
    fn new() -> Self {
        let mut talk = Self { session: Session::new("sm_admin".into()), log: Log::default() };
        assert_eq!(talk.postgres(b'Z', b"I"), Some(News::Accepted));
        talk
    }

    fn client(&mut self, kind: u8, head: &[u8]) -> &mut Self {
        self.session.client(&Frame { kind, head }, &mut self.log).unwrap();
        self
    }

    fn postgres(&mut self, kind: u8, head: &[u8]) -> Option<News> {
        self.session.postgres(&Frame { kind, head }, &mut self.log)
    }

    /// What Postgres says, one kind a letter; `C` is completed as `OK`, `E` is 42501.
    fn answer(&mut self, kinds: &[u8]) -> &mut Self {
        for kind in kinds {
            let head: &[u8] = match kind {
                b'C' => b"OK\0",
                b'E' => b"SERROR\0VERROR\0C42501\0Mpermission denied\0\0",
                b'Z' => b"I",
                _ => b"",
            };
            assert_eq!(self.postgres(*kind, head), None);
        }
        self
    }

    /// Text, tags and state of each statement.
    fn heard(&self) -> Vec<(String, usize, bool)> {
        let statements = self.log.since(Mark::default());
        statements.into_iter().map(|one| (one.sql, one.tags.len(), one.state.is_some())).collect()
    }
}

fn row(sql: &str, tags: usize, failed: bool) -> (String, usize, bool) {
    (sql.to_owned(), tags, failed)
}

#[test]
fn one_message_with_several_statements_has_several_tags() {
    let mut talk = Talk::new();
    talk.client(b'Q', b"COMMIT; DELETE FROM probe_t\0");
    talk.postgres(b'C', b"COMMIT\0");
    talk.postgres(b'C', b"DELETE 3\0");
    talk.answer(b"Z").client(b'Q', b"SELECT\0").answer(b"TCZ");
    let statements = talk.log.since(Mark::default());
    assert_eq!(statements[0].tags, ["COMMIT", "DELETE 3"]);
    assert_eq!((statements[0].user.as_str(), statements[0].extended), ("sm_admin", false));
    assert_eq!(statements[1].tags, ["OK"]);
}

#[test]
fn an_error_of_a_message_does_not_reach_the_next_one() {
    let mut talk = Talk::new();
    talk.client(b'Q', b"a\0").client(b'Q', b"b\0").answer(b"CEZCZ");
    assert_eq!(talk.heard(), [row("a", 1, true), row("b", 1, false)]);
}

#[test]
fn the_steps_of_the_extended_protocol_are_one_statement() {
    let mut talk = Talk::new();
    talk.client(b'P', b"\0SELECT 1\0\0\0").client(b'B', b"\0\0").client(b'D', b"P\0");
    talk.client(b'E', b"\0").client(b'S', b"").answer(b"12TDCZ");
    assert_eq!(talk.heard(), [row("SELECT 1", 1, false)]);
    assert!(talk.log.since(Mark::default())[0].extended);
}

#[test]
fn a_named_statement_shows_its_text_each_time_it_runs() {
    let mut talk = Talk::new();
    talk.client(b'P', b"s1\0DELETE FROM t\0\0\0").client(b'D', b"Ss1\0").client(b'S', b"");
    talk.answer(b"1tnZ");
    let mark = talk.log.mark();
    for _ in 0..2 {
        talk.client(b'B', b"\0s1\0").client(b'E', b"\0").client(b'S', b"").answer(b"2CZ");
    }
    let statements = talk.log.since(mark);
    assert_eq!(statements.len(), 2);
    assert!(statements.iter().all(|one| one.sql == "DELETE FROM t" && one.tags == ["OK"]));
    talk.client(b'C', b"Ss1\0").client(b'B', b"\0s1\0").client(b'S', b"").answer(b"3EZ");
    assert_eq!(talk.heard()[3], row(UNKNOWN, 0, true));
}

#[test]
fn a_portal_fetched_in_parts_is_one_statement() {
    let mut talk = Talk::new();
    talk.client(b'P', b"\0s\0").client(b'B', b"c\0\0").client(b'E', b"c\0").client(b'H', b"");
    talk.answer(b"12s").client(b'E', b"c\0").client(b'S', b"").answer(b"CZ");
    assert_eq!(talk.heard(), [row("s", 1, false)]);
}

#[test]
fn in_a_pipeline_an_error_belongs_to_its_statement_and_the_rest_is_passed_over() {
    let mut talk = Talk::new();
    for sql in ["a", "b", "c"] {
        talk.client(b'P', format!("\0{sql}\0").as_bytes()).client(b'B', b"\0\0");
        talk.client(b'E', b"\0");
    }
    talk.client(b'S', b"");
    talk.client(b'P', b"\0d\0").client(b'B', b"\0\0").client(b'E', b"\0").client(b'S', b"");
    talk.answer(b"12C12EZ12CZ");
    let expected = [row("a", 1, false), row("b", 0, true), row("c", 0, false), row("d", 1, false)];
    assert_eq!(talk.heard(), expected);
}

#[test]
fn what_follows_an_error_is_passed_over_up_to_the_sync_that_comes_later() {
    let mut talk = Talk::new();
    talk.client(b'P', b"\0a\0").client(b'H', b"").answer(b"E");
    talk.client(b'B', b"\0\0").client(b'E', b"\0").client(b'S', b"").answer(b"Z");
    talk.client(b'Q', b"b\0").answer(b"CZ");
    assert_eq!(talk.heard(), [row("a", 0, true), row("b", 1, false)]);
}

#[test]
fn an_error_of_the_closing_commit_belongs_to_the_statement_before_it() {
    let mut talk = Talk::new();
    talk.client(b'P', b"\0a\0").client(b'B', b"\0\0").client(b'E', b"\0").client(b'S', b"");
    talk.answer(b"12CEZ").client(b'Q', b"b\0").answer(b"CZ");
    assert_eq!(talk.heard(), [row("a", 1, true), row("b", 1, false)]);
}

#[test]
fn a_copy_from_the_client_leaves_the_order_as_it_was() {
    // By the extended protocol with the Sync sent along, then once more with data first.
    let mut talk = Talk::new();
    talk.client(b'P', b"\0copy\0").client(b'B', b"\0\0").client(b'E', b"\0").client(b'S', b"");
    talk.answer(b"12G").client(b'd', b"").client(b'c', b"").client(b'S', b"").answer(b"CZ");
    talk.client(b'P', b"\0copy\0").client(b'B', b"\0\0").client(b'E', b"\0").client(b'S', b"");
    talk.client(b'd', b"").client(b'c', b"").client(b'S', b"").answer(b"12GCZ");
    talk.client(b'Q', b"copy in\0").answer(b"G").client(b'f', b"").answer(b"EZ");
    talk.client(b'Q', b"copy out\0").answer(b"HdcCZ");
    talk.client(b'Q', b"last\0").answer(b"CZ");
    let expected = [
        row("copy", 1, false),
        row("copy", 1, false),
        row("copy in", 0, true),
        row("copy out", 1, false),
        row("last", 1, false),
    ];
    assert_eq!(talk.heard(), expected);
}

#[test]
fn function_calls_empty_texts_and_notices_keep_the_order() {
    let mut talk = Talk::new();
    talk.client(b'F', b"").answer(b"VZ").client(b'F', b"").answer(b"EZ");
    talk.client(b'Q', b"\0").answer(b"IZ").client(b'Q', b"a\0").answer(b"NASCAZ");
    let expected = [row(CALL, 0, false), row(CALL, 0, true), row("", 0, false), row("a", 1, false)];
    assert_eq!(talk.heard(), expected);
}

#[test]
fn a_refused_login_is_news_and_so_are_the_backend_and_a_later_name() {
    let mut talk = Talk { session: Session::new("x".into()), log: Log::default() };
    let refused = talk.postgres(b'E', b"SFATAL\0VFATAL\0C28P01\0Mno\0\0");
    assert_eq!(refused, Some(News::Refused("28P01".into())));
    assert_eq!(talk.postgres(b'K', b"\0\0\x01\x02abcd"), Some(News::Pid(258)));
    assert_eq!(talk.postgres(b'K', b"\0"), None);
    let named = talk.postgres(b'S', b"application_name\0shop\0");
    assert_eq!(named, Some(News::ApplicationName("shop".into())));
    assert_eq!(talk.postgres(b'S', b"TimeZone\0UTC\0"), None);
}

#[test]
fn an_error_nobody_asked_for_belongs_to_nobody() {
    let mut talk = Talk::new();
    talk.client(b'Q', b"a\0").answer(b"CZE");
    assert_eq!(talk.heard(), [row("a", 1, false)]);
}

#[test]
fn answers_without_questions_change_nothing() {
    let mut talk = Talk::new();
    talk.answer(b"C12E3ITDnstGHWVZZZ");
    assert!(talk.heard().is_empty());
    talk.postgres(b'E', b"C\0");
    talk.postgres(b'E', b"Ctoolong\0\0");
    talk.postgres(b'C', b"no zero byte");
    talk.client(b'B', b"").client(b'P', b"").client(b'C', b"").client(b'E', b"no zero byte");
}

#[test]
fn names_and_pipelines_are_bounded() {
    let mut talk = Talk::new();
    for n in 0..2 * MOST_NAMES {
        talk.client(b'P', format!("s{n}\0a\0").as_bytes());
        talk.client(b'B', format!("p{n}\0s{n}\0").as_bytes());
    }
    assert!(talk.session.prepared.len() <= MOST_NAMES);
    assert!(talk.session.portals.len() <= MOST_NAMES);
    let frame = Frame { kind: b'S', head: b"" };
    let outcome = (0..=MOST_PENDING).find_map(|_| talk.session.client(&frame, &mut talk.log).err());
    assert_eq!(outcome, Some(Malformed));
}

#[test]
fn text_that_is_no_utf8_is_kept_readable_and_short() {
    let mut talk = Talk::new();
    let mut text = vec![0xff; 2 * HEAD];
    text.push(0);
    talk.client(b'Q', &text);
    let sql = &talk.heard()[0].0;
    assert!(sql.len() <= HEAD && sql.starts_with('\u{fffd}'), "{}", sql.len());
}
