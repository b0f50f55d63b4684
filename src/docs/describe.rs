//! The whole registry as one value, for programs.

use serde_json::{Value, json};

use super::words;
use crate::{check::Check, classes::CLASSES, config::Limits, registry, standard, verdict::RuleDef};

/// Everything this version knows: methodology, standard, packs, checks with their rules, limits,
/// operations.
pub fn description() -> Value {
    let rules = |rules: &[RuleDef], text: &dyn Fn(&RuleDef) -> String| {
        rules
            .iter()
            .map(|rule| {
                json!({
                    "id": rule.id(),
                    "verdict": rule.verdict(),
                    "text": text(rule),
                    "decidedIn": rule.file(),
                })
            })
            .collect::<Value>()
    };
    let check = |check: &Check| {
        let mut value = json!({
            "id": check.id(),
            "pack": check.pack,
            "collects": check.collect.word(),
            "effectiveSeverity": check.spec.effective_severity(),
            "scored": registry::is_standard(check),
            "page": format!("docs/checks/{}.md", check.id()),
            "decidedIn": words::decided_in(check),
            "rules": rules(check.rules, &|rule| check.rule_text(rule)),
        });
        let declared = serde_json::to_value(&*check.spec).unwrap_or_default();
        if let (Value::Object(all), Value::Object(declared)) = (&mut value, declared) {
            all.extend(declared);
        }
        value
    };
    let packs: Value = registry::packs()
        .iter()
        .map(|pack| {
            json!({
                "id": pack.id,
                "title": pack.title,
                "applies": pack.applies,
                "checks": pack.checks.iter().map(check).collect::<Value>(),
            })
        })
        .collect();
    let limits: Value = Limits::default()
        .rows()
        .iter()
        .map(|row| json!({"key": row.key, "standard": row.standard, "what": row.what}))
        .collect();
    json!({
        "sealmark": env!("CARGO_PKG_VERSION"),
        "methodology": registry::METHODOLOGY,
        "standard": { "hash": standard::hash(&standard::locked(None)) },
        "packs": packs,
        "laterPacks": registry::LATER_PACKS,
        "runnerRules": rules(registry::runner_rules(), &RuleDef::text),
        "limits": limits,
        "operations": serde_json::to_value(&CLASSES.operations).unwrap_or_default(),
        "roles": serde_json::to_value(&CLASSES.roles).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_described_with_its_declaration_and_its_rules() {
        let all = description();
        let described: Vec<&Value> = all["packs"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|pack| pack["checks"].as_array().unwrap())
            .collect();
        assert_eq!(described.len(), registry::checks().count());
        for (check, value) in registry::checks().zip(described) {
            assert_eq!(value["id"], check.id());
            assert_eq!(value["rules"].as_array().unwrap().len(), check.rules.len());
            assert_eq!(value["title"], check.spec.title);
            assert_eq!(value["probes"].as_array().unwrap().len(), check.spec.probes.len());
        }
        assert!(all["operations"].as_array().is_some_and(|list| !list.is_empty()));
    }
}
