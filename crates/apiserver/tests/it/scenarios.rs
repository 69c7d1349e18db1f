//! What applies and patches do, told as stories: the files in `scenarios/` are the cases.
//!
//! A case begins with `==` and what it proves; each runs on a server of its own. A step that asks is
//!
//! ```text
//! VERB MANAGER TARGET -> CODE FRAGMENT && FRAGMENT
//!   | body
//! ```
//!
//! where the verb is `apply`, `apply!` (by force), `create`, `put`, `json`, `merge`, `strategic`, `delete` or `raw` (an
//! apply whose body is sent as it is), and the target is the name of a kind in [`KINDS`] and a name, a subresource and
//! a query. Bodies are YAML; but for `raw`, what they say of their kind and name is filled in. A refusal's message, an
//! answer's warnings, contain the fragments. Steps that look are
//!
//! ```text
//! is TARGET POINTER = JSON         what is there, or `absent`
//! owned TARGET MANAGER = JSON      what a manager owns (`m`, `m:Update`, `m:Apply/status`), or `absent`
//! note TARGET                      remembers the object
//! unchanged TARGET                 it is as it was noted, to the letter
//! cause N POINTER = JSON           what the last refusal says of its cause
//! ```

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value, json};
use windlass_machinery::decode::decode_yaml;

use super::client::{Answer, Client, patch_type};

const FILES: &[(&str, &str)] = &[
    ("apply", include_str!("scenarios/apply.txt")),
    ("apply_lists", include_str!("scenarios/apply_lists.txt")),
    ("apply_refused", include_str!("scenarios/apply_refused.txt")),
    ("patch", include_str!("scenarios/patch.txt")),
];

/// As many as the product promises.
const AT_LEAST: usize = 60;

/// Kinds by the names that the cases give them: where they are, their version and kind.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("cm", "/api/v1/namespaces/default/configmaps", "v1", "ConfigMap"),
    (
        "crd",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    ),
    ("deploy", "/apis/apps/v1/namespaces/default/deployments", "apps/v1", "Deployment"),
    ("event", "/api/v1/namespaces/default/events", "v1", "Event"),
    ("event-new", "/apis/events.k8s.io/v1/namespaces/default/events", "events.k8s.io/v1", "Event"),
    (
        "hpa1",
        "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
        "autoscaling/v1",
        "HorizontalPodAutoscaler",
    ),
    (
        "hpa2",
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
    ),
    ("ns", "/api/v1/namespaces", "v1", "Namespace"),
    ("pod", "/api/v1/namespaces/default/pods", "v1", "Pod"),
    ("rs", "/apis/apps/v1/namespaces/default/replicasets", "apps/v1", "ReplicaSet"),
    ("sa", "/api/v1/namespaces/default/serviceaccounts", "v1", "ServiceAccount"),
    ("secret", "/api/v1/namespaces/default/secrets", "v1", "Secret"),
    ("svc", "/api/v1/namespaces/default/services", "v1", "Service"),
];

#[derive(Debug)]
struct Case {
    place: String,
    name: String,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    place: String,
    line: String,
    body: String,
}

fn cases(file: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = vec![];
    for (at, line) in text.lines().enumerate() {
        let place = format!("{file}.txt:{}", at + 1);
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix("== ") {
            cases.push(Case { place, name: name.to_owned(), steps: vec![] });
            continue;
        }
        let case = cases.last_mut().unwrap_or_else(|| panic!("{place}: a line of no case"));
        match line.trim_start().strip_prefix('|') {
            Some(body) => {
                let step = case.steps.last_mut().unwrap_or_else(|| panic!("{place}: a body of no step"));
                step.body.push_str(body.strip_prefix(' ').unwrap_or(body));
                step.body.push('\n');
            }
            None => case.steps.push(Step { place, line: line.to_owned(), body: String::new() }),
        }
    }
    cases
}

/// What a target stands for.
struct Target<'a> {
    collection: &'a str,
    path: String,
    api_version: &'a str,
    kind: &'a str,
    name: &'a str,
}

impl<'a> Target<'a> {
    fn of(text: &'a str) -> Self {
        let (kind, rest) = text.split_once('/').unwrap_or_else(|| panic!("no target: {text}"));
        let row = KINDS.iter().find(|row| row.0 == kind).unwrap_or_else(|| panic!("no kind: {kind}"));
        let name = rest.split(['/', '?']).next().unwrap_or_default();
        let (api_version, kind) = match rest.split(['/', '?']).nth(1) {
            Some("scale") => ("autoscaling/v1", "Scale"),
            _ => (row.2, row.3),
        };
        Target { collection: row.1, path: format!("{}/{rest}", row.1), api_version, kind, name }
    }

    fn with(&self, parameter: &str) -> String {
        let separator = if self.path.contains('?') { '&' } else { '?' };
        format!("{}{separator}{parameter}", self.path)
    }

    /// The body with what goes without saying.
    fn filled(&self, body: &str) -> Value {
        let decoded = decode_yaml(body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {body}"));
        let mut object = Value::Object(decoded.object);
        for (field, value) in [("apiVersion", self.api_version), ("kind", self.kind)] {
            if object.get(field).is_none() {
                object[field] = value.into();
            }
        }
        if object["metadata"].get("name").is_none() {
            object["metadata"]["name"] = self.name.into();
        }
        object
    }
}

/// A server, and what was noted and refused on it.
struct Story {
    client: Client,
    noted: HashMap<String, Value>,
    refused: Value,
}

impl Story {
    async fn step(&mut self, step: &Step) -> Result<(), String> {
        let (verb, rest) = step.line.split_once(' ').ok_or("no verb")?;
        match verb {
            "is" | "owned" | "cause" => self.look(verb, rest).await,
            "note" => {
                let object = self.get(rest).await;
                self.noted.insert(rest.to_owned(), object);
                Ok(())
            }
            "unchanged" => {
                let object = self.get(rest).await;
                self.equal(&object, self.noted.get(rest).ok_or("nothing was noted")?)
            }
            _ => self.ask(verb, rest, &step.body).await,
        }
    }

    async fn get(&self, target: &str) -> Value {
        self.client.get(&Target::of(target).path).await.json()
    }

    fn equal(&self, actual: &Value, expected: &Value) -> Result<(), String> {
        match actual == expected {
            true => Ok(()),
            false => Err(format!("expected {expected}\n    but it is {actual}")),
        }
    }

    async fn look(&self, verb: &str, rest: &str) -> Result<(), String> {
        let (question, expected) = rest.split_once(" = ").ok_or("no expectation")?;
        let (target, what) = question.split_once(' ').ok_or("nothing to look at")?;
        let expected: Value = match expected {
            "absent" => Value::Null,
            json => serde_json::from_str(json).map_err(|error| format!("{error}: {json}"))?,
        };
        let actual = match verb {
            "cause" => {
                let causes = &self.refused["details"]["causes"];
                let place: usize = target.parse().map_err(|_| "no number")?;
                causes[place].pointer(what).cloned().unwrap_or_default()
            }
            "owned" => owned(&self.get(target).await, what),
            _ => self.get(target).await.pointer(what).cloned().unwrap_or_default(),
        };
        self.equal(&actual, &expected)
    }

    async fn ask(&mut self, verb: &str, rest: &str, body: &str) -> Result<(), String> {
        let (request, expected) = rest.split_once(" -> ").ok_or("no expectation")?;
        let (manager, target) = request.split_once(' ').ok_or("no target")?;
        let target = Target::of(target);
        let answer = self.send(verb, manager, &target, body).await?;
        let (code, fragments) = expected.split_once(' ').unwrap_or((expected, ""));
        if answer.code.to_string() != code {
            return Err(format!("expected {code}\n    but it is {}: {}", answer.code, answer.text()));
        }
        let told = match answer.code {
            ..400 => answer.warnings().join("\n"),
            _ => {
                self.refused = answer.status();
                self.refused["message"].as_str().unwrap_or_default().to_owned()
            }
        };
        let missing: Vec<&str> = fragments
            .split(" && ")
            .filter(|fragment| !told.contains(&fragment.replace("\\n", "\n")))
            .collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(format!("expected {missing:?}\n    but it says {told:?}")),
        }
    }

    async fn send(
        &self,
        verb: &str,
        manager: &str,
        target: &Target<'_>,
        body: &str,
    ) -> Result<Answer, String> {
        let by = match manager {
            "-" => String::new(),
            manager => format!("fieldManager={manager}"),
        };
        let (path, json) = (target.with(&by), "application/json");
        let apply = patch_type("apply");
        let (method, path, media, body) = match verb {
            "raw" => ("PATCH", path, apply, body.to_owned()),
            "cbor" => ("PATCH", path, "application/apply-patch+cbor", body.to_owned()),
            "apply" => ("PATCH", path, apply, target.filled(body).to_string()),
            "apply!" => ("PATCH", format!("{path}&force=true"), apply, target.filled(body).to_string()),
            "create" => {
                ("POST", format!("{}?{by}", target.collection), json, target.filled(body).to_string())
            }
            "put" => ("PUT", path, json, target.filled(body).to_string()),
            "json" => ("PATCH", path, patch_type("json"), body.to_owned()),
            "merge" | "strategic" => {
                let patch = decode_yaml(body.as_bytes()).map_err(|error| error.to_string())?;
                ("PATCH", path, patch_type(verb), json!(patch.object).to_string())
            }
            "delete" => ("DELETE", target.path.clone(), json, String::new()),
            other => return Err(format!("no such verb: {other}")),
        };
        Ok(self.client.send(method, &path, &[("content-type", media)], body).await)
    }
}

/// What a manager owns, as `m`, `m:Update` or `m:Apply/status` names it.
fn owned(object: &Value, who: &str) -> Value {
    let (who, subresource) = who.split_once('/').unwrap_or((who, ""));
    let (manager, operation) = who.split_once(':').unwrap_or((who, ""));
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let found = entries.into_iter().find(|entry| {
        entry["manager"] == manager
            && (operation.is_empty() || entry["operation"] == operation)
            && entry["subresource"].as_str().unwrap_or_default() == subresource
    });
    found.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
}

async fn tell(case: &Case) -> Result<(), String> {
    let mut story = Story { client: Client::new().await, noted: HashMap::new(), refused: Value::Null };
    for step in &case.steps {
        let done = story.step(step).await;
        done.map_err(|why| format!("{}: {}\n    {why}", step.place, step.line))?;
    }
    match story.client.panics().await {
        0 => Ok(()),
        panics => Err(format!("{}: {panics} panics", case.place)),
    }
}

#[tokio::test]
async fn every_story_of_apply_and_patch_goes_as_it_is_told() {
    let cases: Vec<Case> = FILES.iter().flat_map(|(file, text)| cases(file, text)).collect();
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), cases.len(), "every case proves something else");
    assert!(cases.len() >= AT_LEAST, "{} cases", cases.len());
    let mut wrong = vec![];
    for case in &cases {
        if let Err(why) = tell(case).await {
            wrong.push(format!("{}\n  {why}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
