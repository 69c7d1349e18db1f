//! The controls of the Pod Security Standards: what a pod may not do at a level, as of a version.
//!
//! [`CONTROLS`] is the whole of the standards, in the order findings are told.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_machinery::object::{Object, at, bool_at, list_at, str_at};

use super::policy::{Level, Standard, Version};

/// The newest version in which any control differs from before.
const NEWEST: u32 = 37;

/// What is looked at: the metadata and the spec of a pod or of a template.
#[derive(Clone, Copy)]
pub(super) struct Pod<'a> {
    pub(super) metadata: &'a Object,
    pub(super) spec: &'a Object,
}

/// What is wrong, in short, and how exactly.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) reason: &'static str,
    pub(super) detail: String,
}

type Check = fn(Pod<'_>, u32) -> Option<Finding>;

/// One control: its level, since which version it is there, since which version a stricter one stands in for
/// it at the restricted level, and the control itself, which is given the version.
struct Control(Level, u32, u32, Check);

const NEVER: u32 = u32::MAX;

const CONTROLS: [Control; 19] = [
    Control(Level::Baseline, 0, NEVER, app_armor),
    Control(Level::Baseline, 0, 22, added_capabilities),
    Control(Level::Baseline, 0, NEVER, host_namespaces),
    Control(Level::Baseline, 0, 0, host_path_volumes),
    Control(Level::Baseline, 0, NEVER, host_ports),
    Control(Level::Baseline, 34, NEVER, probe_hosts),
    Control(Level::Baseline, 0, NEVER, privileged),
    Control(Level::Baseline, 0, 35, proc_mount_outside_user_namespaces),
    Control(Level::Baseline, 0, NEVER, selinux),
    Control(Level::Baseline, 0, 19, seccomp),
    Control(Level::Baseline, 0, NEVER, sysctls),
    Control(Level::Baseline, 0, NEVER, host_process),
    Control(Level::Restricted, 8, NEVER, privilege_escalation),
    Control(Level::Restricted, 22, NEVER, all_capabilities),
    Control(Level::Restricted, 35, NEVER, proc_mount),
    Control(Level::Restricted, 0, NEVER, volume_types),
    Control(Level::Restricted, 0, NEVER, non_root),
    Control(Level::Restricted, 23, NEVER, root_user),
    Control(Level::Restricted, 19, NEVER, required_seccomp),
];

/// Everything a pod does against a standard.
pub(super) fn findings(standard: Standard, pod: Pod<'_>) -> Vec<Finding> {
    let version = match standard.version {
        Version::Latest => NEWEST,
        Version::Minor(minor) => minor.min(NEWEST),
    };
    let applies = |control: &&Control| {
        let replaced = standard.level == Level::Restricted && version >= control.2;
        control.0 <= standard.level && version >= control.1 && !replaced
    };
    CONTROLS.iter().filter(applies).filter_map(|control| (control.3)(pod, version)).collect()
}

const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

impl<'a> Pod<'a> {
    fn containers(self) -> impl Iterator<Item = &'a Object> {
        LISTS.into_iter().flat_map(move |list| list_at(self.spec, &[list])).filter_map(Value::as_object)
    }

    /// The names of the containers that do something, as messages list them.
    fn who(self, does: impl Fn(&Object) -> bool) -> Vec<&'a str> {
        self.containers().filter(|container| does(container)).map(name).collect()
    }

    /// The pod, the containers, or both: whoever does something. `None` when nobody does.
    fn whoever(self, field: &[&str], bad: impl Fn(&Value) -> bool) -> Option<String> {
        let path: Vec<&str> = ["securityContext"].into_iter().chain(field.iter().copied()).collect();
        let does = |object: &Object| at(object, &path).is_some_and(&bad);
        let containers = self.who(does);
        let mut who = Vec::new();
        if does(self.spec) {
            who.push("pod".to_owned());
        }
        if !containers.is_empty() {
            who.push(listed(&containers));
        }
        (!who.is_empty()).then(|| who.join(" and "))
    }

    /// All values of a field of the pod's or a container's security context.
    fn values(self, field: &[&str]) -> impl Iterator<Item = &'a Value> {
        let path: Vec<&str> = ["securityContext"].into_iter().chain(field.iter().copied()).collect();
        [self.spec].into_iter().chain(self.containers()).filter_map(move |object| at(object, &path))
    }

    fn annotations(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.metadata.get("annotations").and_then(Value::as_object).into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    fn has_user_namespace(self) -> bool {
        bool_at(self.spec, &["hostUsers"]) == Some(false)
    }

    fn is_windows(self) -> bool {
        str_at(self.spec, &["os", "name"]) == Some("windows")
    }
}

fn name(object: &Object) -> &str {
    str_at(object, &["name"]).unwrap_or_default()
}

fn quoted<S: AsRef<str>>(items: &[S]) -> String {
    let items: Vec<&str> = items.iter().map(AsRef::as_ref).collect();
    format!("\"{}\"", items.join("\", \""))
}

/// `container "a"`, or `containers "a", "b"`.
fn listed(containers: &[&str]) -> String {
    format!("{} {}", number(containers.len(), "container", "containers"), quoted(containers))
}

fn number<'a>(count: usize, one: &'a str, several: &'a str) -> &'a str {
    if count == 1 { one } else { several }
}

fn strings(values: &BTreeSet<&str>) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}

fn added(container: &Object) -> impl Iterator<Item = &str> {
    list_at(container, &["securityContext", "capabilities", "add"]).iter().filter_map(Value::as_str)
}

fn app_armor(pod: Pod<'_>, _: u32) -> Option<Finding> {
    const FIELD: [&str; 2] = ["appArmorProfile", "type"];
    let bad = |value: &Value| !matches!(value.as_str(), Some("RuntimeDefault" | "Localhost"));
    let mut who: Vec<String> = pod.whoever(&FIELD, bad).into_iter().collect();
    let values = pod.values(&FIELD).filter(|value| bad(value)).filter_map(Value::as_str);
    let mut values = strings(&values.collect());
    let prefix = "container.apparmor.security.beta.kubernetes.io/";
    let noted = pod.annotations().filter(|(key, value)| {
        let allowed = value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/");
        key.starts_with(prefix) && !allowed
    });
    let noted: Vec<String> = noted.map(|(key, value)| format!("{key}={value:?}")).collect();
    if !noted.is_empty() {
        who.push(number(noted.len(), "annotation", "annotations").to_owned());
        values.extend(noted);
    }
    let detail =
        || format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(&values));
    let reason = number(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles");
    (!who.is_empty()).then(|| Finding { reason, detail: detail() })
}

fn added_capabilities(pod: Pod<'_>, _: u32) -> Option<Finding> {
    const ALLOWED: [&str; 13] = [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    let detail = too_many_capabilities(pod, &ALLOWED)?;
    Some(Finding { reason: "non-default capabilities", detail })
}

fn too_many_capabilities(pod: Pod<'_>, allowed: &[&str]) -> Option<String> {
    let who = pod.who(|container| added(container).any(|one| !allowed.contains(&one)));
    let bad: BTreeSet<&str> = pod.containers().flat_map(added).filter(|one| !allowed.contains(one)).collect();
    let bad = strings(&bad);
    let text =
        || format!("{} must not include {} in securityContext.capabilities.add", listed(&who), quoted(&bad));
    (!who.is_empty()).then(text)
}

fn host_namespaces(pod: Pod<'_>, _: u32) -> Option<Finding> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let shared = shared.filter(|field| bool_at(pod.spec, &[field]) == Some(true));
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    (!shared.is_empty()).then(|| Finding { reason: "host namespaces", detail: shared.join(", ") })
}

fn volumes(pod: Pod<'_>) -> impl Iterator<Item = &Object> {
    list_at(pod.spec, &["volumes"]).iter().filter_map(Value::as_object)
}

fn host_path_volumes(pod: Pod<'_>, _: u32) -> Option<Finding> {
    let on_host = volumes(pod).filter(|volume| volume.get("hostPath").is_some_and(|path| !path.is_null()));
    let names: Vec<&str> = on_host.map(name).collect();
    let detail = || format!("{} {}", number(names.len(), "volume", "volumes"), quoted(&names));
    (!names.is_empty()).then(|| Finding { reason: "hostPath volumes", detail: detail() })
}

fn host_ports(pod: Pod<'_>, _: u32) -> Option<Finding> {
    fn taken(container: &Object) -> impl Iterator<Item = i64> {
        let ports = list_at(container, &["ports"]).iter();
        ports.filter_map(|port| port.get("hostPort")?.as_i64()).filter(|port| *port != 0)
    }
    let who = pod.who(|container| taken(container).next().is_some());
    let ports: BTreeSet<String> = pod.containers().flat_map(taken).map(|port| port.to_string()).collect();
    let ports = Vec::from_iter(ports);
    let detail = || {
        let (uses, called) = (number(who.len(), "uses", "use"), number(ports.len(), "hostPort", "hostPorts"));
        format!("{} {uses} {called} {}", listed(&who), ports.join(", "))
    };
    (!who.is_empty()).then(|| Finding { reason: "hostPort", detail: detail() })
}

fn probe_hosts(pod: Pod<'_>, _: u32) -> Option<Finding> {
    const HANDLERS: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    fn hosts(container: &Object) -> impl Iterator<Item = &str> {
        let handlers = HANDLERS.into_iter().filter_map(|path| at(container, path));
        let targets = handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|target| handler.get(target)));
        let hosts = targets.filter_map(|target| target?.get("host")?.as_str());
        hosts.filter(|host| !host.is_empty())
    }
    let who: BTreeSet<&str> = pod.who(|container| hosts(container).next().is_some()).into_iter().collect();
    let who = Vec::from_iter(who);
    let hosts = strings(&pod.containers().flat_map(hosts).collect());
    let detail = || {
        let called = number(hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts");
        format!("{} {} {called} {}", listed(&who), number(who.len(), "uses", "use"), quoted(&hosts))
    };
    (!who.is_empty()).then(|| Finding { reason: "probe or lifecycle host", detail: detail() })
}

fn privileged(pod: Pod<'_>, _: u32) -> Option<Finding> {
    let who = pod.who(|container| bool_at(container, &["securityContext", "privileged"]) == Some(true));
    let detail = || format!("{} must not set securityContext.privileged=true", listed(&who));
    (!who.is_empty()).then(|| Finding { reason: "privileged", detail: detail() })
}

fn proc_mount_outside_user_namespaces(pod: Pod<'_>, version: u32) -> Option<Finding> {
    if version >= 35 && pod.has_user_namespace() { None } else { proc_mount(pod, version) }
}

fn proc_mount(pod: Pod<'_>, _: u32) -> Option<Finding> {
    fn mount(container: &Object) -> Option<&str> {
        str_at(container, &["securityContext", "procMount"])
    }
    let bad = |mount: &&str| *mount != "Default";
    let who = pod.who(|container| mount(container).as_ref().is_some_and(bad));
    let mounts = strings(&pod.containers().filter_map(mount).filter(bad).collect());
    let detail = || format!("{} must not set securityContext.procMount to {}", listed(&who), quoted(&mounts));
    (!who.is_empty()).then(|| Finding { reason: "procMount", detail: detail() })
}

fn selinux(pod: Pod<'_>, version: u32) -> Option<Finding> {
    const FIELD: [&str; 1] = ["seLinuxOptions"];
    let bad_type = move |options: &Value| match options.get("type").and_then(Value::as_str) {
        None | Some("" | "container_t" | "container_init_t" | "container_kvm_t") => false,
        Some("container_engine_t") => version < 31,
        Some(_) => true,
    };
    let sets = |options: &Value, field: &str| {
        options.get(field).and_then(Value::as_str).is_some_and(|value| !value.is_empty())
    };
    let bad = |options: &Value| bad_type(options) || sets(options, "user") || sets(options, "role");
    let who = pod.whoever(&FIELD, bad)?;
    let types = pod.values(&FIELD).filter(|options| bad_type(options));
    let types = strings(&types.filter_map(|options| options.get("type")?.as_str()).collect());
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(format!("{} {}", number(types.len(), "type", "types"), quoted(&types)));
    }
    for field in ["user", "role"] {
        if pod.values(&FIELD).any(|options| sets(options, field)) {
            what.push(format!("{field} may not be set"));
        }
    }
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", what.join("; "));
    Some(Finding { reason: "seLinuxOptions", detail })
}

const SECCOMP: [&str; 2] = ["seccompProfile", "type"];

fn is_bad_seccomp(value: &Value) -> bool {
    !matches!(value.as_str(), Some("RuntimeDefault" | "Localhost"))
}

/// Before 1.19 profiles were annotations.
fn seccomp(pod: Pod<'_>, version: u32) -> Option<Finding> {
    if version >= 19 {
        return bad_seccomp(pod);
    }
    let keys =
        pod.containers().map(|one| format!("container.seccomp.security.alpha.kubernetes.io/{}", name(one)));
    let keys: BTreeSet<String> =
        keys.chain(["seccomp.security.alpha.kubernetes.io/pod".to_owned()]).collect();
    let bad = pod.annotations().filter(|(key, value)| {
        let allowed =
            matches!(*value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
        keys.contains(*key) && !allowed
    });
    let bad: Vec<String> = bad.map(|(key, value)| format!("{key}={value:?}")).collect();
    let detail =
        || format!("forbidden {} {}", number(bad.len(), "annotation", "annotations"), bad.join(", "));
    (!bad.is_empty()).then(|| Finding { reason: "seccompProfile", detail: detail() })
}

fn bad_seccomp(pod: Pod<'_>) -> Option<Finding> {
    let who = pod.whoever(&SECCOMP, is_bad_seccomp)?;
    let bad = pod.values(&SECCOMP).filter(|value| is_bad_seccomp(value)).filter_map(Value::as_str);
    let bad = quoted(&strings(&bad.collect()));
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {bad}");
    Some(Finding { reason: "seccompProfile", detail })
}

fn required_seccomp(pod: Pod<'_>, version: u32) -> Option<Finding> {
    if version >= 25 && pod.is_windows() {
        return None;
    }
    let path = ["securityContext", "seccompProfile", "type"];
    bad_seccomp(pod).or_else(|| {
        let who = if at(pod.spec, &path).is_some() {
            vec![]
        } else {
            pod.who(|container| at(container, &path).is_none())
        };
        let detail = || {
            format!(
                "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
                listed(&who)
            )
        };
        (!who.is_empty()).then(|| Finding { reason: "seccompProfile", detail: detail() })
    })
}

/// What a pod may set of the kernel's own settings, and since which version.
const SAFE_SYSCTLS: [(&str, u32); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

fn sysctls(pod: Pod<'_>, version: u32) -> Option<Finding> {
    let set =
        list_at(pod.spec, &["securityContext", "sysctls"]).iter().filter_map(Value::as_object).map(name);
    let is_safe = |name: &str| SAFE_SYSCTLS.iter().any(|(safe, since)| *safe == name && version >= *since);
    let bad: Vec<&str> = set.filter(|name| !is_safe(name)).collect();
    (!bad.is_empty()).then(|| Finding { reason: "forbidden sysctls", detail: bad.join(", ") })
}

fn host_process(pod: Pod<'_>, _: u32) -> Option<Finding> {
    let who = pod.whoever(&["windowsOptions", "hostProcess"], |value| *value == Value::Bool(true))?;
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    Some(Finding { reason: "hostProcess", detail })
}

fn privilege_escalation(pod: Pod<'_>, version: u32) -> Option<Finding> {
    if version >= 25 && pod.is_windows() {
        return None;
    }
    let path = ["securityContext", "allowPrivilegeEscalation"];
    let who = pod.who(|container| bool_at(container, &path) != Some(false));
    let detail = || format!("{} must set securityContext.allowPrivilegeEscalation=false", listed(&who));
    (!who.is_empty()).then(|| Finding { reason: "allowPrivilegeEscalation != false", detail: detail() })
}

fn all_capabilities(pod: Pod<'_>, version: u32) -> Option<Finding> {
    if version >= 25 && pod.is_windows() {
        return None;
    }
    let keeps = pod.who(|container| {
        let dropped = list_at(container, &["securityContext", "capabilities", "drop"]);
        !dropped.iter().any(|one| one.as_str() == Some("ALL"))
    });
    let mut details = Vec::new();
    if !keeps.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", listed(&keeps)));
    }
    details.extend(too_many_capabilities(pod, &["NET_BIND_SERVICE"]));
    (!details.is_empty()).then(|| Finding { reason: "unrestricted capabilities", detail: details.join("; ") })
}

fn volume_types(pod: Pod<'_>, _: u32) -> Option<Finding> {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    const OTHERS: [&str; 21] = [
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "glusterfs",
        "hostPath",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    ];
    let has = |volume: &Object, kind: &str| volume.get(kind).is_some_and(|source| !source.is_null());
    let bad = volumes(pod).filter(|volume| !ALLOWED.iter().any(|kind| has(volume, kind)));
    let bad: Vec<&Object> = bad.collect();
    let kind = |volume: &&Object| OTHERS.into_iter().find(|kind| has(volume, kind)).unwrap_or("unknown");
    let kinds = strings(&bad.iter().map(kind).collect());
    let names: Vec<&str> = bad.iter().map(|volume| name(volume)).collect();
    let detail = || {
        let (volumes, uses) = (number(names.len(), "volume", "volumes"), number(names.len(), "uses", "use"));
        let called = number(kinds.len(), "restricted volume type", "restricted volume types");
        format!("{volumes} {} {uses} {called} {}", quoted(&names), quoted(&kinds))
    };
    (!names.is_empty()).then(|| Finding { reason: "restricted volume types", detail: detail() })
}

fn non_root(pod: Pod<'_>, version: u32) -> Option<Finding> {
    const REASON: &str = "runAsNonRoot != true";
    if version >= 35 && pod.has_user_namespace() {
        return None;
    }
    if let Some(who) = pod.whoever(&["runAsNonRoot"], |value| *value == Value::Bool(false)) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Some(Finding { reason: REASON, detail });
    }
    let path = ["securityContext", "runAsNonRoot"];
    if bool_at(pod.spec, &path) == Some(true) {
        return None;
    }
    let who = pod.who(|container| bool_at(container, &path).is_none());
    let detail = || format!("pod or {} must set securityContext.runAsNonRoot=true", listed(&who));
    (!who.is_empty()).then(|| Finding { reason: REASON, detail: detail() })
}

fn root_user(pod: Pod<'_>, version: u32) -> Option<Finding> {
    if version >= 35 && pod.has_user_namespace() {
        return None;
    }
    let who = pod.whoever(&["runAsUser"], |value| value.as_i64() == Some(0))?;
    Some(Finding { reason: "runAsUser=0", detail: format!("{who} must not set runAsUser=0") })
}

/// Whether an update of a pod touches what the controls look at and updates can change.
pub(super) fn touches(old: &Object, new: &Object) -> bool {
    fn looked_at<'a>(pod: &'a Object, list: &str) -> Vec<[Option<&'a Value>; 3]> {
        let containers = list_at(pod, &["spec", list]).iter();
        containers.map(|one| ["name", "image", "securityContext"].map(|field| one.get(field))).collect()
    }
    let context = ["spec", "securityContext"];
    LISTS.iter().any(|list| looked_at(old, list) != looked_at(new, list))
        || at(old, &context) != at(new, &context)
}
