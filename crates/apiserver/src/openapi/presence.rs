//! What Go writes of fields that are absent or empty: the facts about Kubernetes' types that their schemas leave out.
//!
//! The table is printed by `tools/go-fields` from Kubernetes' own types; its first lines there say how to read it.

use std::{collections::HashMap, sync::LazyLock};

use windlass_machinery::schema::Presence;

const TABLE: &str = include_str!("go_fields.txt");

static TYPES: LazyLock<HashMap<&str, &str>> =
    LazyLock::new(|| TABLE.lines().filter_map(|line| line.split_once(' ')).collect());

/// What is written of an absent or empty field of a built-in type.
pub(super) fn of(type_name: &str, field: &str) -> Presence {
    let fields = TYPES.get(type_name).copied().unwrap_or_default();
    let marked = fields.split(' ').find_map(|entry| entry.strip_prefix(field).filter(|mark| is_mark(mark)));
    match marked {
        Some("") => Presence::OmitEmpty,
        Some("!") => Presence::Always,
        Some("*") => Presence::Nullable,
        Some("-") => Presence::OmitZero,
        _ => Presence::Optional,
    }
}

fn is_mark(rest: &str) -> bool {
    matches!(rest, "" | "?" | "!" | "*" | "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read() {
        let core = |name: &str, field| of(&format!("io.k8s.api.core.v1.{name}"), field);
        assert_eq!(core("Service", "status"), Presence::OmitEmpty);
        assert_eq!(core("ServiceSpec", "internalTrafficPolicy"), Presence::Optional);
        assert_eq!(core("PodSpec", "containers"), Presence::Always);
        assert_eq!(core("Nothing", "name"), Presence::Optional);
        let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        assert_eq!(of(meta, "creationTimestamp"), Presence::OmitZero);
        assert_eq!(of(meta, "name"), Presence::OmitEmpty);
    }
}
