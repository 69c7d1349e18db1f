//! From a definition to rows: one for each version that is served.

use std::{borrow::Cow, sync::Arc};

use windlass_machinery::{table::custom_columns, version};

use super::{definition::Definition, wire::ScaleSpec};
use crate::resources::{Conversion, Generation, Part, Resource, Scale, Source, Strategy, Version};

/// How objects of custom kinds are prepared, changed and deleted; their other rules are in their schemas.
const STRATEGY: Strategy =
    Strategy { generation: Generation::COUNTED, unconditional_update: false, ..Strategy::PLAIN };

/// The status of a custom kind. Its metadata is written through the object alone.
const STATUS: Part = Part { metadata: false, ..Part::STATUS };

/// The rows of a definition, the preferred version first.
pub(super) fn served(definition: &Arc<Definition>) -> Vec<Arc<Resource>> {
    let versions = &definition.spec.versions;
    let mut places: Vec<usize> = (0..versions.len()).filter(|place| versions[*place].served).collect();
    places.sort_by(|one, other| version::compare(&versions[*one].name, &versions[*other].name));
    places.into_iter().map(|place| row(definition, place)).collect()
}

/// The row of the version at this place.
pub(super) fn row(definition: &Arc<Definition>, place: usize) -> Arc<Resource> {
    let kind = definition.kind(place);
    let (names, spec) = (&definition.names, &definition.spec);
    let own = &spec.versions[place];
    let api_version = |version: &str| format!("{}/{version}", spec.group);
    let mut shown = Version::new(
        &own.name,
        type_name(&spec.group, &own.name, &names.kind),
        Source::Custom(Arc::clone(&kind)),
    );
    shown.warning = own.deprecated.then(|| match &own.deprecation_warning {
        Some(warning) => warning.clone(),
        None => format!("{} {} is deprecated", api_version(&own.name), names.kind),
    });
    Arc::new(Resource {
        group: spec.group.clone(),
        plural: names.plural.clone(),
        singular: names.singular.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone(),
        short_names: names.short_names.clone(),
        categories: names.categories.clone(),
        namespaced: spec.scope == "Namespaced",
        versions: vec![shown],
        stored_as: api_version(&spec.versions[definition.storage()].name),
        handled_as: api_version(&own.name),
        handled_in: None,
        deletes_collections: true,
        prefix: definition.prefix(),
        parts: own.subresources.status.iter().map(|_| STATUS).collect(),
        scale: own.subresources.scale.as_ref().map(scale),
        actions: vec![],
        review: None,
        computed: false,
        columns: custom_columns(&own.additional_printer_columns),
        fields: own.selectable_fields.iter().map(|field| Cow::Owned(dotted(&field.json_path))).collect(),
        strategy: STRATEGY,
        rules: Arc::clone(&kind) as _,
        conversion: Conversion::Custom(kind),
    })
}

fn scale(spec: &ScaleSpec) -> Scale {
    Scale {
        replicas: dotted(&spec.spec_replicas_path).into(),
        status_replicas: dotted(&spec.status_replicas_path).into(),
        selector: dotted(spec.label_selector_path.as_deref().unwrap_or_default()).into(),
        optional: false,
    }
}

/// A simple JSON path such as `.spec.replicas`, without the dot that it begins with.
fn dotted(path: &str) -> String {
    path.trim_start_matches('.').to_owned()
}

/// The name of a type in OpenAPI: `com.example.v1.Foo`.
fn type_name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}
