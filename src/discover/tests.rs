use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::*;

fn tool(name: &str, schema: Value) -> Tool {
    Tool { name: name.into(), raw: json!({"name": name, "inputSchema": schema}) }
}

fn strings(names: &[&str]) -> Value {
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
    json!({"type": "object", "properties": properties, "required": names})
}

fn operation(name: &str, schema: Value) -> String {
    match place(&tool(name, schema), None) {
        Ok(Some(placement)) => placement.operation,
        Ok(None) => "other".into(),
        Err(why) => why,
    }
}

#[test]
fn the_reference_servers_names_are_placed() {
    let path = || strings(&["path"]);
    let cases = [
        ("read_file", path(), "read"),
        ("read_text_file", path(), "read"),
        ("readMediaFile", path(), "read"),
        (
            "read_multiple_files",
            json!({"type": "object", "properties": {"paths": {"type": "array", "items": {"type": "string"}}}}),
            "multi-read",
        ),
        ("write_file", strings(&["path", "content"]), "write"),
        ("create_directory", path(), "mkdir"),
        ("list_directory_with_sizes", path(), "list"),
        ("directory_tree", path(), "tree"),
        ("move_file", strings(&["source", "destination"]), "move"),
        ("copy-file", strings(&["from", "to"]), "copy"),
        ("search_files", strings(&["path", "pattern"]), "search"),
        ("get_file_info", path(), "stat"),
        ("deleteFile", path(), "delete"),
        ("append_file", strings(&["path", "content"]), "append"),
        ("get_env", json!({"type": "object"}), "other"),
        ("git_show", strings(&["repo_path", "revision"]), "other"),
        ("create_entities", strings(&["entities"]), "other"),
        ("get_weather", strings(&["city"]), "other"),
    ];
    for (name, schema, expected) in cases {
        assert_eq!(operation(name, schema), expected, "{name}");
    }
}

#[test]
fn edits_are_filled_through_an_array_of_objects() {
    let schema = json!({"type": "object", "required": ["path", "edits"], "properties": {
        "path": {"type": "string"},
        "edits": {"type": "array", "items": {"type": "object", "required": ["oldText", "newText"],
            "properties": {"oldText": {"type": "string"}, "newText": {"type": "string"}}}},
        "dryRun": {"type": "boolean", "default": false}}});
    let placement = place(&tool("edit_file", schema), None).unwrap().unwrap();
    assert_eq!(placement.operation, "edit");
    assert_eq!(
        placement.arguments(&[("path", "p"), ("find", "a"), ("content", "b")]),
        json!({"path": "p", "edits": [{"oldText": "a", "newText": "b"}]})
    );
}

#[test]
fn nested_params_and_references_are_reached() {
    let schema = json!({"type": "object", "required": ["params"],
        "properties": {"params": {"$ref": "#/$defs/P"}},
        "$defs": {"P": {"type": "object", "properties": {"path": {"type": ["string", "null"]}}}}});
    let placement = place(&tool("read", schema), None).unwrap().unwrap();
    assert_eq!(placement.arguments(&[("path", "x")]), json!({"params": {"path": "x"}}));
}

#[test]
fn other_required_arguments_are_filled_or_named() {
    let with = |other: Value| {
        json!({"type": "object", "required": ["path", "mode"],
            "properties": {"path": {"type": "string"}, "mode": other}})
    };
    for other in [json!({"const": "r"}), json!({"default": "r"}), json!({"enum": ["r"]})] {
        let placement = place(&tool("read_file", with(other)), None).unwrap().unwrap();
        assert_eq!(placement.arguments(&[("path", "x")]), json!({"mode": "r", "path": "x"}));
    }
    let unfillable = tool("read_file", with(json!({"enum": ["r", "w"]})));
    assert!(place(&unfillable, None).unwrap_err().contains("`mode`"));
    let set = Override {
        arguments: Map::from_iter([("mode".to_owned(), json!("w"))]),
        ..Override::default()
    };
    assert!(place(&unfillable, Some(&set)).unwrap().is_some());
}

#[test]
fn a_class_of_the_configuration_replaces_the_words() {
    let set = Override { class: Some("read".into()), ..Override::default() };
    let placement = place(&tool("banana", strings(&["path"])), Some(&set)).unwrap().unwrap();
    assert_eq!((placement.class.as_str(), placement.operation.as_str()), ("read", "read"));
}

#[test]
fn tools_of_sql_are_placed_by_their_argument_and_their_name() {
    let optional = json!({"type": "object", "properties": {"sql": {"type": "string"}}});
    let nested = json!({"type": "object", "properties": {"params": {"type": "object",
        "properties": {"sql": {"type": "string"}}}}});
    let cases = [
        ("query", optional.clone(), "sql"),
        ("banana", nested, "sql"),
        ("execute_sql", strings(&["sql"]), "sql"),
        ("read_query", strings(&["query"]), "sql"),
        ("run-query", strings(&["query-text"]), "sql"),
        ("pg_execute", strings(&["statement"]), "sql"),
        ("write_query", strings(&["query"]), "sql-write"),
        ("create_table", strings(&["query"]), "sql-write"),
        ("search_docs", strings(&["query"]), "other"),
        ("web_search", strings(&["q"]), "other"),
    ];
    for (name, schema, expected) in cases {
        assert_eq!(operation(name, schema), expected, "{name}");
    }
}

#[test]
fn tools_of_sql_that_are_named_replace_those_that_are_found() {
    let surface = Surface {
        tools: vec![
            tool("query", strings(&["sql"])),
            tool("ask", strings(&["text"])),
            tool("read_file", strings(&["path"])),
        ],
        ..Surface::default()
    };
    let named = |tool: &str, argument: &str| {
        let set = Override { statement: Some(argument.into()), ..Override::default() };
        BTreeMap::from([(tool.to_owned(), set)])
    };
    let (placed, _) = place_all(&surface, &named("ask", "text"));
    let operations: Vec<_> = placed.iter().map(|placed| placed.operation.as_str()).collect();
    assert_eq!(operations, ["other", "sql", "read"]);
    assert_eq!(placed[1].arguments(&[("sql", "SELECT 1")]), json!({"text": "SELECT 1"}));
    assert!(unknown_tools(&surface, &named("ask", "text")).is_empty());
    assert!(unknown_tools(&surface, &named("ask", "sql"))[0].contains("no argument `sql`"));
    assert!(unknown_tools(&surface, &named("aks", "text"))[0].contains("no tool `aks`"));
}

#[test]
fn names_are_learnt_from_validation_errors() {
    let zod = r#"Invalid arguments for read_file: [{"code":"invalid_type","expected":"string","received":"undefined","path":["path"],"message":"Required"}]"#;
    assert_eq!(schema_from_error(zod).unwrap()["required"], json!(["path"]));
    let array = r#"[ { "code": "invalid_type", "expected": "array", "received": "undefined", "path": [ "paths" ], "message": "Required" } ]"#;
    assert_eq!(schema_from_error(array).unwrap()["properties"]["paths"]["type"], "array");
    let pydantic =
        "1 validation error for read_fileArguments\npath\n  Field required [type=missing]";
    assert_eq!(schema_from_error(pydantic).unwrap()["required"], json!(["path"]));
    assert_eq!(schema_from_error("Access denied"), None);
    let empty = tool("read_file", json!({"$schema": "x"}));
    assert!(learnable(&empty) && !learnable(&tool("write_file", json!({}))));
    assert!(!learnable(&tool("read_file", strings(&["path"]))));
}

#[test]
fn paths_are_written_the_way_the_server_understands() {
    assert_eq!(rebase("${sandbox}/ok.txt", ""), "ok.txt");
    assert_eq!(rebase("${sandbox}", ""), ".");
    assert_eq!(rebase("${sandbox}/../attic/a.txt", "docs/"), "docs/../attic/a.txt");
    assert_eq!(rebase("${attic}/a.txt", ""), "${attic}/a.txt");
}

#[test]
fn hostile_schemas_are_bounded() {
    let mut deep = json!({"type": "string"});
    for _ in 0..100 {
        deep = json!({"type": "object", "properties": {"path": deep}});
    }
    assert_eq!(operation("read_file", deep), "other");
    let looped = json!({"type": "object", "properties": {"path": {"$ref": "#/properties/path"}}});
    assert_eq!(operation("read_file", looped), "other");
    let all = place_all(
        &Surface {
            tools: vec![tool("", Value::Null), tool("read_file", json!(7))],
            ..Surface::default()
        },
        &BTreeMap::new(),
    );
    assert!(all.0.iter().all(|placement| placement.class == "other"));
}
