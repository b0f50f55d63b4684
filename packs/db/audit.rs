//! Can an administrator tell this server's statements from others?

use crate::{
    evidence::{Collected, Evidence, Fact, Kind, Observer, What},
    journal::{Journal, Session},
    verdict::Ruling,
};

rules! {
    /// Every session names its application, or its statements carry a comment.
    Attributable => Pass,
    /// A session gave no name of its own, and no statement carried a comment.
    Anonymous => Part,
    /// The server opened no session.
    NoSession => Inconclusive,
}

/// Names that drivers set by themselves, which say nothing of the server.
const DRIVERS: [&str; 2] = ["PostgreSQL JDBC Driver", "psql"];

pub(super) fn collect(journal: &Journal) -> Vec<Evidence> {
    journal.sessions.iter().enumerate().map(|(n, session)| line(n, session)).collect()
}

fn line(n: usize, session: &Session) -> Evidence {
    let mut line = Evidence::new(Kind::Probe, "session");
    line.core = true;
    line.lane.clone_from(&session.lane);
    line.seq = n as u64;
    line.role.clone_from(&session.given);
    let name = session.application_name.trim();
    let named = !name.is_empty() && !DRIVERS.contains(&name);
    let text = |class: &str, place: &str| What::Text { class: class.into(), place: place.into() };
    let name = super::shown(name);
    let fact = match (named, session.tagged) {
        (true, _) => text(&format!("the name {name:?}"), "application_name"),
        (false, true) => text("a comment", "its statements"),
        (false, false) => text("no name of the server", "application_name or its statements"),
    };
    line.facts.push(Fact::now(Observer::StateReader, fact));
    match named || session.tagged {
        true => line.held(Observer::StateReader),
        false => line.breached(Observer::StateReader),
    }
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let anonymous: Vec<&Evidence> = collected.breached().collect();
    if !anonymous.is_empty() {
        return Rule::Anonymous.because(anonymous);
    }
    let named: Vec<&Evidence> = collected.held().collect();
    if named.is_empty() {
        return Rule::NoSession.because(collected.probes());
    }
    Rule::Attributable.because(named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{db_session, read_journal, ruled};

    fn rule(sessions: Vec<Session>) -> String {
        let journal = Journal { sessions, ..Journal::default() };
        ruled("audit", read_journal("audit", &journal)).0
    }

    #[test]
    fn a_name_or_a_comment_lets_statements_be_attributed() {
        let tagged = Session { application_name: String::new(), tagged: true, ..db_session() };
        assert_eq!(rule(vec![db_session(), tagged]), "attributable");
    }

    #[test]
    fn a_session_without_a_name_and_one_with_its_drivers_name_are_anonymous() {
        for name in ["", " ", "PostgreSQL JDBC Driver"] {
            let session = Session { application_name: name.into(), ..db_session() };
            assert_eq!(rule(vec![session]), "anonymous", "{name}");
        }
    }
}
