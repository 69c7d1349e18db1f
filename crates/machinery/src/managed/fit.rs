//! Bringing sets into the form of a schema whose lists and maps have been defined anew since they were written.

use serde_json::Value;

use super::{
    delta::mark,
    fields::below_value,
    place::{At, Kind, METADATA_STEP, roots},
    set::FieldSet,
};
use crate::{
    object::{Object, metadata},
    schema::Node,
};

impl FieldSet {
    /// What is below a list or map that has become atomic is told by it. Of a list that was owned as a whole and no
    /// longer is, all that is in `live` is owned.
    pub(crate) fn fit(&mut self, schema: &Node, live: Option<&Object>) {
        let (rest, meta) = roots(schema);
        fit_map(&mut self.0, rest, live);
        if let Some(Value::Object(below)) = self.0.get_mut(METADATA_STEP) {
            fit_map(below, meta, live.map(metadata));
        }
    }
}

fn fit_map(set: &mut Object, at: At<'_>, live: Option<&Object>) {
    for (step, below) in set {
        let (Some(name), Value::Object(below)) = (step.strip_prefix("f:"), below) else { continue };
        if step != METADATA_STEP {
            fit_value(below, at.field(name).0, live.and_then(|live| live.get(name)));
        }
    }
}

fn fit_value(below: &mut Object, at: At<'_>, live: Option<&Value>) {
    if at.is_whole() {
        below.clear();
    } else if below.is_empty() {
        if let Some(live) = live
            && let Kind::Set | Kind::Keyed(_) = at.kind(live)
        {
            *below = below_value(live, at);
            mark(below);
        }
    } else if below.keys().any(|step| step.starts_with("f:")) {
        fit_map(below, at, live.and_then(Value::as_object));
    } else {
        for (_, below) in below.iter_mut() {
            if let Value::Object(below) = below
                && !below.is_empty()
            {
                fit_value(below, at.items(), None);
            }
        }
    }
}
