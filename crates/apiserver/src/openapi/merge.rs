//! How the lists and maps of the built-in types are owned and merged: one table.
//!
//! Serves server-side apply, managed fields and strategic merge patches through the compiled schemas, and
//! clients through the `x-kubernetes-…` extensions of the OpenAPI documents. A list of objects that is not in
//! the table fails a test.

use serde_json::{Value, json};
use windlass_machinery::schema::{Key, Merge, Ownership, Strategic, reference};

/// What holds for one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Owned and replaced as a whole.
    Atomic,
    /// Owned as a whole, but patches merge its entries by this field.
    AtomicBy(&'static str),
    /// Owned by field, although its type is otherwise atomic.
    Granular,
    /// A set; patches replace it.
    Set,
    /// A set, also for patches.
    MergeSet,
    /// Entries told by these fields; patches replace the list.
    Keys(&'static [&'static str]),
    /// Entries told by these fields; patches merge by the first of them.
    By(&'static [&'static str]),
    /// As `By`, and patches may name the fields to retain.
    RetainBy(&'static [&'static str]),
    /// A map of which patches may name the fields to retain.
    Retain,
}

use Rule::{Atomic, AtomicBy, By, Granular, Keys, MergeSet, Retain, RetainBy, Set};

const NAME: Rule = By(&["name"]);
const TYPE: Rule = By(&["type"]);

/// Any JSON: what it holds is nobody's business but its owner's.
const RAW: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// Types that have one owner wherever they are, by the last three parts of their names.
const ATOMIC: &[&str] = &[
    "admissionregistration.v1.MatchResources",
    "admissionregistration.v1.NamedRuleWithOperations",
    "admissionregistration.v1.ParamKind",
    "admissionregistration.v1.ParamRef",
    "admissionregistration.v1.Variable",
    "autoscaling.v1.CrossVersionObjectReference",
    "core.v1.ConfigMapKeySelector",
    "core.v1.EndpointAddress",
    "core.v1.EndpointPort",
    "core.v1.EvictionResponder",
    "core.v1.FileKeySelector",
    "core.v1.LocalObjectReference",
    "core.v1.NodeSelector",
    "core.v1.NodeSelectorTerm",
    "core.v1.ObjectFieldSelector",
    "core.v1.ObjectReference",
    "core.v1.ResourceFieldSelector",
    "core.v1.ScopeSelector",
    "core.v1.SecretKeySelector",
    "core.v1.SecretReference",
    "core.v1.TopologySelectorTerm",
    "core.v1.TypedLocalObjectReference",
    "discovery.v1.EndpointPort",
    "meta.v1.FieldsV1",
    "meta.v1.LabelSelector",
    "meta.v1.OwnerReference",
    "networking.v1.ServiceBackendPort",
    "rbac.v1.RoleRef",
    "rbac.v1.Subject",
];

/// The fields with a rule of their own, by the last three parts of the names of their types. Lists of scalars
/// that are not here are owned and replaced as a whole.
#[rustfmt::skip]
const RULES: &[(&str, &[(&str, Rule)])] = &[
    ("admissionregistration.v1.MatchResources", &[("excludeResourceRules", Atomic), ("resourceRules", Atomic)]),
    ("admissionregistration.v1.MutatingAdmissionPolicySpec", &[("matchConditions", NAME), ("mutations", Atomic), ("variables", Atomic)]),
    ("admissionregistration.v1.MutatingWebhook", &[("matchConditions", NAME), ("rules", Atomic)]),
    ("admissionregistration.v1.MutatingWebhookConfiguration", &[("webhooks", NAME)]),
    ("admissionregistration.v1.TypeChecking", &[("expressionWarnings", Atomic)]),
    ("admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec", &[("validationActions", Set)]),
    ("admissionregistration.v1.ValidatingAdmissionPolicySpec", &[("auditAnnotations", Atomic), ("matchConditions", NAME), ("validations", Atomic), ("variables", NAME)]),
    ("admissionregistration.v1.ValidatingAdmissionPolicyStatus", &[("conditions", Keys(&["type"]))]),
    ("admissionregistration.v1.ValidatingWebhook", &[("matchConditions", NAME), ("rules", Atomic)]),
    ("admissionregistration.v1.ValidatingWebhookConfiguration", &[("webhooks", NAME)]),
    ("apiextensions.v1.CustomResourceDefinitionSpec", &[("versions", Atomic)]),
    ("apiextensions.v1.CustomResourceDefinitionStatus", &[("conditions", Keys(&["type"]))]),
    ("apiextensions.v1.CustomResourceDefinitionVersion", &[("additionalPrinterColumns", Atomic), ("selectableFields", Atomic)]),
    ("apiextensions.v1.JSONSchemaProps", &[("allOf", Atomic), ("anyOf", Atomic), ("enum", Atomic), ("oneOf", Atomic), ("x-kubernetes-validations", By(&["rule"]))]),
    ("apiextensions.v1beta1.CustomResourceDefinitionSpec", &[("additionalPrinterColumns", Atomic), ("versions", Atomic)]),
    ("apiextensions.v1beta1.CustomResourceDefinitionVersion", &[("additionalPrinterColumns", Atomic), ("selectableFields", Atomic)]),
    ("apiregistration.v1.APIServiceStatus", &[("conditions", TYPE)]),
    ("apps.v1.DaemonSetStatus", &[("conditions", TYPE)]),
    ("apps.v1.DeploymentSpec", &[("strategy", Retain)]),
    ("apps.v1.DeploymentStatus", &[("conditions", TYPE)]),
    ("apps.v1.ReplicaSetStatus", &[("conditions", TYPE)]),
    ("apps.v1.StatefulSetSpec", &[("volumeClaimTemplates", Atomic)]),
    ("apps.v1.StatefulSetStatus", &[("conditions", TYPE)]),
    ("authorization.v1.FieldSelectorAttributes", &[("requirements", Atomic)]),
    ("authorization.v1.LabelSelectorAttributes", &[("requirements", Atomic)]),
    ("authorization.v1.SubjectRulesReviewStatus", &[("nonResourceRules", Atomic), ("resourceRules", Atomic)]),
    ("autoscaling.v2.HPAScalingRules", &[("policies", Atomic)]),
    ("autoscaling.v2.HorizontalPodAutoscalerSpec", &[("metrics", Atomic)]),
    ("autoscaling.v2.HorizontalPodAutoscalerStatus", &[("conditions", TYPE), ("currentMetrics", Atomic)]),
    ("batch.v1.CronJobStatus", &[("active", Atomic)]),
    ("batch.v1.JobSchedulingConfiguration", &[("resourceClaims", NAME)]),
    ("batch.v1.JobStatus", &[("conditions", AtomicBy("type"))]),
    ("batch.v1.PodFailurePolicy", &[("rules", Atomic)]),
    ("batch.v1.PodFailurePolicyOnExitCodesRequirement", &[("values", Set)]),
    ("batch.v1.PodFailurePolicyRule", &[("onPodConditions", Atomic)]),
    ("batch.v1.SuccessPolicy", &[("rules", Atomic)]),
    ("batch.v1.UncountedTerminatedPods", &[("failed", Set), ("succeeded", Set)]),
    ("certificates.v1.CertificateSigningRequestStatus", &[("conditions", Keys(&["type"]))]),
    ("certificates.v1.PodCertificateRequestStatus", &[("conditions", TYPE)]),
    ("core.v1.ComponentStatus", &[("conditions", TYPE)]),
    ("core.v1.ConfigMapProjection", &[("items", Atomic)]),
    ("core.v1.ConfigMapVolumeSource", &[("items", Atomic)]),
    ("core.v1.Container", CONTAINER),
    ("core.v1.ContainerRestartRuleOnExitCodes", &[("values", Set)]),
    ("core.v1.ContainerStatus", &[("allocatedResourcesStatus", NAME), ("volumeMounts", By(&["mountPath"]))]),
    ("core.v1.DownwardAPIProjection", &[("items", Atomic)]),
    ("core.v1.DownwardAPIVolumeSource", &[("items", Atomic)]),
    ("core.v1.EndpointSubset", &[("addresses", Atomic), ("notReadyAddresses", Atomic), ("ports", Atomic)]),
    ("core.v1.Endpoints", &[("subsets", Atomic)]),
    ("core.v1.EphemeralContainer", CONTAINER),
    ("core.v1.HTTPGetAction", &[("httpHeaders", Atomic)]),
    ("core.v1.LimitRangeSpec", &[("limits", Atomic)]),
    ("core.v1.LoadBalancerIngress", &[("ports", Atomic)]),
    ("core.v1.LoadBalancerStatus", &[("ingress", Atomic)]),
    ("core.v1.NamespaceStatus", &[("conditions", TYPE)]),
    ("core.v1.NodeAffinity", &[("preferredDuringSchedulingIgnoredDuringExecution", Atomic)]),
    ("core.v1.NodeAllocatableResourceClaimStatus", &[("containers", Set), ("mapping", NAME), ("overhead", NAME)]),
    ("core.v1.NodePodPreemptionPolicy", &[("disableResizePreemption", Set)]),
    ("core.v1.NodeSelector", &[("nodeSelectorTerms", Atomic)]),
    ("core.v1.NodeSelectorTerm", &[("matchExpressions", Atomic), ("matchFields", Atomic)]),
    ("core.v1.NodeSpec", &[("podCIDRs", MergeSet), ("taints", Atomic)]),
    ("core.v1.NodeStatus", &[("addresses", TYPE), ("conditions", TYPE), ("images", Atomic), ("runtimeHandlers", Atomic), ("volumesAttached", Atomic)]),
    ("core.v1.PersistentVolumeClaimStatus", &[("conditions", TYPE)]),
    ("core.v1.PersistentVolumeSpec", &[("claimRef", Granular)]),
    ("core.v1.PodAffinity", AFFINITY),
    ("core.v1.PodAntiAffinity", AFFINITY),
    ("core.v1.PodDNSConfig", &[("options", Atomic)]),
    ("core.v1.PodExtendedResourceClaimStatus", &[("requestMappings", Atomic)]),
    ("core.v1.PodSecurityContext", &[("sysctls", Atomic)]),
    ("core.v1.PodSpec", &[
        ("containers", NAME), ("ephemeralContainers", NAME), ("evictionResponders", NAME), ("hostAliases", By(&["ip"])),
        ("imagePullSecrets", NAME), ("initContainers", NAME), ("nodeSelector", Atomic), ("readinessGates", Atomic),
        ("resourceClaims", RetainBy(&["name"])), ("schedulingGates", NAME), ("tolerations", Atomic),
        ("topologySpreadConstraints", By(&["topologyKey", "whenUnsatisfiable"])), ("volumes", RetainBy(&["name"])),
    ]),
    ("core.v1.PodStatus", &[
        ("conditions", TYPE), ("containerStatuses", Atomic), ("ephemeralContainerStatuses", Atomic), ("hostIPs", AtomicBy("ip")),
        ("initContainerStatuses", Atomic), ("nodeAllocatableResourceClaimStatuses", By(&["resourceClaimName"])),
        ("podIPs", By(&["ip"])), ("resourceClaimStatuses", RetainBy(&["name"])), ("volumeHealth", Keys(&["name"])),
    ]),
    ("core.v1.PodVolumeHealth", &[("healthConditions", By(&["status", "reason"]))]),
    ("core.v1.ProjectedVolumeSource", &[("sources", Atomic)]),
    ("core.v1.ReplicationControllerSpec", &[("selector", Atomic)]),
    ("core.v1.ReplicationControllerStatus", &[("conditions", TYPE)]),
    ("core.v1.ResourceRequirements", &[("claims", Keys(&["name"]))]),
    ("core.v1.ResourceStatus", &[("resources", Keys(&["resourceID"]))]),
    ("core.v1.ScopeSelector", &[("matchExpressions", Atomic)]),
    ("core.v1.SecretProjection", &[("items", Atomic)]),
    ("core.v1.SecretVolumeSource", &[("items", Atomic)]),
    ("core.v1.ServiceAccount", &[("imagePullSecrets", Atomic), ("secrets", NAME)]),
    ("core.v1.ServiceSpec", &[("ports", By(&["port", "protocol"])), ("selector", Atomic)]),
    ("core.v1.ServiceStatus", &[("conditions", TYPE)]),
    ("core.v1.TopologySelectorTerm", &[("matchLabelExpressions", Atomic)]),
    ("core.v1.VolumeHealthStatus", &[("healthConditions", By(&["status", "reason"]))]),
    ("core.v1.VolumeMount", &[("bindMountOptions", Set)]),
    ("discovery.v1.Endpoint", &[("addresses", Set)]),
    ("discovery.v1.EndpointHints", &[("forNodes", Atomic), ("forZones", Atomic)]),
    ("discovery.v1.EndpointSlice", &[("endpoints", Atomic), ("ports", Atomic)]),
    ("flowcontrol.v1.FlowSchemaSpec", &[("rules", Atomic)]),
    ("flowcontrol.v1.FlowSchemaStatus", &[("conditions", TYPE)]),
    ("flowcontrol.v1.NonResourcePolicyRule", &[("nonResourceURLs", Set), ("verbs", Set)]),
    ("flowcontrol.v1.PolicyRulesWithSubjects", &[("nonResourceRules", Atomic), ("resourceRules", Atomic), ("subjects", Atomic)]),
    ("flowcontrol.v1.PriorityLevelConfigurationStatus", &[("conditions", TYPE)]),
    ("flowcontrol.v1.ResourcePolicyRule", &[("apiGroups", Set), ("namespaces", Set), ("resources", Set), ("verbs", Set)]),
    ("meta.v1.LabelSelector", &[("matchExpressions", Atomic)]),
    ("meta.v1.ObjectMeta", &[("finalizers", MergeSet), ("managedFields", Atomic), ("ownerReferences", By(&["uid"]))]),
    ("networking.v1.HTTPIngressRuleValue", &[("paths", Atomic)]),
    ("networking.v1.IngressLoadBalancerIngress", &[("ports", Atomic)]),
    ("networking.v1.IngressLoadBalancerStatus", &[("ingress", Atomic)]),
    ("networking.v1.IngressSpec", &[("rules", Atomic), ("tls", Atomic)]),
    ("networking.v1.NetworkPolicyEgressRule", &[("ports", Atomic), ("to", Atomic)]),
    ("networking.v1.NetworkPolicyIngressRule", &[("from", Atomic), ("ports", Atomic)]),
    ("networking.v1.NetworkPolicySpec", &[("egress", Atomic), ("ingress", Atomic)]),
    ("networking.v1.ServiceCIDRStatus", &[("conditions", TYPE)]),
    ("node.v1.Scheduling", &[("nodeSelector", Atomic), ("tolerations", Atomic)]),
    ("policy.v1.PodDisruptionBudgetStatus", &[("conditions", TYPE)]),
    ("rbac.v1.AggregationRule", &[("clusterRoleSelectors", Atomic)]),
    ("rbac.v1.ClusterRole", &[("rules", Atomic)]),
    ("rbac.v1.ClusterRoleBinding", &[("subjects", Atomic)]),
    ("rbac.v1.Role", &[("rules", Atomic)]),
    ("rbac.v1.RoleBinding", &[("subjects", Atomic)]),
    ("resource.v1.AllocatedDeviceStatus", &[("conditions", Keys(&["type"]))]),
    ("resource.v1.CapacityRequestPolicy", &[("validValues", Atomic)]),
    ("resource.v1.Device", &[("consumesCounters", Atomic), ("taints", Atomic)]),
    ("resource.v1.DeviceAllocationResult", &[("config", Atomic), ("results", Atomic)]),
    ("resource.v1.DeviceClaim", &[("config", Atomic), ("constraints", Atomic), ("requests", Atomic)]),
    ("resource.v1.DeviceClassSpec", &[("config", Atomic), ("selectors", Atomic)]),
    ("resource.v1.DeviceRequest", &[("firstAvailable", Atomic)]),
    ("resource.v1.DeviceRequestAllocationResult", &[("skipNodeOperations", Set), ("tolerations", Atomic)]),
    ("resource.v1.DeviceSubRequest", DEVICE_REQUEST),
    ("resource.v1.DeviceTaintRuleStatus", &[("conditions", TYPE)]),
    ("resource.v1.ExactDeviceRequest", DEVICE_REQUEST),
    ("resource.v1.ResourceClaimStatus", &[("devices", Keys(&["driver", "device", "pool", "shareID"])), ("reservedFor", By(&["uid"]))]),
    ("resource.v1.ResourceSliceSpec", &[("devices", Atomic), ("sharedCounters", Atomic), ("skipNodeOperations", Set)]),
    ("scheduling.v1alpha3.WorkloadPodGroupSchedulingConstraints", &[("topology", Atomic)]),
    ("storage.v1.CSIDriverSpec", &[("tokenRequests", Atomic), ("volumeLifecycleModes", Set)]),
    ("storage.v1.CSINodeSpec", &[("drivers", NAME)]),
    ("storage.v1.CSINodeStatus", &[("storageHealth", NAME)]),
    ("storage.v1.StorageClass", &[("allowedTopologies", Atomic)]),
    ("storage.v1.StorageHealth", &[("healthConditions", Atomic)]),
    ("storagemigration.v1.StorageVersionMigrationStatus", &[("conditions", TYPE)]),
];

const CONTAINER: &[(&str, Rule)] = &[
    ("env", NAME),
    ("envFrom", Atomic),
    ("ports", By(&["containerPort", "protocol"])),
    ("resizePolicy", Atomic),
    ("restartPolicyRules", Atomic),
    ("volumeDevices", By(&["devicePath"])),
    ("volumeMounts", By(&["mountPath"])),
];

const AFFINITY: &[(&str, Rule)] = &[
    ("preferredDuringSchedulingIgnoredDuringExecution", Atomic),
    ("requiredDuringSchedulingIgnoredDuringExecution", Atomic),
];

const DEVICE_REQUEST: &[(&str, Rule)] =
    &[("derivedAttributes", Atomic), ("selectors", Atomic), ("tolerations", Atomic)];

/// Fields by which entries of lists are told and that may be left out: what they are then.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("core.v1.ContainerPort", "protocol", "TCP"),
    ("core.v1.LocalObjectReference", "name", ""),
    ("core.v1.ServicePort", "protocol", "TCP"),
];

/// The name as it is in the tables; `None` for types that are not built in.
fn short(name: &str) -> Option<&str> {
    let (dot, _) = name.strip_prefix("io.k8s.").and(name.rmatch_indices('.').nth(2))?;
    Some(&name[dot + 1..])
}

/// Whether values of this type have one owner each.
pub(super) fn is_atomic(type_name: &str) -> bool {
    short(type_name).is_some_and(|name| ATOMIC.contains(&name))
}

/// The rule for a field, if the table has one.
pub(super) fn rule(type_name: &str, field: &str) -> Option<Rule> {
    let name = short(type_name)?;
    let (_, fields) = RULES.iter().find(|(type_name, _)| *type_name == name)?;
    fields.iter().find(|(name, _)| *name == field).map(|(_, rule)| *rule)
}

/// What a field is that is left out, where clients must know it because entries of lists are told by it.
pub(super) fn default(type_name: &str, field: &str) -> Option<&'static str> {
    let name = short(type_name)?;
    let entry = DEFAULTS.iter().find(|(type_name, known, _)| *type_name == name && *known == field);
    entry.map(|(_, _, default)| *default)
}

/// Every field the table has a rule for.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    RULES.iter().flat_map(|(name, fields)| fields.iter().map(|(field, _)| (*name, *field)))
}

/// How the value in a field is merged: by the table, else by the type it refers to, else by the extensions in
/// its schema, which is what custom resources have.
pub(super) fn of(type_name: &str, field: &str, schema: &Value) -> Merge {
    let items = schema.get("items");
    let key = |name: &str| Key {
        name: name.into(),
        default: match items.and_then(reference) {
            Some(type_name) => default(&type_name, name).map(Value::from),
            None => items.and_then(|items| items.get("properties")?.get(name)?.get("default")).cloned(),
        },
    };
    if let Some(rule) = rule(type_name, field) {
        return rule.merge(key);
    }
    if reference(schema).is_some_and(|name| is_atomic(&name) || name == RAW) {
        return Atomic.merge(key);
    }
    let text = |extension: &str| schema.get(extension).and_then(Value::as_str);
    let ownership = match (text("x-kubernetes-list-type"), text("x-kubernetes-map-type")) {
        (Some("atomic"), _) | (_, Some("atomic")) => Ownership::Atomic,
        (Some("set"), _) => Ownership::Set,
        (Some("map"), _) => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            Ownership::Keyed(keys.into_iter().flatten().filter_map(Value::as_str).map(key).collect())
        }
        _ => return Merge::PLAIN,
    };
    Merge { ownership, strategic: Strategic::Replace }
}

impl Rule {
    fn merge(self, key: impl Fn(&str) -> Key) -> Merge {
        let keyed = |keys: &[&str]| Ownership::Keyed(keys.iter().map(|name| key(name)).collect());
        let (ownership, strategic) = match self {
            Atomic => (Ownership::Atomic, Strategic::Replace),
            AtomicBy(key) => (Ownership::Atomic, Strategic::MergeBy(key)),
            Granular => (Ownership::Granular, Strategic::Replace),
            Set => (Ownership::Set, Strategic::Replace),
            MergeSet => (Ownership::Set, Strategic::MergeSet),
            Keys(keys) => (keyed(keys), Strategic::Replace),
            By(keys) => (keyed(keys), keys.first().map_or(Strategic::Replace, |key| Strategic::MergeBy(key))),
            RetainBy(keys) => (keyed(keys), Strategic::RetainKeys(keys.first().copied())),
            Retain => (Ownership::Plain, Strategic::RetainKeys(None)),
        };
        Merge { ownership, strategic }
    }

    /// What the documents say about it.
    pub(super) fn extensions(self, list: bool) -> Vec<(&'static str, Value)> {
        let owned =
            |kind: &str| (if list { "x-kubernetes-list-type" } else { "x-kubernetes-map-type" }, json!(kind));
        let keys = |keys: &[&str]| ("x-kubernetes-list-map-keys", json!(keys));
        let strategy = |strategy: &str| ("x-kubernetes-patch-strategy", json!(strategy));
        let key = |keys: &[&str]| ("x-kubernetes-patch-merge-key", json!(keys.first()));
        match self {
            Atomic => vec![owned("atomic")],
            AtomicBy(by) => vec![owned("atomic"), strategy("merge"), key(&[by])],
            Granular => vec![owned("granular")],
            Set => vec![owned("set")],
            MergeSet => vec![owned("set"), strategy("merge")],
            Keys(by) => vec![owned("map"), keys(by)],
            By(by) => vec![owned("map"), keys(by), strategy("merge"), key(by)],
            RetainBy(by) => vec![owned("map"), keys(by), strategy("merge,retainKeys"), key(by)],
            Retain => vec![strategy("retainKeys")],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_tables_are_sorted_and_name_nothing_twice() {
        assert!(ATOMIC.is_sorted_by(|one, other| one < other));
        let names: Vec<&str> = RULES.iter().map(|(name, _)| *name).collect();
        let unsorted: Vec<_> = names.windows(2).filter(|pair| pair[0] >= pair[1]).collect();
        assert!(unsorted.is_empty(), "{unsorted:?}");
        for (name, fields) in RULES {
            assert!(fields.is_sorted_by(|one, other| one.0 < other.0), "{name}");
        }
    }

    #[test]
    fn only_built_in_types_are_looked_up() {
        assert_eq!(rule("io.k8s.api.core.v1.PodSpec", "containers"), Some(NAME));
        assert_eq!(rule("com.example.core.v1.PodSpec", "containers"), None);
        assert!(is_atomic("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"));
    }

    #[test]
    fn custom_resources_say_it_themselves() {
        let schema = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]});
        let keys: Arc<[Key]> = Arc::new(["a".into(), "b".into()]);
        assert_eq!(of("", "list", &schema).ownership, Ownership::Keyed(keys));
        let mut defaulted = schema;
        defaulted["items"] =
            json!({"type": "object", "properties": {"b": {"type": "string", "default": "x"}}});
        let keys: Arc<[Key]> = Arc::new(["a".into(), Key { name: "b".into(), default: Some(json!("x")) }]);
        assert_eq!(of("", "list", &defaulted).ownership, Ownership::Keyed(keys));
        assert_eq!(of("", "list", &json!({"type": "array"})), Merge::PLAIN);
    }
}
