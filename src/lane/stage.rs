//! The stage of an adaptive check, on a lane.

use std::{sync::Arc, time::Duration};

use super::{Lane, ask::Asker};
use crate::{
    check::{Check, LaneKind, Spec},
    evidence::Evidence,
    stage::{Answer, Ask, BoxFuture, Label, Stage, Stop},
    surface::{Placement, Surface},
};

/// How many tools that showed up differently in a later list are kept.
const MOST_LATER: usize = 1_000;

/// A lane with one check on it.
pub(super) struct OnStage<'a> {
    lane: &'a mut Lane,
    check: &'static Check,
    token: String,
}

impl<'a> OnStage<'a> {
    pub(super) fn new(lane: &'a mut Lane, check: &'static Check) -> Self {
        let token = lane.new_token();
        Self { lane, check, token }
    }
}

impl Stage for OnStage<'_> {
    fn spec(&self) -> &'static Spec {
        &self.check.spec
    }

    fn surface(&self) -> Arc<Surface> {
        Arc::clone(&self.lane.surface)
    }

    fn main_surface(&self) -> Arc<Surface> {
        let main = self.lane.shared.main_surface.borrow().clone().flatten();
        main.unwrap_or_else(|| self.surface())
    }

    fn placements(&self) -> Arc<Vec<Placement>> {
        Arc::clone(&self.lane.placements)
    }

    fn expand(&self, text: &str) -> String {
        self.lane.expanded(text, &self.token)
    }

    fn ask<'a>(&'a mut self, label: Label, ask: Ask) -> BoxFuture<'a, Result<Answer, Stop>> {
        Box::pin(async move {
            let sent = strings_of(&ask);
            let asker = Asker::probe(self.check, &label.probe, sent, self.token.clone());
            let answer = self.lane.exchange(asker, &label, &ask).await?;
            self.lane.tidy();
            Ok(answer)
        })
    }

    fn list_again<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Surface>, Stop>> {
        Box::pin(async move {
            self.lane.alive().await?;
            let limit = self.lane.shared.config.limits.list;
            let mut interrupt = self.lane.shared.interrupt.clone();
            let Some(instance) = &mut self.lane.instance else { return Ok(None) };
            let listed = tokio::select! {
                listed = instance.client.list_tools(limit) => listed,
                _ = interrupt.wait_for(|stop| *stop) => return Err(Stop),
            };
            let Ok(listing) = listed else { return Ok(None) };
            for tool in listing.tools.iter().take(MOST_LATER) {
                if !self.lane.knows(tool) {
                    self.lane.later.push(tool.clone());
                }
            }
            Ok(Some(Surface {
                tools: listing.tools,
                troubles: listing.troubles,
                ..Surface::clone(&self.lane.surface)
            }))
        })
    }

    fn lane(&self) -> LaneKind {
        self.lane.kind
    }

    fn time_limit(&self) -> Duration {
        self.lane.shared.config.limits.time_limit
    }

    fn running<'a>(&'a mut self) -> BoxFuture<'a, Option<u64>> {
        Box::pin(async move {
            let within = self.lane.shared.config.limits.backend_gone;
            self.lane.database.as_mut()?.running(within).await
        })
    }

    fn fresh<'a>(&'a mut self) -> BoxFuture<'a, Result<(), Stop>> {
        Box::pin(async move {
            if let Some(database) = &mut self.lane.database {
                database.stop_running().await;
            }
            self.lane.drop_instance("replaced").await;
            self.lane.alive().await
        })
    }

    fn record(&mut self, line: Evidence) {
        self.lane.evidence.entry(self.check.id()).or_default().push(line);
    }
}

/// Every string a question carries, at most 64.
fn strings_of(ask: &Ask) -> Vec<String> {
    fn walk(value: &serde_json::Value, found: &mut Vec<String>, depth: usize) {
        if depth == 0 || found.len() >= 64 {
            return;
        }
        match value {
            serde_json::Value::String(text) => found.push(text.chars().take(4096).collect()),
            serde_json::Value::Array(items) => {
                items.iter().for_each(|item| walk(item, found, depth - 1));
            }
            serde_json::Value::Object(map) => {
                map.values().for_each(|item| walk(item, found, depth - 1));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    match ask {
        Ask::Call { params, .. } | Ask::Request { params, .. } => walk(params, &mut found, 8),
        Ask::Line(bytes) => {
            let line = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
            found.push(line.into_owned());
        }
    }
    found
}
