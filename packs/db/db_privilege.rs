//! Does each instance connect as exactly the role it was given, and is that all it can be?

use crate::{
    evidence::{Collected, Evidence, Fact, Kind, Observer, What},
    journal::{Journal, Session},
    verdict::Ruling,
};

rules! {
    /// An instance connected as a superuser, as a role exempt from row-level security, or as the
    /// owner of a table with row-level security.
    AbovePolicies => Fail,
    /// An instance connected as another role than the one it was given.
    AnotherRole => Fail,
    /// Every instance connected as the role it was given, and that role stands above no policy.
    GivenRole => Pass,
    /// The server opened no session.
    NoSession => Inconclusive,
}

const ABOVE: &str = "above-policies";

pub(super) fn collect(journal: &Journal) -> Vec<Evidence> {
    journal.sessions.iter().enumerate().map(|(n, session)| line(n, session)).collect()
}

fn line(n: usize, session: &Session) -> Evidence {
    let mut line = Evidence::new(Kind::Probe, "login");
    line.core = true;
    line.lane.clone_from(&session.lane);
    line.seq = n as u64;
    line.role.clone_from(&session.given);
    let rights = [
        (session.superuser, "a superuser"),
        (session.bypasses_rls, "a role exempt from row-level security"),
        (session.owns_rls, "the owner of a table with row-level security"),
    ];
    let user = super::shown(&session.user);
    for (_, right) in rights.iter().filter(|(has, _)| *has) {
        let what = What::Text { class: (*right).into(), place: format!("the login as {user}") };
        line.facts.push(Fact::now(Observer::StateReader, what));
        line.family = Some(ABOVE.into());
    }
    if line.family.is_some() {
        return line.breached(Observer::StateReader);
    }
    let what = What::Text { class: format!("the role {user}"), place: "the login".into() };
    line.facts.push(Fact::now(Observer::Wire, what));
    match session.user == session.given {
        true => line.held(Observer::Wire),
        false => line.breached(Observer::Wire),
    }
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let (above, other): (Vec<&Evidence>, Vec<&Evidence>) =
        collected.breached().partition(|line| line.family.as_deref() == Some(ABOVE));
    if !above.is_empty() {
        return Rule::AbovePolicies.because(above);
    }
    if !other.is_empty() {
        return Rule::AnotherRole.because(other);
    }
    let held: Vec<&Evidence> = collected.held().collect();
    if held.is_empty() {
        return Rule::NoSession.because(collected.probes());
    }
    Rule::GivenRole.because(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{db_session, read_journal, ruled};

    fn rule(session: Session) -> String {
        let journal = Journal { sessions: vec![db_session(), session], ..Journal::default() };
        ruled("db-privilege", read_journal("db-privilege", &journal)).0
    }

    #[test]
    fn a_login_above_the_policies_fails_whatever_role_it_takes_later() {
        let user = || "root".to_owned();
        for session in [
            Session { user: user(), superuser: true, ..db_session() },
            Session { user: user(), bypasses_rls: true, ..db_session() },
            Session { user: user(), owns_rls: true, ..db_session() },
        ] {
            assert_eq!(rule(session), "above-policies");
        }
    }

    #[test]
    fn another_login_than_the_one_given_fails() {
        assert_eq!(rule(Session { user: "sm_admin".into(), ..db_session() }), "another-role");
        assert_eq!(rule(db_session()), "given-role");
    }
}
