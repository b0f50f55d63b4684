//! The published standard: every locked setting and the hash over them.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{
    check::Severity,
    config::{Config, Known, Limits, Profile},
    registry,
};

/// What this version knows, for the configuration reader.
pub struct Names {
    packs: Vec<&'static str>,
    checks: Vec<(String, bool, &'static str)>,
}

impl Names {
    /// The names of the registry.
    pub fn of_registry() -> Self {
        Self {
            packs: registry::packs().iter().map(|pack| pack.id).collect(),
            checks: registry::checks()
                .map(|check| (check.id(), check.spec.candidate, word(check.spec.severity)))
                .collect(),
        }
    }

    /// Calls `f` with the names in the shape the configuration reader takes.
    pub fn with<T>(&self, f: impl FnOnce(&Known<'_>) -> T) -> T {
        let checks: Vec<(&str, bool, &str)> = self
            .checks
            .iter()
            .map(|(id, candidate, severity)| (id.as_str(), *candidate, *severity))
            .collect();
        f(&Known { packs: &self.packs, later_packs: &registry::LATER_PACKS, checks: &checks })
    }
}

/// The word of a severity in configuration files.
pub fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "critical",
        Severity::Scored => "scored",
        Severity::Advisory => "advisory",
    }
}

/// The locked settings of a run (methodology 9): of every non-candidate check whether it is
/// enabled and its severity, limits, timeouts, the deep profile. Candidates are absent.
pub fn locked(config: Option<&Config>) -> Value {
    let mut checks = Map::new();
    for check in registry::checks().filter(|check| !check.spec.candidate && !check.spec.deep) {
        let id = check.id();
        let set = config.and_then(|config| config.checks.get(&id));
        let enabled = set.and_then(|set| set.enabled).unwrap_or(true);
        let severity = set
            .and_then(|set| set.severity)
            .map_or(word(check.spec.severity), |severity| severity.as_str());
        checks.insert(id, json!({"enabled": enabled, "severity": severity}));
    }
    let limits = config.map(|config| config.limits).unwrap_or_default();
    let rows: Map<String, Value> =
        limits.rows().into_iter().map(|row| (row.key.to_owned(), json!(row.value))).collect();
    let deep = config.is_some_and(|config| config.profile == Profile::Deep);
    json!({
        "methodology": registry::METHODOLOGY,
        "packs": registry::packs().iter().map(|pack| pack.id).collect::<Vec<_>>(),
        "checks": checks,
        "limits": rows,
        "deep": deep,
    })
}

/// SHA-256 over the canonical JSON (sorted keys, no white space) of the locked settings.
pub fn hash(locked: &Value) -> String {
    let digest = Sha256::digest(canonical(locked).as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// A value with the keys of every object sorted and no white space.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let members: Vec<String> = keys
                .into_iter()
                .map(|key| format!("{}:{}", Value::from(key.as_str()), canonical(&map[key])))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// `standard.yaml`, written from the registry.
pub fn standard_yaml() -> String {
    let locked = locked(None);
    let mut text = format!(
        "# The published standard of sealmark: written from the registry by a test, never by hand.\n\
         # A run whose locked settings equal these is STANDARD and has this hash.\n\
         methodology: {}\nhash: {}\npacks: [{}]\nchecks:\n",
        registry::METHODOLOGY,
        hash(&locked),
        registry::packs().iter().map(|pack| pack.id).collect::<Vec<_>>().join(", "),
    );
    for (id, setting) in locked["checks"].as_object().into_iter().flatten() {
        let severity = setting["severity"].as_str().unwrap_or_default();
        let _ = writeln!(text, "  {id}: {{ enabled: true, severity: {severity} }}");
    }
    text += "limits:\n";
    for row in Limits::default().rows() {
        let _ = writeln!(text, "  {}: {}", row.key, row.standard);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_json_does_not_depend_on_the_order_of_keys() {
        let a = json!({"b": 1, "a": {"y": [1, "x"], "x": null}});
        let b = json!({"a": {"x": null, "y": [1, "x"]}, "b": 1});
        assert_eq!(hash(&a), hash(&b));
        assert_eq!(canonical(&b), r#"{"a":{"x":null,"y":[1,"x"]},"b":1}"#);
    }

    #[test]
    fn candidates_are_no_part_of_the_standard() {
        let locked = locked(None);
        for check in registry::checks().filter(|check| check.spec.candidate) {
            assert!(locked["checks"].get(check.id()).is_none(), "{}", check.id());
        }
    }
}
