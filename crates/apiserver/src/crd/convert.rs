//! Conversion by webhook: objects are sent out in one version and come back in another.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_machinery::{
    field::Errors,
    metadata::{validate_annotations, validate_labels},
    object::{self, Object, metadata_mut, str_at},
};

use super::wire::ConversionSpec;
use crate::{
    status::{Outcome, Status},
    webhook::{CallError, Hook, Webhooks},
};

/// How long a webhook may take, as in Kubernetes.
const WITHIN: Duration = Duration::from_secs(30);

/// Objects in one question.
const BATCH: usize = 256;

/// Bytes of objects in one question; a single object may have more.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Most bytes of an answer: a conversion may make objects larger, but not much.
const MOST: usize = 4 * BATCH_BYTES;

/// The forms of the question that are spoken here, the better one first.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// Who converts the objects of a kind.
#[derive(Debug)]
pub(super) struct Converter {
    hook: Result<Hook, Arc<CallError>>,
    /// The form of the question.
    review: &'static str,
}

impl Converter {
    /// The webhook of a definition, if it has one.
    pub(super) fn of(spec: &ConversionSpec) -> Option<Self> {
        let webhook = spec.webhook.as_ref().filter(|_| spec.strategy == "Webhook")?;
        let config = webhook.client_config.as_object().cloned().unwrap_or_default();
        let understood = &webhook.conversion_review_versions;
        let spoken = understood.iter().find_map(|theirs| REVIEWS.iter().find(|ours| *ours == theirs));
        Some(Converter { hook: Hook::of(&config).map_err(Arc::new), review: spoken.unwrap_or(&REVIEWS[0]) })
    }
}

/// Turns objects into this `apiVersion`; those that have it already stay as they are. The order is kept.
pub(super) async fn all(
    converter: &Converter,
    mut objects: Vec<Object>,
    api_version: &str,
    webhooks: &Webhooks,
) -> Outcome<Vec<Object>> {
    let is_other = |object: &Object| str_at(object, &["apiVersion"]) != Some(api_version);
    let places: Vec<usize> = (0..objects.len()).filter(|place| is_other(&objects[*place])).collect();
    let mut rest = places.as_slice();
    while !rest.is_empty() {
        let mut batch = Batch::default();
        while let Some((place, others)) = rest.split_first()
            && batch.takes(&objects[*place])
        {
            batch.places.push(*place);
            rest = others;
        }
        let answers = ask(converter, batch.texts, api_version, webhooks).await;
        let Some(first) = batch.places.first() else { break };
        let answers = answers.map_err(|why| failed(&objects[*first], &why))?;
        if answers.len() != batch.places.len() {
            let (got, sent) = (answers.len(), batch.places.len());
            return Err(failed_with(&objects[*first], &format!("returned {got} objects, expected {sent}")));
        }
        for (index, (place, answer)) in batch.places.into_iter().zip(answers).enumerate() {
            let converted = accept(&objects[place], answer, api_version).map_err(|why| {
                failed_with(
                    &objects[place],
                    &format!("returned invalid converted object at index {index}: {why}"),
                )
            })?;
            objects[place] = converted;
        }
    }
    Ok(objects)
}

/// Objects that are sent together.
#[derive(Default)]
struct Batch {
    places: Vec<usize>,
    texts: Vec<String>,
    bytes: usize,
}

impl Batch {
    /// Adds an object if there is room.
    fn takes(&mut self, object: &Object) -> bool {
        if self.texts.len() >= BATCH {
            return false;
        }
        let text = serde_json::to_string(object).unwrap_or_default();
        if !self.texts.is_empty() && self.bytes + text.len() > BATCH_BYTES {
            return false;
        }
        self.bytes += text.len();
        self.texts.push(text);
        true
    }
}

/// One question and its answer; else why there is none.
async fn ask(
    converter: &Converter,
    objects: Vec<String>,
    api_version: &str,
    webhooks: &Webhooks,
) -> Result<Vec<Value>, String> {
    let hook = converter.hook.as_ref().map_err(ToString::to_string)?;
    let uid = uuid::Uuid::new_v4().to_string();
    let review = format!("apiextensions.k8s.io/{}", converter.review);
    let question = format!(
        "{{\"kind\":\"ConversionReview\",\"apiVersion\":\"{review}\",\"request\":{{\"uid\":\"{uid}\",\
         \"desiredAPIVersion\":{},\"objects\":[{}]}}}}",
        json!(api_version),
        objects.join(",")
    );
    let answer = webhooks.call(hook, Bytes::from(question), WITHIN, MOST).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let mut answer: Object =
        serde_json::from_slice(&answer).map_err(|error| format!("the answer is no JSON object: {error}"))?;
    let given = |field: &str| str_at(&answer, &[field]).unwrap_or_default();
    if (given("apiVersion"), given("kind")) != (review.as_str(), "ConversionReview") {
        let (version, kind) = (given("apiVersion"), given("kind"));
        return Err(format!("expected {review}, Kind=ConversionReview, got {version}, Kind={kind}"));
    }
    let Some(Value::Object(mut response)) = answer.remove("response") else {
        return Err("no response provided".to_owned());
    };
    let given = str_at(&response, &["uid"]).unwrap_or_default();
    if given != uid {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    match (str_at(&response, &["result", "status"]), str_at(&response, &["result", "message"])) {
        (Some("Success"), _) => {}
        (_, Some(message)) if !message.is_empty() => return Err(message.to_owned()),
        (status, _) => {
            let status = status.unwrap_or_default();
            return Err(format!("response.result.status was '{status}', not 'Success'"));
        }
    }
    match response.remove("convertedObjects") {
        Some(Value::Array(objects)) => Ok(objects),
        _ => Ok(vec![]),
    }
}

/// Finds faults in a map of strings, which is in this field.
type Check = fn(&Object, &str, &mut Errors);

/// What a webhook may change of the metadata, and what must hold of it then.
const CHANGEABLE: &[(&str, Check)] = &[("labels", validate_labels), ("annotations", validate_annotations)];

/// Takes what came back for an object: it must be the same one, and of its metadata only labels and annotations may
/// have changed.
fn accept(original: &Object, converted: Value, api_version: &str) -> Result<Object, String> {
    let Value::Object(mut converted) = converted else { return Err("it is no object".to_owned()) };
    let given = str_at(&converted, &["apiVersion"]).unwrap_or_default();
    if given != api_version {
        return Err(format!("invalid groupVersion (expected {api_version}, received {given})"));
    }
    let same = |what: &str, path: &[&str]| {
        let (before, after) = (str_at(original, path), str_at(&converted, path));
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        match before == after {
            true => Ok(()),
            false => Err(format!("must have the same {what}: {before} != {after}")),
        }
    };
    same("kind", &["kind"])?;
    same("name", &["metadata", "name"])?;
    same("namespace", &["metadata", "namespace"])?;
    same("UID", &["metadata", "uid"])?;
    let Some(Value::Object(mut given)) = converted.remove("metadata") else {
        return Err("missing metadata in converted object".to_owned());
    };
    let mut kept = object::metadata(original).clone();
    for (field, check) in CHANGEABLE {
        match given.remove(*field) {
            None | Some(Value::Null) => drop(kept.remove(*field)),
            Some(Value::Object(map)) => {
                if let Some((key, _)) = map.iter().find(|(_, value)| !value.is_string()) {
                    return Err(format!("metadata.{field}[{key}] must be a string in converted object"));
                }
                let mut errors = Errors::new();
                check(&map, &format!("metadata.{field}"), &mut errors);
                if let Some(error) = errors.list().first() {
                    return Err(error.to_string());
                }
                kept.insert((*field).to_owned(), Value::Object(map));
            }
            Some(_) => return Err(format!("invalid metadata.{field} in converted object")),
        }
    }
    *metadata_mut(&mut converted) = kept;
    Ok(converted)
}

/// What a client is told when an object cannot be converted.
fn failed(object: &Object, why: &str) -> Box<Status> {
    failed_with(object, &format!("failed: {why}"))
}

fn failed_with(object: &Object, how: &str) -> Box<Status> {
    let given = |field: &str| str_at(object, &[field]).unwrap_or_default();
    let (api_version, kind) = (given("apiVersion"), given("kind"));
    Status::failure(format!("conversion webhook for {api_version}, Kind={kind} {how}"))
}
