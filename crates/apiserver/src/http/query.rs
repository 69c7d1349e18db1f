//! What stands behind the question mark.

use windlass_machinery::field::{Errors, Fault};

use crate::status::{Outcome, Status};

/// The query, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Query { pairs: pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect() }
    }

    /// The first value of this name, empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.pairs.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Whether the name occurs, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(key, _)| key == name)
    }

    /// All values of this name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.pairs.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A boolean as Kubernetes reads it: absent, `0` and `false` are false, everything else is true.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.has(name) && self.get(name) != "0" && !self.get(name).eq_ignore_ascii_case("false")
    }

    /// An integer; absent or empty is `None`.
    pub(crate) fn int(&self, name: &str) -> Outcome<Option<i64>> {
        match self.get(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                Status::bad_request(format!(
                    "invalid value {text:?} for the query parameter {name}: expected an integer"
                ))
            }),
        }
    }
}

/// Whether nothing is to be committed; refused when a value is not known.
pub(crate) fn is_dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut Errors) -> bool {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|value| *value != "All") {
        // The whole list is shown, as Kubernetes does.
        let shown = format!("{values:?}").replace(", ", ",");
        errors.push(Fault::NotSupported, "dryRun", shown, "supported values: \"All\"");
    }
    !values.is_empty()
}
