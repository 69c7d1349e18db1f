//! Faults of volumes and where their files come from.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_machinery::{field::Errors, names, object::Object, quantity::Quantity};

use super::{
    SOURCES,
    container::{inner_path, no_way_up},
    env,
};
use crate::resources::kinds::fields::{
    below, dns_label, each, int, is_set, list, malformed, one_of, required, text,
};

const MODE_RANGE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Fields that a source must have.
const REQUIRED: [(&str, &[&str]); 21] = [
    ("hostPath", &["path"]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["image"]),
    ("flexVolume", &["driver"]),
    ("cinder", &["volumeID"]),
    ("azureFile", &["secretName", "shareName"]),
    ("configMap", &["name"]),
    ("vsphereVolume", &["volumePath"]),
    ("quobyte", &["registry", "volume"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", &["driver"]),
];

const HOST_PATH_TYPES: [&str; 7] =
    ["BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Finds faults in the volumes of a pod.
pub(super) fn validate(spec: &Object, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    each(spec, "volumes", errors, |volume, errors| {
        let name = text(volume, "name");
        if dns_label(volume, "name", errors) && !seen.insert(name.to_owned()) {
            errors.duplicate("name", &name.into());
        }
        let mut sources = SOURCES.iter().filter(|source| is_set(volume, source));
        match sources.next() {
            None => errors.required("", "must specify a volume type"),
            Some(first) => {
                below(volume, first, errors, |source, errors| validate_source(first, source, errors));
                for more in sources {
                    errors.forbidden(more, "may not specify more than 1 volume type");
                }
            }
        }
    });
}

fn validate_source(kind: &str, source: &Object, errors: &mut Errors) {
    if let Some((_, fields)) = REQUIRED.iter().find(|(name, _)| *name == kind) {
        required(source, fields, errors);
    }
    mode(source, "defaultMode", errors);
    match kind {
        "emptyDir" => {
            if let Some(limit) = source.get("sizeLimit").filter(|value| !value.is_null())
                && Quantity::from_value(limit).is_ok_and(|limit| limit < Quantity::default())
            {
                errors.forbidden("sizeLimit", "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => {
            no_way_up("path", text(source, "path"), errors);
            one_of(source, "type", &HOST_PATH_TYPES, errors);
        }
        "nfs" => {
            let path = text(source, "path");
            if !path.is_empty() && !path.starts_with('/') {
                errors.invalid_str("path", path, "must be an absolute path");
            }
        }
        "secret" | "configMap" => each(source, "items", errors, key_to_path),
        "downwardAPI" => each(source, "items", errors, downward_file),
        "projected" => projected(source, errors),
        "ephemeral" => match source.get("volumeClaimTemplate").and_then(Value::as_object) {
            None => errors.required("volumeClaimTemplate", ""),
            Some(template) => errors.at("volumeClaimTemplate", |errors| claim_template(template, errors)),
        },
        "image" => one_of(source, "pullPolicy", &["Always", "IfNotPresent", "Never"], errors),
        "iscsi" if int(source, "lun").is_some_and(|lun| !(0..=255).contains(&lun)) => {
            let shown = source.get("lun").unwrap_or(&Value::Null);
            errors.invalid("lun", shown, "must be between 0 and 255, inclusive");
        }
        "cephfs" | "rbd" if list(source, "monitors").is_empty() => errors.required("monitors", ""),
        "fc" => {
            let (wwns, wwids) = (list(source, "targetWWNs"), list(source, "wwids"));
            match (wwns.is_empty(), wwids.is_empty()) {
                (true, true) => {
                    errors.required("targetWWNs", "must specify either targetWWNs or wwids, but not both");
                }
                (false, false) => {
                    let shown = source.get("targetWWNs").unwrap_or(&Value::Null);
                    errors.invalid(
                        "targetWWNs",
                        shown,
                        "targetWWNs and wwids can not be specified simultaneously",
                    );
                }
                _ => {}
            }
        }
        _ => {}
    }
}

fn mode(object: &Object, field: &str, errors: &mut Errors) {
    if let Some(mode) = int(object, field).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(field, &mode.into(), MODE_RANGE);
    }
}

fn key_to_path(item: &Object, errors: &mut Errors) {
    required(item, &["key", "path"], errors);
    file_path(item, "path", errors);
    mode(item, "mode", errors);
}

/// The path of a file that is written into a volume.
fn file_path(object: &Object, field: &str, errors: &mut Errors) {
    inner_path(object, field, errors);
    let path = text(object, field);
    if path.starts_with("..") && !path.starts_with("../") && path != ".." {
        errors.invalid_str(field, path, "must not start with '..'");
    }
}

fn downward_file(file: &Object, errors: &mut Errors) {
    required(file, &["path"], errors);
    file_path(file, "path", errors);
    mode(file, "mode", errors);
    env::downward_file(file, errors);
}

fn projected(source: &Object, errors: &mut Errors) {
    const PROJECTIONS: [&str; 6] =
        ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
    let mut paths = BTreeSet::new();
    each(source, "sources", errors, |projection, errors| {
        let mut found = PROJECTIONS.iter().filter(|kind| is_set(projection, kind));
        let Some(first) = found.next() else {
            errors.required("", "must specify one of: configMap, secret, downwardAPI, serviceAccountToken, clusterTrustBundle, podCertificate");
            return;
        };
        below(projection, first, errors, |inner, errors| {
            validate_projection(first, inner, &mut paths, errors)
        });
        for more in found {
            errors.forbidden(more, "may not specify more than 1 volume type per source");
        }
    });
}

fn validate_projection(kind: &str, source: &Object, paths: &mut BTreeSet<String>, errors: &mut Errors) {
    let mut unique = |path: &str, field: &str, errors: &mut Errors| {
        if !path.is_empty() && !paths.insert(path.to_owned()) {
            errors.invalid_str(field, path, "conflicting duplicate paths");
        }
    };
    match kind {
        "secret" | "configMap" => {
            required(source, &["name"], errors);
            each(source, "items", errors, |item, errors| {
                key_to_path(item, errors);
                unique(text(item, "path"), "path", errors);
            });
        }
        "downwardAPI" => each(source, "items", errors, |item, errors| {
            downward_file(item, errors);
            unique(text(item, "path"), "path", errors);
        }),
        "serviceAccountToken" => {
            token(source, errors);
            unique(text(source, "path"), "path", errors);
        }
        "clusterTrustBundle" => {
            required(source, &["path"], errors);
            file_path(source, "path", errors);
            unique(text(source, "path"), "path", errors);
            if is_set(source, "name") == is_set(source, "signerName") {
                errors.required("", "exactly one of name or signerName must be specified");
            }
        }
        "podCertificate" => {
            required(source, &["signerName", "keyType"], errors);
            for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
                file_path(source, field, errors);
                unique(text(source, field), field, errors);
            }
        }
        _ => {}
    }
}

fn token(source: &Object, errors: &mut Errors) {
    if let Some(seconds) = source.get("expirationSeconds").filter(|value| !value.is_null()) {
        match seconds.as_i64() {
            Some(..600) => {
                errors.invalid(
                    "expirationSeconds",
                    seconds,
                    "may not specify a duration less than 10 minutes",
                );
            }
            Some(number) if number > 1 << 32 => {
                errors.invalid(
                    "expirationSeconds",
                    seconds,
                    "may not specify a duration larger than 2^32 seconds",
                );
            }
            _ => {}
        }
    }
    required(source, &["path"], errors);
    file_path(source, "path", errors);
}

/// A claim made from a template must say how it is used and how large it is.
fn claim_template(template: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let spec = template.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    errors.at("spec", |errors| claim_spec(spec, errors));
}

/// Finds faults in the spec of a claim that is made for a pod.
pub(in crate::resources::kinds) fn claim_spec(spec: &Object, errors: &mut Errors) {
    if list(spec, "accessModes").is_empty() {
        errors.required("accessModes", "at least 1 access mode is required");
    }
    const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for mode in list(spec, "accessModes").iter().filter_map(Value::as_str) {
        if !MODES.contains(&mode) {
            errors.not_supported("accessModes", mode, &MODES);
        }
    }
    let storage = spec.get("resources").and_then(|value| value.get("requests")?.get("storage"));
    match storage.map(Quantity::from_value) {
        None => errors.required("resources[storage]", ""),
        Some(Ok(amount)) if amount <= Quantity::default() => {
            errors.invalid_str("resources[storage]", &amount.to_string(), "must be greater than zero");
        }
        Some(Err(fault)) => {
            errors.invalid("resources[storage]", storage.unwrap_or(&Value::Null), fault.to_string());
        }
        Some(Ok(_)) => {}
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        malformed("storageClassName", class, names::subdomain(class, false), errors);
    }
    one_of(spec, "volumeMode", &["Block", "Filesystem"], errors);
}
