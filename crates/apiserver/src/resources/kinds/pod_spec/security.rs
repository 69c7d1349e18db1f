//! Faults in what a pod and its containers are allowed to do on their node.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_machinery::{field::Errors, object::Object};

use crate::resources::kinds::fields::{
    below, each, int, is_set, list, map, must_be, one_of, required, text, texts, truth,
};

const USER_RANGE: &str = "must be between 0 and 2147483647, inclusive";
const USERS: std::ops::RangeInclusive<i64> = 0..=i32::MAX as i64;

/// Finds faults in the security context of a pod.
pub(super) fn validate_pod(spec: &Object, context: &Object, errors: &mut Errors) {
    users(context, &["fsGroup", "runAsUser", "runAsGroup"], errors);
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        if group.as_i64().is_some_and(|group| !USERS.contains(&group)) {
            errors.invalid(&format!("supplementalGroups[{index}]"), group, USER_RANGE);
        }
    }
    one_of(context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], errors);
    one_of(context, "supplementalGroupsPolicy", &["Merge", "Strict"], errors);
    one_of(context, "seLinuxChangePolicy", &["MountOption", "Recursive"], errors);
    profiles(context, errors);
    let mut seen = BTreeSet::new();
    each(context, "sysctls", errors, |sysctl, errors| {
        let name = text(sysctl, "name");
        if !required(sysctl, &["name"], errors) {
            return;
        }
        if !is_sysctl(name) {
            errors.invalid_str("name", name, SYSCTL);
        } else if !seen.insert(name.replace('/', ".")) {
            errors.duplicate("name", &name.into());
        }
    });
    if truth(spec, "shareProcessNamespace") && truth(spec, "hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid("shareProcessNamespace", &true.into(), detail);
    }
    if spec.get("hostUsers") == Some(&Value::Bool(false)) {
        for field in ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|field| truth(spec, field)) {
            errors.forbidden(field, "when `hostUsers` is false");
        }
    }
}

/// Finds faults in the security context of a container.
pub(super) fn validate_container(spec: &Object, context: &Object, errors: &mut Errors) {
    users(context, &["runAsUser", "runAsGroup"], errors);
    one_of(context, "procMount", &["Default", "Unmasked"], errors);
    if text(context, "procMount") == "Unmasked" && spec.get("hostUsers") != Some(&Value::Bool(false)) {
        errors.invalid_str("procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`");
    }
    profiles(context, errors);
    if context.get("allowPrivilegeEscalation") != Some(&Value::Bool(false)) {
        return;
    }
    let shown = Value::Object(context.clone());
    if truth(context, "privileged") {
        errors.invalid("", &shown, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true");
    }
    let added = map(context, "capabilities").map(|capabilities| texts(capabilities, "add"));
    if added.into_iter().flatten().any(|(_, name)| name == "CAP_SYS_ADMIN") {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        errors.invalid("", &shown, detail);
    }
}

fn users(context: &Object, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        if let Some(id) = int(context, field).filter(|id| !USERS.contains(id)) {
            errors.invalid(field, &id.into(), USER_RANGE);
        }
    }
}

fn profiles(context: &Object, errors: &mut Errors) {
    for (field, what) in [("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")] {
        below(context, field, errors, |profile, errors| {
            must_be(profile, "type", &["Localhost", "RuntimeDefault", "Unconfined"], errors);
            let local = text(profile, "type") == "Localhost";
            let path = text(profile, "localhostProfile");
            if local && path.is_empty() {
                errors.required("localhostProfile", format!("must be set when {what} type is Localhost"));
            } else if !local && is_set(profile, "localhostProfile") {
                let detail = format!("can only be set when {what} type is Localhost");
                errors.invalid_str("localhostProfile", path, detail);
            } else if what == "seccomp" {
                super::container::inner_path(profile, "localhostProfile", errors);
            }
        });
    }
    below(context, "windowsOptions", errors, |options, errors| {
        if truth(options, "hostProcess")
            && text(options, "runAsUserName").is_empty()
            && is_set(options, "runAsUserName")
        {
            errors.invalid_str("runAsUserName", "", "runAsUserName cannot be an empty string");
        }
    });
}

const SYSCTL: &str = "must have at most 253 characters and match regex \
                      ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

fn is_sysctl(name: &str) -> bool {
    let step = |step: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = step.as_bytes();
        bytes.first().is_some_and(|byte| inner(*byte))
            && bytes.last().is_some_and(|byte| inner(*byte))
            && bytes.iter().all(|byte| inner(*byte) || matches!(byte, b'-' | b'_'))
    };
    name.len() <= 253 && name.split(['.', '/']).all(step)
}
