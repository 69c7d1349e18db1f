//! The parameters of a policy: objects that a binding refers to.

use std::sync::Arc;

use serde_json::Value;
use windlass_machinery::object::{Object, metadata};

use super::{
    super::{
        View,
        subject::{Subject, converted},
    },
    definition::{Binding, Common, ParamRef},
};
use crate::{resources::Resource, webhook::Webhooks};

/// Most parameters of one binding.
const MOST: usize = 256;

/// The parameters to run a policy with, one after another; null where it takes none. Fails with words when the binding
/// does not fit.
pub(super) async fn find(
    view: &View,
    common: &Common,
    binding: &Binding,
    subject: &Subject<'_>,
    webhooks: &Webhooks,
) -> Result<Vec<Value>, String> {
    let (Some((api_version, kind)), Some(reference)) = (&common.params, &binding.params) else {
        return Ok(vec![Value::Null]);
    };
    let Some(row) = row(view, api_version, kind) else {
        return Err(format!("paramKind kind `{api_version}, Kind={kind}` not known"));
    };
    let namespace = namespace(&row, reference, subject)?;
    let found: Vec<Object> = match reference.name.as_str() {
        "" => {
            let all = view.list(&row.group, &row.plural, namespace).into_iter().map(|(object, _)| object);
            let labels = |object: &Object| metadata(object).get("labels").and_then(Value::as_object).cloned();
            let takes = |object: &Object| reference.selector.matches_map(&labels(object).unwrap_or_default());
            all.filter(takes).take(MOST + 1).collect()
        }
        name => {
            view.get(&row.group, &row.plural, namespace, name).map(|(object, _)| object).into_iter().collect()
        }
    };
    if found.is_empty() && reference.required {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    if found.len() > MOST {
        return Err(format!("more than {MOST} params were selected"));
    }
    let mut all = vec![];
    for object in found {
        let shown = converted(&row, object, api_version, webhooks).await;
        all.push(Value::Object(shown.map_err(|status| status.message)?));
    }
    Ok(all)
}

/// The resource of a kind.
fn row(view: &View, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let is_it = |row: &&Arc<Resource>| row.kind == kind && row.is_stored() && row.version(version).is_some();
    view.catalog.group(group)?.rows().find(is_it).cloned()
}

fn namespace<'a>(row: &Resource, reference: &'a ParamRef, subject: &Subject<'a>) -> Result<&'a str, String> {
    match (row.namespaced, reference.namespace.as_str()) {
        (false, "") => Ok(""),
        (false, _) => {
            Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned())
        }
        (true, "") if subject.namespace.is_empty() => {
            Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                .to_owned())
        }
        (true, "") => Ok(subject.namespace),
        (true, namespace) => Ok(namespace),
    }
}
