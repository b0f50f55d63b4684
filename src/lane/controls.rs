//! Controls: the calls that must work before a placement counts, and again between probes.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use serde_json::json;

use super::{Lane, ask::Asker};
use crate::{
    check::{LaneKind, Needs},
    classes::{CLASSES, ControlSpec, Expect},
    discover,
    evidence::{Evidence, Observer, Reply, What, Why},
    stage::{Answer, Ask, Label, Stop},
    surface::{Confirmed, Placement, Surface},
    target::postgres::Role,
};

/// The pack of the server's own questions.
const OWN: &str = "core";
/// Tools asked for errors of the database.
const MOST_PROVOKED: usize = 5;

/// A control that worked, kept to be run again.
#[derive(Clone)]
pub(super) struct Proof {
    pub(super) spec: &'static ControlSpec,
}

impl Lane {
    /// Schemas without properties: argument names learnt from the validation error of a `{}` call
    /// to tools that read or list by their name.
    pub(super) async fn learn(&mut self) -> Result<Surface, Stop> {
        let mut surface = Surface::clone(&self.surface);
        for tool in surface.tools.iter_mut().filter(|tool| discover::learnable(tool)).take(25) {
            let label = Label {
                probe: "learn-arguments".into(),
                control: true,
                sent: format!("{} {{}}", tool.name),
                ..Label::default()
            };
            let ask = Ask::call(&tool.name, json!({}));
            let asker = Asker::control("core", Vec::new(), String::new());
            let answer = self.exchange(asker, &label, &ask).await?;
            if let Some(act) = self.acts.last_mut() {
                act.valid = false;
                if answer.declined
                    && let Some(schema) = discover::schema_from_error(&act.text)
                    && let Some(entry) = tool.raw.as_object_mut()
                {
                    entry.insert("inputSchema".into(), schema);
                }
            }
        }
        Ok(surface)
    }

    /// Runs the controls of every placement of this lane.
    pub(super) async fn run_controls(&mut self) -> Result<(), Stop> {
        let mut placements = Vec::clone(&self.placements);
        let mut base = None;
        let needed = self.kind.classes();
        for placement in placements.iter_mut().filter(|placement| !placement.slots.is_empty()) {
            let target = match placement.class.as_str() {
                "sql" => self.database.is_some(),
                _ => self.sandbox.is_some(),
            };
            let asked = needed.is_empty() || needed.contains(&placement.class.as_str());
            if !target || !asked {
                continue;
            }
            let confirmed = self.confirm(placement, base.as_deref()).await;
            // What was learnt of one tool is tried first with the next.
            if placement.is_confirmed() && placement.class != "sql" {
                base = Some(placement.base.clone());
            }
            if let Err(stop) = confirmed {
                self.placements = Arc::new(placements);
                return Err(stop);
            }
        }
        self.placements = Arc::new(placements);
        Ok(())
    }

    /// Errors of the database under a password that must be encoded in a URL: nothing is judged
    /// here, what comes out is read by the checks of the server itself.
    pub(super) async fn provoke_errors(&mut self) -> Result<(), Stop> {
        let placements = Arc::clone(&self.placements);
        for placement in placements.iter().filter(|placed| placed.takes("sql")).take(MOST_PROVOKED)
        {
            for sql in ["SELECT FROM WHERE", "SELECT * FROM no_such_table"] {
                let label = Label {
                    probe: "database-error".into(),
                    valid: true,
                    sent: format!("{} sql={sql}", placement.tool),
                    ..Label::default()
                };
                let asker = Asker::control(OWN, vec![sql.to_owned()], String::new());
                let ask = Ask::call(&placement.tool, placement.arguments(&[("sql", sql)]));
                self.exchange(asker, &label, &ask).await?;
            }
        }
        Ok(())
    }

    async fn confirm(&mut self, placement: &mut Placement, hint: Option<&str>) -> Result<(), Stop> {
        let Some(operation) = CLASSES.operation(&placement.operation) else { return Ok(()) };
        let mut why = String::from("it was not tried");
        if operation.controls.is_empty() {
            return Ok(());
        }
        let bases: Vec<&str> = match hint {
            _ if !placement.takes("path") && !placement.takes("from") => vec![discover::ABSOLUTE],
            Some(hint) => vec![hint],
            None => discover::BASES.to_vec(),
        };
        for base in bases {
            placement.base = base.to_owned();
            for spec in &operation.controls {
                let (line, works) = self.control(placement, spec).await?;
                if works {
                    placement.confirmed = Confirmed::Good;
                    self.proofs.insert(placement.tool.clone(), Proof { spec });
                    self.first_controls.insert(placement.tool.clone(), line);
                    return Ok(());
                }
                why = failure(&line);
                let replied = line.reply != Reply::None;
                self.first_controls.entry(placement.tool.clone()).or_insert(line);
                if !replied {
                    // A tool that leaves one control without a reply would leave them all.
                    discover::ABSOLUTE.clone_into(&mut placement.base);
                    placement.confirmed = Confirmed::Failed(why);
                    return Ok(());
                }
            }
        }
        discover::ABSOLUTE.clone_into(&mut placement.base);
        placement.confirmed = Confirmed::Failed(why);
        Ok(())
    }

    /// Runs the control that once confirmed a placement again.
    pub(super) async fn control_again(&mut self, placement: &Placement) -> Result<Evidence, Stop> {
        let Some(proof) = self.proofs.get(&placement.tool).cloned() else {
            return Ok(Evidence::new(crate::evidence::Kind::Control, "control"));
        };
        Ok(self.control(placement, proof.spec).await?.0)
    }

    /// One control: prepared, called, and seen to have worked or not.
    async fn control(
        &mut self,
        placement: &Placement,
        spec: &ControlSpec,
    ) -> Result<(Evidence, bool), Stop> {
        self.alive().await?;
        let token = self.new_token();
        let expand = |lane: &Self, text: &str| lane.expanded(text, &token);
        if let Some(prepare) = &spec.prepare {
            // A target that cannot be prepared shows as a failed control.
            if let Some(path) = &prepare.path {
                let content = expand(self, prepare.content.as_deref().unwrap_or_default());
                let _ = fs::write(expand(self, path), content);
            }
            if let Some(directory) = &prepare.directory {
                let _ = fs::create_dir(expand(self, directory));
            }
            self.look_away();
        }
        let values: BTreeMap<&str, String> = spec
            .values
            .iter()
            .map(|(role, value)| {
                (role.as_str(), expand(self, &discover::rebase(value, &placement.base)))
            })
            .collect();
        let pairs: Vec<(&str, &str)> =
            values.iter().map(|(role, value)| (*role, value.as_str())).collect();
        let shown: Vec<String> =
            spec.values.iter().map(|(role, value)| format!("{role}={value}")).collect();
        let label = Label {
            probe: format!("control-{}", placement.operation),
            family: Some(placement.operation.clone()),
            control: true,
            valid: true,
            sent: format!("{} {}", placement.tool, shown.join(" ")),
            ..Label::default()
        };
        let sent = values.values().cloned().collect();
        let ask = Ask::call(&placement.tool, placement.arguments(&pairs));
        let pack = match placement.class.as_str() {
            // This lane asks on behalf of the server's own questions.
            _ if self.kind == LaneKind::Quoted => OWN,
            "sql" => self.pack_needing(|needs| matches!(needs, Needs::Database(_))),
            _ => self.pack_needing(|needs| matches!(needs, Needs::Sandbox(_))),
        };
        let asker = Asker::control(pack, sent, token.clone());
        let answer = self.exchange(asker, &label, &ask).await?;
        let (works, by) = self.worked(&spec.expect, &answer, &token);
        let mut line = answer.line;
        line = if works { line.held(by) } else { line.none(Why::ControlLost) };
        self.tidy();
        Ok((line, works))
    }

    fn worked(&self, expect: &Expect, answer: &Answer, token: &str) -> (bool, Observer) {
        let path = |text: &str| self.expanded(text, token);
        let text = self.acts.last().map(|act| act.text.as_str()).unwrap_or_default();
        match expect {
            Expect::Canary(object) => {
                let came = answer.line.facts.iter().any(|fact| {
                    matches!(&fact.what, What::Canary { object: found, .. } if found == object)
                });
                (came, Observer::Canary)
            }
            Expect::Shows(word) => (!answer.declined && text.contains(word), Observer::Reply),
            Expect::Answered => {
                let answered = answer.line.reply == Reply::Answered;
                (!answer.declined && answered, Observer::Reply)
            }
            Expect::Database => {
                let answered = answer.line.reply == Reply::Answered && !answer.declined;
                (answered && self.shows_the_seed(text), Observer::Reply)
            }
            Expect::Exists(at) => (fs::symlink_metadata(path(at)).is_ok(), Observer::Filesystem),
            Expect::Gone(at) => (fs::symlink_metadata(path(at)).is_err(), Observer::Filesystem),
            Expect::Contains(at) => {
                (file_contains(Path::new(&path(at)), token), Observer::Filesystem)
            }
        }
    }
}

impl Lane {
    /// Whether an answer shows how many rows of `customers` the lane's role sees, and the role. The
    /// role is asked of the administrator alone: that another one's server connects as somebody
    /// else is what its checks look for.
    fn shows_the_seed(&self, text: &str) -> bool {
        let Some(database) = &self.database else { return false };
        let role = database.role();
        let rows: &[&str] = match role {
            Role::Admin | Role::Analyst => &["100"],
            Role::Tenant => &["25", "100"],
        };
        let numbers = text.split(|c: char| !c.is_ascii_digit());
        let counted = numbers.into_iter().any(|number| rows.contains(&number));
        counted && (role != Role::Admin || text.contains(role.user()))
    }
}

/// Whether a regular file of at most 1 MiB holds the text.
fn file_contains(path: &Path, text: &str) -> bool {
    let small =
        fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() <= 1 << 20);
    small && fs::read_to_string(path).is_ok_and(|content| content.contains(text))
}

fn failure(line: &Evidence) -> String {
    match (line.excerpt.is_empty(), line.reading_rule.as_deref()) {
        (false, _) => format!("its control came back with: {}", line.excerpt),
        (true, Some(rule)) => format!("its control had no effect ({rule})"),
        (true, None) => "its control got no reply".into(),
    }
}
