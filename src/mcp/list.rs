//! Reads what a server shows of itself: tools, prompts, resources.

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Client, Handshake, cap,
    client::NoReply,
    handshake::{ECHOED, bracketed},
    message::Message,
};
use crate::surface::{Shown, ShownKind, Surface, Tool};

/// Pages and entries of one list; more is a trouble.
const MAX_PAGES: usize = 100;
const MAX_ENTRIES: usize = 1_000;
/// Bytes of all pages of one list.
const MAX_LIST_BYTES: u64 = 16 << 20;
/// Prompts that are got, and resources that are read.
const MAX_READ: usize = 20;
/// A resource longer than this is not read.
const MAX_RESOURCE: usize = 256 << 10;
/// Text kept of one place.
const MAX_SHOWN: usize = 256 << 10;
/// Troubles that are kept.
const MAX_TROUBLES: usize = 50;
/// How long an empty tool list is given to fill: servers register tools late.
const LATE_TOOLS: Duration = Duration::from_secs(1);

/// Why the tools could not be listed. It fits "failed to …".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// Before the handshake there is nothing to list.
    #[error("list what the server shows: there was no handshake")]
    NoHandshake,
    /// The server closed its output.
    #[error("list what the server shows: the server closed the connection")]
    Closed,
    /// No answer in time.
    #[error("list what the server shows: no answer to {method} in time")]
    Silent {
        /// The request.
        method: String,
    },
    /// The server sent the request back instead of answering it.
    #[error("list what the server shows: {method}: {ECHOED}")]
    Echoed {
        /// The request.
        method: String,
    },
    /// The server answered `tools/list` with an error.
    #[error("list what the server shows: {method} was refused{}: {message}", bracketed(*code))]
    Refused {
        /// The request.
        method: String,
        /// The code, when it is an integer.
        code: Option<i64>,
        /// Its words, at most 500 bytes.
        message: String,
    },
}

/// The tools as listed once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The tools, in order.
    pub tools: Vec<Tool>,
    /// What went wrong.
    pub troubles: Vec<String>,
}

impl Client {
    /// Lists everything the server declared a capability for. `limit` is for all of it.
    pub async fn surface(&mut self, limit: Duration) -> Result<Surface, ListError> {
        let handshake = self.handshake.clone().ok_or(ListError::NoHandshake)?;
        let deadline = Instant::now() + limit;
        let mut surface = shown_by_handshake(&handshake);
        if handshake.declares("tools") {
            let listing = self.tools(deadline, true).await?;
            (surface.tools, surface.troubles) = (listing.tools, listing.troubles);
        } else {
            trouble(&mut surface.troubles, "the server declares no tools".into());
        }
        if handshake.declares("prompts") {
            self.prompts(&mut surface, deadline).await?;
        }
        if handshake.declares("resources") {
            self.resources(&mut surface, deadline).await?;
        }
        Ok(surface)
    }

    /// Lists the tools once more.
    pub async fn list_tools(&mut self, limit: Duration) -> Result<Listing, ListError> {
        self.tools(Instant::now() + limit, false).await
    }

    /// Lists the tools, and with `settle` again when there are none yet or the server says that
    /// they changed.
    async fn tools(&mut self, deadline: Instant, settle: bool) -> Result<Listing, ListError> {
        self.shared.state().tools_changed = false;
        let first = self.tools_once(deadline).await?;
        if !settle {
            return Ok(first);
        }
        if first.tools.is_empty() {
            let until = deadline.min(Instant::now() + LATE_TOOLS);
            self.news(until, |shared| shared.state().tools_changed).await;
        } else if !self.shared.state().tools_changed {
            return Ok(first);
        }
        self.tools_once(deadline).await
    }

    async fn tools_once(&mut self, deadline: Instant) -> Result<Listing, ListError> {
        let mut listing = Listing::default();
        let troubles = &mut listing.troubles;
        let entries = self.pages("tools/list", "tools", "name", troubles, deadline).await?;
        let mut names = HashSet::new();
        for raw in entries {
            match raw.get("name") {
                Some(Value::String(name)) => {
                    let name = name.clone();
                    if !names.insert(name.clone()) {
                        let name = self.words(&name);
                        trouble(&mut listing.troubles, format!("tool {name:?} is listed twice"));
                    }
                    listing.tools.push(Tool { name, raw });
                }
                Some(_) => trouble(&mut listing.troubles, "a tool's name is no string".into()),
                None => trouble(&mut listing.troubles, "a tool has no name".into()),
            }
        }
        Ok(listing)
    }

    async fn prompts(&mut self, surface: &mut Surface, deadline: Instant) -> Result<(), ListError> {
        let entries = self
            .optional("prompts/list", "prompts", "name", &mut surface.troubles, deadline)
            .await?;
        let mut got = 0;
        for entry in entries {
            let Some(name) = text(&entry, "name") else {
                trouble(&mut surface.troubles, "a prompt has no name".into());
                continue;
            };
            let place = format!("prompt {}", self.words(name));
            let arguments = entry.get("arguments").and_then(Value::as_array);
            let arguments = arguments.map(Vec::as_slice).unwrap_or_default();
            let mut said = described(&entry);
            said.extend(arguments.iter().flat_map(described));
            show(surface, ShownKind::Prompt, place.clone(), &said);
            let asks = arguments.iter().any(|a| a.get("required") == Some(&Value::Bool(true)));
            if asks || got == MAX_READ {
                continue;
            }
            got += 1;
            let params = json!({"name": name});
            let result = self
                .result("prompts/get", params, &mut surface.troubles, deadline)
                .await?
                .unwrap_or_default();
            let messages = result.get("messages").and_then(Value::as_array);
            let mut said: Vec<_> = text(&result, "description").into_iter().collect();
            for message in messages.map(Vec::as_slice).unwrap_or_default() {
                let places = ["/content/text", "/content/resource/text"];
                said.extend(places.iter().filter_map(|place| message.pointer(place)?.as_str()));
            }
            show(surface, ShownKind::Prompt, format!("{place}, messages"), &said);
        }
        Ok(())
    }

    async fn resources(
        &mut self,
        surface: &mut Surface,
        deadline: Instant,
    ) -> Result<(), ListError> {
        let troubles = &mut surface.troubles;
        let listed =
            self.optional("resources/list", "resources", "uri", troubles, deadline).await?;
        let (method, member) = ("resources/templates/list", "resourceTemplates");
        let templates = self.optional(method, member, "uriTemplate", troubles, deadline).await?;
        for (entries, member) in [(&listed, "uri"), (&templates, "uriTemplate")] {
            for entry in entries {
                let Some(uri) = text(entry, member) else {
                    trouble(&mut surface.troubles, format!("a resource has no {member}"));
                    continue;
                };
                surface.resource_uris.push(uri.into());
                let mut said = vec![uri];
                said.extend(described(entry));
                show(surface, ShownKind::Resource, format!("resource {}", self.words(uri)), &said);
            }
        }
        let mut read = 0;
        for entry in listed {
            let Some(uri) = text(&entry, "uri") else { continue };
            let size = entry.get("size").and_then(Value::as_u64).unwrap_or(0);
            if read == MAX_READ || size > MAX_RESOURCE as u64 || !is_text(&entry) {
                continue;
            }
            read += 1;
            let params = json!({"uri": uri});
            let result = self
                .result("resources/read", params, &mut surface.troubles, deadline)
                .await?
                .unwrap_or_default();
            let contents = result.get("contents").and_then(Value::as_array);
            let contents = contents.map(Vec::as_slice).unwrap_or_default();
            let said: Vec<_> = contents
                .iter()
                .filter_map(|part| text(part, "text"))
                .filter(|text| text.len() <= MAX_RESOURCE)
                .collect();
            show(
                surface,
                ShownKind::Resource,
                format!("resource {}, text", self.words(uri)),
                &said,
            );
        }
        Ok(())
    }

    /// A list that need not be there: a refusal is a trouble.
    async fn optional(
        &mut self,
        method: &str,
        member: &str,
        key: &str,
        troubles: &mut Vec<String>,
        deadline: Instant,
    ) -> Result<Vec<Value>, ListError> {
        match self.pages(method, member, key, troubles, deadline).await {
            Err(
                error @ (ListError::Refused { .. }
                | ListError::Echoed { .. }
                | ListError::Silent { .. }),
            ) => {
                trouble(troubles, error.to_string());
                Ok(Vec::new())
            }
            listed => listed,
        }
    }

    /// Follows a list over its pages. An absent or null `nextCursor` ends it; an empty one does not.
    async fn pages(
        &mut self,
        method: &str,
        member: &str,
        key: &str,
        troubles: &mut Vec<String>,
        deadline: Instant,
    ) -> Result<Vec<Value>, ListError> {
        let mut entries: Vec<Value> = Vec::new();
        let mut seen = HashSet::new();
        let mut cursors = HashSet::new();
        let mut params = Value::Null;
        let mut bytes = 0;
        let mut stop = |why: String| trouble(troubles, format!("{method}: {why}"));
        for page in 1.. {
            let message = self.answer(method, params, deadline).await?;
            bytes += message.bytes;
            let long = message.bytes > self.options.limits.whole as u64;
            let result = match self.result_of(method, message) {
                Ok(result) => result,
                Err(error) if page == 1 => return Err(error),
                Err(error) => {
                    stop(format!("page {page}: {error}"));
                    break;
                }
            };
            let Some(result) = result else {
                if long {
                    let kept = size(self.options.limits.whole);
                    let why = format!(
                        "page {page} of {method} is longer than {kept} and could not be read"
                    );
                    trouble(troubles, why);
                    break;
                }
                stop(format!("page {page} could not be read"));
                break;
            };
            let listed = match result.get(member) {
                Some(Value::Array(listed)) => listed.as_slice(),
                _ => {
                    stop(format!("page {page} has no array {member}"));
                    &[]
                }
            };
            let mut new = 0;
            for entry in listed {
                new += usize::from(match text(entry, key) {
                    Some(name) => seen.insert(name.to_owned()),
                    None => true,
                });
            }
            if page > 1 && new == 0 && !listed.is_empty() {
                stop(format!("page {page} brings only what was there before"));
                break;
            }
            let room = MAX_ENTRIES - entries.len();
            entries.extend(listed.iter().take(room).cloned());
            if listed.len() > room {
                stop(format!("more than {MAX_ENTRIES} entries"));
                break;
            }
            let cursor = match result.get("nextCursor") {
                None | Some(Value::Null) => break,
                Some(Value::String(cursor)) => cursor.clone(),
                Some(_) => {
                    stop("nextCursor is no string".into());
                    break;
                }
            };
            if !cursors.insert(cursor.clone()) {
                stop("the same cursor comes again".into());
                break;
            }
            if page == MAX_PAGES {
                stop(format!("more than {MAX_PAGES} pages"));
                break;
            }
            if bytes > MAX_LIST_BYTES {
                stop(format!("more than {} MiB", MAX_LIST_BYTES >> 20));
                break;
            }
            params = json!({"cursor": cursor});
        }
        Ok(entries)
    }

    /// The result of a request that need not work: anything else is a trouble.
    async fn result(
        &mut self,
        method: &str,
        params: Value,
        troubles: &mut Vec<String>,
        deadline: Instant,
    ) -> Result<Option<Value>, ListError> {
        let message = match self.answer(method, params, deadline).await {
            Err(error @ ListError::Silent { .. }) => {
                trouble(troubles, error.to_string());
                return Ok(None);
            }
            answer => answer?,
        };
        Ok(self.result_of(method, message).unwrap_or_else(|error| {
            trouble(troubles, error.to_string());
            None
        }))
    }

    async fn answer(
        &mut self,
        method: &str,
        params: Value,
        deadline: Instant,
    ) -> Result<Message, ListError> {
        self.request(method, params, deadline).await.map_err(|why| match why {
            NoReply::Closed => ListError::Closed,
            NoReply::Silent => ListError::Silent { method: method.into() },
        })
    }

    /// The result; `None` when the reply was not kept whole.
    fn result_of(&self, method: &str, message: Message) -> Result<Option<Value>, ListError> {
        if self.is_echo(&message) {
            return Err(ListError::Echoed { method: method.into() });
        }
        if message.facts.error {
            let error = message.value.as_ref().and_then(|value| value.get("error"));
            let words = error.and_then(|error| text(error, "message")).unwrap_or_default();
            return Err(ListError::Refused {
                method: method.into(),
                code: message.facts.code,
                message: self.words(words),
            });
        }
        Ok(message.value.and_then(|mut value| Some(value.get_mut("result")?.take())))
    }
}

fn shown_by_handshake(handshake: &Handshake) -> Surface {
    let server = &handshake.server;
    let mut surface = Surface {
        name: text(server, "name").unwrap_or_default().into(),
        version: text(server, "version").unwrap_or_default().into(),
        protocol: handshake.protocol.clone(),
        capabilities: handshake.capabilities.clone(),
        ..Surface::default()
    };
    show(&mut surface, ShownKind::Instructions, "serverInfo".into(), &described(server));
    let instructions = [handshake.instructions.as_str()];
    show(&mut surface, ShownKind::Instructions, "instructions".into(), &instructions);
    surface
}

fn text<'a>(entry: &'a Value, member: &str) -> Option<&'a str> {
    entry.get(member)?.as_str()
}

/// The texts an entry describes itself with.
fn described(entry: &Value) -> Vec<&str> {
    let members = ["name", "title", "description"];
    members.iter().filter_map(|member| text(entry, member)).collect()
}

fn is_text(entry: &Value) -> bool {
    let words = ["text/", "json", "xml", "yaml", "javascript"];
    text(entry, "mimeType").is_none_or(|kind| words.iter().any(|word| kind.contains(word)))
}

fn show(surface: &mut Surface, kind: ShownKind, place: String, said: &[&str]) {
    let text = cap(said.join("\n"), MAX_SHOWN);
    if !text.is_empty() {
        surface.shown.push(Shown { kind, place, text });
    }
}

fn size(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{bytes} bytes"),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

fn trouble(troubles: &mut Vec<String>, why: String) {
    if troubles.len() < MAX_TROUBLES {
        troubles.push(why);
    }
}

#[cfg(test)]
mod tests;
