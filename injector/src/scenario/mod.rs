//! A scenario file, as types. The JSON Schema and the Kubernetes resource come from these.

mod load;
mod when;

pub use load::{Arrival, Load, MAX_CONCURRENCY, MAX_RATE, OutputLength, PromptSource, Timeouts};
pub use when::{When, glob};

use crate::fault::Fault;
use crate::units::TimeSpan;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The version of the file format.
pub const API_VERSION: &str = "brownout.dev/v1alpha1";

/// One experiment: what breaks, where and when, under which load, and what must hold all the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Always `brownout.dev/v1alpha1`.
    pub api_version: ApiVersion,
    /// Always `Scenario`.
    pub kind: Kind,
    /// Name and labels.
    pub metadata: Metadata,
    /// The experiment.
    pub spec: Spec,
}

/// The version of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ApiVersion {
    /// The only one so far.
    #[serde(rename = "brownout.dev/v1alpha1")]
    V1Alpha1,
}

/// The kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Kind {
    /// A scenario.
    Scenario,
}

/// Name and labels, as Kubernetes has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// Lower-case letters, digits, dashes and dots.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"), length(max = 253))]
    pub name: String,
    /// The namespace, in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// The experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// What happens, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who answers for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What a pass says about the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certifies: Option<String>,
    /// Seed of every decision and of the load. The same seed gives the same decisions.
    #[serde(default)]
    pub seed: u64,
    /// What is broken.
    #[serde(default)]
    pub target: Target,
    /// How long each phase lasts.
    pub phases: Phases,
    /// The faults. Overlapping ones apply in this order.
    #[serde(default)]
    pub faults: Vec<FaultEntry>,
    /// The load that measures: `brownout run` and `brownout load` need one, `brownout proxy` does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// What must hold: one line each, such as `ttft p99 < 800ms`.
    #[serde(default)]
    pub sla: Vec<String>,
    /// What ends the experiment at once: one line each, such as `error rate > 50% for 10s`.
    #[serde(default)]
    pub abort: Vec<String>,
}

/// What is broken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    /// Base URL of the inference server, for runs from the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Which pods, for runs in a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Selector>,
    /// Which containers of those pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<String>,
    /// How many of those pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

/// A label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Selector {
    /// Labels that a pod must have.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
}

/// How many of the selected pods are broken. Chosen by seed, and stable as pods come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Mode {
    /// One.
    One,
    /// All.
    All,
    /// This many.
    Fixed(u32),
    /// This share, in percent, rounded up.
    Percent(#[schemars(range(min = 1, max = 100))] u32),
}

/// How long each phase lasts. Faults are armed for the fault phase, and end with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Phases {
    /// Load that is not measured.
    #[serde(default)]
    pub warmup: TimeSpan,
    /// Load on the healthy system: what everything is compared with.
    #[serde(default)]
    pub baseline: TimeSpan,
    /// Load with the faults armed. Required: a fault always has an end.
    pub fault: TimeSpan,
    /// Load after the faults have ended.
    #[serde(default)]
    pub recovery: TimeSpan,
}

/// One fault: a name, exactly one kind with its parameters, and a trigger.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultEntry {
    /// Its name in the journal, in headers and in reports; unique in the file.
    pub name: String,
    /// What it does.
    #[serde(flatten)]
    pub fault: Fault,
    /// When it does so; always, for the whole fault phase, where left out.
    pub when: When,
}

/// Written out, since a flattened enum takes unknown fields in silence.
impl<'de> Deserialize<'de> for FaultEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = serde_json::Map::deserialize(deserializer)?;
        let name = fields.remove("name").ok_or_else(|| D::Error::missing_field("name"))?;
        let name = String::deserialize(name).map_err(D::Error::custom)?;
        let when = fields.remove("when").map_or_else(|| Ok(When::default()), When::deserialize);
        let when = when.map_err(D::Error::custom)?;
        if fields.len() != 1 {
            let found: Vec<&str> = fields.keys().map(String::as_str).collect();
            return Err(D::Error::custom(format!(
                "the fault `{name}` needs exactly one kind; found {}",
                if found.is_empty() { "none".to_owned() } else { found.join(", ") }
            )));
        }
        let fault = Fault::deserialize(serde_json::Value::Object(fields)).map_err(D::Error::custom)?;
        Ok(Self { name, fault, when })
    }
}

impl JsonSchema for FaultEntry {
    fn schema_name() -> Cow<'static, str> {
        "FaultEntry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let when = generator.subschema_for::<When>();
        let mut kinds = Fault::json_schema(generator).to_value();
        let branches = kinds.get_mut("oneOf").map(serde_json::Value::take).unwrap_or_default();
        let (mut properties, mut one_of) = (serde_json::Map::new(), Vec::new());
        properties.insert(
            "name".into(),
            serde_json::json!({
                "type": "string",
                "description": "Its name in the journal, in headers and in reports; unique in the file.",
                "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
                "maxLength": 63,
            }),
        );
        for branch in branches.as_array().into_iter().flatten() {
            for (kind, schema) in branch["properties"].as_object().into_iter().flatten() {
                let mut schema = schema.clone();
                schema["description"] = branch["description"].clone();
                properties.insert(kind.clone(), schema);
                one_of.push(serde_json::json!({"required": [kind]}));
            }
        }
        let mut when = when.to_value();
        when["description"] = "When it does so; always, for the whole fault phase, where left out.".into();
        properties.insert("when".into(), when);
        json_schema!({
            "type": "object",
            "description": "One fault: a name, exactly one kind with its parameters, and a trigger.",
            "properties": properties,
            "required": ["name"],
            "additionalProperties": false,
            "oneOf": one_of,
        })
    }
}
