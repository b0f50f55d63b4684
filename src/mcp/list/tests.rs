//! Lists against servers that page, repeat and refuse.

use super::*;
use crate::{
    evidence::Channel,
    mcp::{
        VERSIONS,
        fake::{PLAIN, pair},
    },
};
use tokio::task::JoinHandle;

const LIMIT: Duration = Duration::from_secs(30);

/// A client after its handshake, and the methods the server was asked.
async fn against(
    capabilities: Value,
    mut answer: impl FnMut(&str, &Value) -> Option<Value> + Send + 'static,
) -> (Client, JoinHandle<Vec<String>>) {
    let (mut client, fake) = pair();
    let server = tokio::spawn(async move {
        let mut asked = Vec::new();
        fake.serve(|method, params| {
            asked.push(method.to_owned());
            match method {
                "initialize" => Some(json!({
                    "protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "serverInfo": {"name": "x", "version": "1"}, "instructions": "use it",
                })),
                method => answer(method, params),
            }
        })
        .await;
        asked.split_off(1)
    });
    client.initialize(VERSIONS[0], LIMIT).await.unwrap();
    (client, server)
}

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

#[tokio::test(start_paused = true)]
async fn only_declared_lists_are_asked_for() {
    let (mut client, server) = against(json!({}), |_, _| None).await;
    let surface = client.surface(LIMIT).await.unwrap();
    assert_eq!(surface.troubles, ["the server declares no tools"]);
    let shown: Vec<_> = surface.shown.iter().map(|shown| shown.text.as_str()).collect();
    assert_eq!(shown, ["x", "use it"]);
    client.close_stdin();
    assert!(server.await.unwrap().is_empty());
    let (mut client, _fake) = pair();
    assert_eq!(client.surface(LIMIT).await, Err(ListError::NoHandshake));
}

#[tokio::test(start_paused = true)]
async fn pages_are_followed_through_an_empty_cursor_and_odd_tools_are_troubles() {
    let (mut client, _) = against(json!({"tools": {}}), |_, params| {
        Some(match params["cursor"].as_str() {
            None => {
                json!({"tools": [tool("a"), {"title": "x"}, {"name": 7}], "nextCursor": ""})
            }
            Some("") => {
                json!({"tools": [tool("b"), tool("a"), tool(PLAIN)], "nextCursor": null})
            }
            Some(_) => json!({}),
        })
    })
    .await;
    let surface = client.surface(LIMIT).await.unwrap();
    let names: Vec<_> = surface.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "a", PLAIN]);
    assert_eq!(
        surface.troubles,
        ["a tool has no name", "a tool's name is no string", "tool \"a\" is listed twice"]
    );
    assert_eq!(client.drain_hits()[0].channel, Channel::Surface);
}

#[tokio::test(start_paused = true)]
async fn a_list_without_an_end_is_ended() {
    type Page = fn(u64) -> Value;
    let cases: [(Page, &str, usize); 5] = [
        (|_| json!({"tools": [tool("a")], "nextCursor": "same"}), "only what was there", 1),
        (|n| json!({"tools": [tool(&n.to_string())], "nextCursor": "s"}), "same cursor", 2),
        (
            |n| json!({"tools": [tool(&n.to_string())], "nextCursor": n.to_string()}),
            "100 pages",
            100,
        ),
        (
            |n| {
                let tools: Vec<_> = (0..600).map(|k| tool(&format!("{n}-{k}"))).collect();
                json!({"tools": tools, "nextCursor": n.to_string()})
            },
            "1000 entries",
            1_000,
        ),
        (|_| json!({"tools": [tool("a")], "nextCursor": 7}), "no string", 1),
    ];
    for (page, trouble, tools) in cases {
        let mut n = 0;
        let (mut client, _) = against(json!({"tools": {}}), move |_, _| {
            n += 1;
            Some(page(n))
        })
        .await;
        let listing = client.list_tools(LIMIT).await.unwrap();
        assert_eq!(listing.tools.len(), tools, "{trouble}");
        assert_eq!(listing.troubles.len(), 1, "{:?}", listing.troubles);
        assert!(listing.troubles[0].contains(trouble), "{:?}", listing.troubles);
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_is_asked_for_once_more_and_a_full_one_is_not() {
    let mut n = 0;
    let (mut client, server) = against(json!({"tools": {}}), move |_, _| {
        n += 1;
        Some(json!({"tools": if n == 1 { vec![] } else { vec![tool("late")] }}))
    })
    .await;
    let began = Instant::now();
    assert_eq!(client.surface(LIMIT).await.unwrap().tools.len(), 1);
    assert_eq!(began.elapsed().as_secs(), 1);
    assert_eq!(client.surface(LIMIT).await.unwrap().tools.len(), 1);
    client.close_stdin();
    assert_eq!(server.await.unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_change_announced_while_listing_is_listed_again_at_once() {
    let (mut client, mut fake) = pair();
    tokio::spawn(async move {
        let id = fake.take("initialize").await;
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}});
        fake.reply(&id, result).await;
        fake.next().await;
        for tools in [json!([tool("a")]), json!([tool("a"), tool("b")])] {
            let id = fake.take("tools/list").await;
            fake.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
            fake.reply(&id, json!({"tools": tools})).await;
        }
        fake.line().await;
    });
    client.initialize(VERSIONS[0], LIMIT).await.unwrap();
    let began = Instant::now();
    assert_eq!(client.surface(LIMIT).await.unwrap().tools.len(), 2);
    assert_eq!(began.elapsed().as_millis(), 0);
}

#[tokio::test(start_paused = true)]
async fn prompts_and_resources_are_read_as_far_as_they_are_small_and_text() {
    let (mut client, server) =
        against(json!({"prompts": {}, "resources": {}}), |method, params| {
            Some(match (method, params["uri"].as_str()) {
                ("prompts/list", _) => json!({"prompts": [
                    {"name": "greet", "description": "says hello"},
                    {"name": "ask", "arguments": [{"name": "topic", "required": true}]},
                ]}),
                ("prompts/get", _) => json!({"messages": [
                    {"role": "user", "content": {"type": "text", "text": "hello"}}]}),
                ("resources/list", _) => json!({"resources": [
                    {"uri": "x:text", "mimeType": "text/plain"}, {"uri": "x:bare"},
                    {"uri": "x:image", "mimeType": "image/png"},
                    {"uri": "x:big", "size": 1_000_000}, {"name": "no uri"},
                ]}),
                ("resources/read", Some("x:text")) => {
                    json!({"contents": [{"uri": "x:text", "text": "content"}]})
                }
                _ => json!({"code": -32002, "message": "not found"}),
            })
        })
        .await;
    let surface = client.surface(LIMIT).await.unwrap();
    let shown: Vec<_> = surface
        .shown
        .iter()
        .map(|shown| (shown.place.as_str(), shown.text.as_str()))
        .skip(2)
        .collect();
    assert_eq!(
        shown,
        [
            ("prompt greet", "greet\nsays hello"),
            ("prompt greet, messages", "hello"),
            ("prompt ask", "ask\ntopic"),
            ("resource x:text", "x:text"),
            ("resource x:bare", "x:bare"),
            ("resource x:image", "x:image"),
            ("resource x:big", "x:big"),
            ("resource x:text, text", "content"),
        ]
    );
    assert_eq!(surface.resource_uris, ["x:text", "x:bare", "x:image", "x:big"]);
    let troubles = surface.troubles.join("; ");
    assert!(troubles.contains("resources/templates/list was refused"), "{troubles}");
    assert!(troubles.contains("a resource has no uri"), "{troubles}");
    client.close_stdin();
    let asked = server.await.unwrap();
    assert_eq!(asked.iter().filter(|method| *method == "prompts/get").count(), 1);
    assert_eq!(asked.iter().filter(|method| *method == "resources/read").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_a_silent_and_a_closed_list_are_told_apart() {
    let (mut client, _) =
        against(json!({"tools": {}}), |_, _| Some(json!({"code": 1, "message": "no"}))).await;
    let refused =
        ListError::Refused { method: "tools/list".into(), code: Some(1), message: "no".into() };
    assert_eq!(client.surface(LIMIT).await, Err(refused));
    let (mut client, server) = against(json!({"tools": {}}), |_, _| None).await;
    let silent = ListError::Silent { method: "tools/list".into() };
    assert_eq!(client.surface(LIMIT).await, Err(silent));
    server.abort();
    assert_eq!(client.list_tools(LIMIT).await, Err(ListError::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_page_longer_than_what_is_kept_is_named_with_the_limit() {
    let (mut client, _) = against(json!({"tools": {}}), |_, _| {
        let mut long = tool("a");
        long["description"] = "x".repeat(1 << 20).into();
        Some(json!({"tools": [long]}))
    })
    .await;
    let listing = client.list_tools(LIMIT).await.unwrap();
    assert!(listing.tools.is_empty());
    assert_eq!(
        listing.troubles,
        ["page 1 of tools/list is longer than 1 MiB and could not be read"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_refusal_and_an_echo_are_told_in_words() {
    let refused = ListError::Refused {
        method: "tools/list".into(),
        code: Some(-32601),
        message: "no".into(),
    };
    assert!(refused.to_string().ends_with(": tools/list was refused (-32601): no"));

    let (mut client, mut fake) = pair();
    tokio::spawn(async move {
        let id = fake.take("initialize").await;
        fake.reply(&id, json!({"protocolVersion": VERSIONS[0]})).await;
        fake.next().await;
        while let Some(line) = fake.line().await {
            fake.say(line.trim_end()).await;
        }
    });
    client.initialize(VERSIONS[0], LIMIT).await.unwrap();
    let echoed = client.list_tools(LIMIT).await.unwrap_err();
    assert_eq!(echoed, ListError::Echoed { method: "tools/list".into() });
    assert!(echoed.to_string().ends_with("it is no MCP server"));
}
