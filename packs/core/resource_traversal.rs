//! Do resource URIs and templates reach a file that is not on offer?

use serde_json::{Value, json};

use crate::{
    check::Probe,
    evidence::{Collected, Evidence, Kind, Why},
    stage::{Ask, BoxFuture, Label, Life, Stage, Stop},
    verdict::Ruling,
};

rules! {
    /// The content of a file that is not on offer came back.
    ReadOutside => Fail,
    /// The server offers no resource that looks like a file, and no template.
    NoFilesOffered => Na,
    /// No listed resource could be read, so a refusal means nothing.
    NoResourceReadable => Inconclusive,
    /// A listed resource was readable before and after, and no content from outside came back.
    StayedInside => Pass,
    /// No probe was conclusive.
    NothingConclusive => Inconclusive,
}

const READ: &str = "listed-resource";
const OFFER: &str = "offer";
/// How many templates and resources are probed.
const MAX_OFFERS: usize = 8;

pub(super) fn collect<'a>(stage: &'a mut dyn Stage) -> BoxFuture<'a, Result<(), Stop>> {
    Box::pin(async move {
        let surface = stage.surface();
        let like_files = |uri: &&String| is_template(uri) || is_like_file(uri);
        let offers: Vec<&String> =
            surface.resource_uris.iter().filter(like_files).take(MAX_OFFERS).collect();
        if offers.is_empty() {
            stage.record(Evidence::new(Kind::Probe, OFFER));
            return Ok(());
        }
        let listed = surface.resource_uris.iter().find(|uri| !is_template(uri));
        let before = control(stage, listed).await?;
        let mut waiting = Vec::new();
        for probe in &stage.spec().probes {
            let mut sent: Vec<String> = Vec::new();
            for offer in &offers {
                let uri = aimed(probe, offer);
                if !sent.contains(&uri) {
                    sent.push(uri);
                }
            }
            for uri in sent {
                let line = read(stage, probe, &uri).await?;
                if line.is_held() {
                    waiting.push(line);
                } else {
                    stage.record(line);
                }
            }
        }
        let after = control(stage, listed).await?;
        for line in waiting {
            stage.record(if before && after { line } else { line.none(Why::ControlLost) });
        }
        Ok(())
    })
}

async fn control(stage: &mut dyn Stage, listed: Option<&String>) -> Result<bool, Stop> {
    let Some(uri) = listed else { return Ok(false) };
    let label = Label {
        probe: READ.into(),
        family: Some(READ.into()),
        control: true,
        valid: true,
        sent: super::shown(uri),
        ..Label::default()
    };
    let answer = stage.ask(label, request(uri)).await?;
    let good = answer.life == Life::Replied && !answer.declined && !answer.tainted;
    stage.record(super::control_line(answer.line, good));
    Ok(good)
}

async fn read(stage: &mut dyn Stage, probe: &Probe, uri: &str) -> Result<Evidence, Stop> {
    let expanded = stage.expand(uri);
    let label = Label {
        probe: probe.id.clone(),
        core: probe.core,
        family: probe.family.clone(),
        sent: super::shown(uri),
        ..Label::default()
    };
    if expanded.contains("${") {
        let mut line = Evidence::new(Kind::Probe, &probe.id).none(Why::NotPossibleHere);
        line.sent = Some(label.sent);
        return Ok(line);
    }
    let answer = stage.ask(label, request(&expanded)).await?;
    let line = answer.line;
    Ok(if answer.tainted && !line.is_breached() { line.none(Why::Tainted) } else { line })
}

fn request(uri: &str) -> Ask {
    Ask::Request { method: "resources/read".into(), params: json!({ "uri": Value::from(uri) }) }
}

fn is_template(uri: &str) -> bool {
    uri.contains('{')
}

/// A `file:` URI, or another that is no web address and ends in a name with an extension.
fn is_like_file(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once("://") else { return false };
    let scheme = scheme.to_ascii_lowercase();
    let name = rest.rsplit('/').next().unwrap_or_default();
    let extended =
        name.rsplit_once('.').is_some_and(|(stem, end)| !stem.is_empty() && !end.is_empty());
    scheme == "file" || (scheme != "http" && scheme != "https" && extended)
}

/// The URI with the probe's path in the place of each variable, or of the last segment.
fn aimed(probe: &Probe, offer: &str) -> String {
    let path = probe.path.as_deref().unwrap_or_default();
    if probe.once {
        return path.to_owned();
    }
    if !is_template(offer) {
        let end = offer.rfind('/').map_or(0, |at| at + 1);
        return format!("{}{path}", &offer[..end]);
    }
    let mut uri = String::new();
    let mut rest = offer;
    while let Some((head, tail)) = rest.split_once('{') {
        uri.push_str(head);
        uri.push_str(path);
        rest = tail.split_once('}').map_or("", |(_, after)| after);
    }
    uri.push_str(rest);
    uri
}

pub(super) fn decide(collected: &Collected) -> Ruling {
    let breached: Vec<_> = collected.breached().collect();
    if !breached.is_empty() {
        return Rule::ReadOutside.because(breached);
    }
    let probes = collected.probes();
    if probes.iter().all(|line| line.probe == OFFER) {
        return Rule::NoFilesOffered.because(probes);
    }
    if !collected.controls.iter().any(Evidence::is_held) {
        return Rule::NoResourceReadable.because(&collected.controls);
    }
    let held: Vec<_> = collected.held().collect();
    if held.is_empty() {
        return Rule::NothingConclusive.because(probes);
    }
    Rule::StayedInside.because(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evidence::{Channel, Form, Observer, What},
        surface::Surface,
        testing::{Canned, FakeStage},
    };

    const ID: &str = "resource-traversal";

    fn offering(uris: &[&str]) -> Surface {
        let resource_uris = uris.iter().map(|uri| (*uri).to_owned()).collect();
        Surface { resource_uris, ..Surface::default() }
    }

    fn play(
        uris: &[&str],
        mut script: impl FnMut(&Label) -> Option<Canned> + Send + 'static,
    ) -> FakeStage {
        let script = move |label: &Label, _: &Ask| {
            script(label).unwrap_or_else(|| match label.control {
                true => Canned::answered(),
                false => Canned::failed(),
            })
        };
        FakeStage::new(ID, offering(uris), script).play(ID)
    }

    fn uris(stage: &FakeStage) -> Vec<String> {
        let uri = |(label, ask): &(Label, Ask)| match ask {
            Ask::Request { params, .. } if !label.control => {
                params["uri"].as_str().map(str::to_owned)
            }
            _ => None,
        };
        stage.asked.iter().filter_map(uri).collect()
    }

    #[test]
    fn a_server_that_keeps_to_its_files_passes() {
        let stage = play(&["notes://a.txt", "notes://{name}"], |_| None);
        assert_eq!(stage.ruled(ID).0, "stayed-inside");
        let sent = uris(&stage);
        assert!(sent.contains(&"notes://../attic/a.txt".into()));
        assert!(sent.contains(&"notes://%2f/lane/attic/a.txt".into()));
        assert!(sent.contains(&"file://localhost/lane/attic/a.txt".into()));
    }

    #[test]
    fn the_token_of_the_file_beside_fails_whatever_the_reply_says() {
        let token = What::Canary {
            object: "attic/a.txt".into(),
            inside: false,
            form: Form::Raw,
            channel: Channel::Reply,
        };
        let stage = play(&["notes://a.txt"], move |label| {
            let leak = Canned::failed().seen(Observer::Canary, token.clone());
            (label.probe == "encoded-slash").then_some(leak)
        });
        assert_eq!(stage.ruled(ID).0, "read-outside");
    }

    #[test]
    fn a_server_without_files_is_not_asked() {
        let stage = play(&["https://example.com/a.txt", "demo://list"], |_| None);
        assert_eq!(stage.ruled(ID).0, "no-files-offered");
        assert!(stage.asked.is_empty());
    }

    #[test]
    fn without_a_readable_resource_nothing_is_known() {
        assert_eq!(play(&["notes://{name}"], |_| None).ruled(ID).0, "no-resource-readable");
        let stage = play(&["notes://a.txt"], |_| Some(Canned::failed()));
        assert_eq!(stage.ruled(ID).0, "no-resource-readable");
    }

    #[test]
    fn silence_is_no_evidence() {
        let stage = play(&["notes://a.txt"], |label| (!label.control).then(Canned::silent));
        assert_eq!(stage.ruled(ID).0, "nothing-conclusive");
    }

    #[test]
    fn every_variable_of_a_template_is_replaced_and_broken_ones_end_it() {
        let probe = Probe { path: Some("P".into()), ..Probe::default() };
        assert_eq!(aimed(&probe, "n://{+a}/x/{b*}?q"), "n://P/x/P?q");
        assert_eq!(aimed(&probe, "n://{a"), "n://P");
        assert_eq!(aimed(&probe, "é"), "P");
    }
}
