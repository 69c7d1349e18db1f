//! The rows of the built-in resources: the stable API groups of Kubernetes 1.37.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope, Resource as Typed,
    api::{
        admissionregistration::v1 as admissionregistration,
        apps::v1 as apps,
        authentication::v1 as authentication,
        authorization::v1 as authorization,
        autoscaling::{v1 as autoscaling_v1, v2 as autoscaling_v2},
        batch::v1 as batch,
        certificates::v1 as certificates,
        coordination::v1 as coordination,
        core::v1 as core,
        discovery::v1 as discovery,
        events::v1 as events,
        flowcontrol::v1 as flowcontrol,
        networking::v1 as networking,
        node::v1 as node,
        policy::v1 as policy,
        rbac::v1 as rbac,
        resource::v1 as resource,
        scheduling::v1 as scheduling,
        storage::v1 as storage,
        storagemigration::v1 as storagemigration,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration,
};
use schemars::JsonSchema;

use super::{
    Action, Conversion, Convert, Part, Resource, Review, Rules, Scale, Source, Strategy, Version, kinds,
};
use crate::{columns, crd::v1beta1};

/// All built-in rows.
pub fn rows() -> Vec<Arc<Resource>> {
    let rows = [
        core_rows(),
        workload_rows(),
        network_rows(),
        storage_rows(),
        access_rows(),
        cluster_rows(),
        review_rows(),
    ];
    rows.into_iter().flatten().map(Arc::new).collect()
}

fn core_rows() -> Vec<Resource> {
    vec![
        of::<core::Namespace>()
            .rules(kinds::namespace::STRATEGY)
            .short(&["ns"])
            .status()
            .deleted_one_by_one()
            .with_part(FINALIZE)
            .fields(&["status.phase"]),
        of::<core::Node>()
            .rules(kinds::node::STRATEGY)
            .short(&["no"])
            .at("minions/")
            .status()
            .action("proxy", Action::Kubelet)
            .fields(&["spec.unschedulable"]),
        of::<core::Pod>()
            .rules(kinds::pod::STRATEGY)
            .short(&["po"])
            .all()
            .status()
            .with_part(EPHEMERAL_CONTAINERS)
            .with_part(RESIZE)
            .action("binding", Action::Bind)
            .action("eviction", Action::Evict)
            .action("log", Action::Kubelet)
            .action("exec", Action::Kubelet)
            .action("attach", Action::Kubelet)
            .action("portforward", Action::Kubelet)
            .action("proxy", Action::Kubelet)
            .fields(&[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ]),
        of::<core::PodTemplate>().rules(kinds::template::STRATEGY),
        of::<core::ConfigMap>().rules(kinds::config_map::STRATEGY).short(&["cm"]),
        of::<core::Secret>().rules(kinds::secret::STRATEGY).fields(&["type"]),
        of::<core::Service>()
            .rules(kinds::service::STRATEGY)
            .short(&["svc"])
            .all()
            .at("services/specs/")
            .status()
            .action("proxy", Action::Kubelet)
            .fields(&["spec.clusterIP", "spec.type"]),
        of::<core::Endpoints>().rules(kinds::endpoints::ENDPOINTS).short(&["ep"]).at("services/endpoints/"),
        of::<core::Event>()
            .rules(kinds::event::CORE)
            .converted(|event, version, _| kinds::event::convert(event, version))
            .short(&["ev"])
            .fields(&[
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ]),
        of::<core::LimitRange>().rules(kinds::quota::RANGE).short(&["limits"]),
        of::<core::ResourceQuota>().rules(kinds::quota::QUOTA).short(&["quota"]).status(),
        of::<core::ServiceAccount>()
            .rules(kinds::service_account::STRATEGY)
            .short(&["sa"])
            .action("token", Action::Token),
        of::<core::PersistentVolume>().rules(kinds::volume::STRATEGY).short(&["pv"]).status(),
        of::<core::PersistentVolumeClaim>().rules(kinds::claim::STRATEGY).short(&["pvc"]).status(),
        of::<core::ComponentStatus>().short(&["cs"]).computed("v1 ComponentStatus is deprecated in v1.19+"),
    ]
}

fn workload_rows() -> Vec<Resource> {
    vec![
        of::<core::ReplicationController>()
            .rules(kinds::replica_set::CONTROLLER)
            .short(&["rc"])
            .all()
            .at("controllers/")
            .status()
            .scale(SPEC_SELECTOR)
            .fields(&["status.replicas"]),
        of::<apps::ControllerRevision>().rules(kinds::revision::STRATEGY),
        of::<apps::DaemonSet>().rules(kinds::daemon_set::STRATEGY).short(&["ds"]).all().status(),
        of::<apps::Deployment>()
            .rules(kinds::deployment::STRATEGY)
            .short(&["deploy"])
            .all()
            .status()
            .scale(SPEC_SELECTOR),
        of::<apps::ReplicaSet>()
            .rules(kinds::replica_set::STRATEGY)
            .short(&["rs"])
            .all()
            .status()
            .scale(SPEC_SELECTOR)
            .fields(&["status.replicas"]),
        of::<apps::StatefulSet>()
            .rules(kinds::stateful_set::STRATEGY)
            .short(&["sts"])
            .all()
            .status()
            .scale(SPEC_SELECTOR),
        of::<batch::Job>().rules(kinds::job::STRATEGY).all().status().fields(&["status.successful"]),
        of::<batch::CronJob>().rules(kinds::cron_job::STRATEGY).short(&["cj"]).all().status(),
        of::<autoscaling_v2::HorizontalPodAutoscaler>()
            .rules(kinds::horizontal_pod_autoscaler::STRATEGY)
            .converted(|scaler, version, _| kinds::horizontal_pod_autoscaler::convert(scaler, version))
            .short(&["hpa"])
            .all()
            .also::<autoscaling_v1::HorizontalPodAutoscaler>()
            .status(),
        of::<policy::PodDisruptionBudget>()
            .rules(kinds::pod_disruption_budget::STRATEGY)
            .short(&["pdb"])
            .status(),
    ]
}

fn network_rows() -> Vec<Resource> {
    vec![
        of::<networking::Ingress>().rules(kinds::ingress::INGRESS).short(&["ing"]).at("ingress/").status(),
        of::<networking::IngressClass>().rules(kinds::ingress::CLASS),
        of::<networking::NetworkPolicy>().rules(kinds::network_policy::STRATEGY).short(&["netpol"]),
        of::<networking::IPAddress>()
            .rules(kinds::address::IP_ADDRESS)
            .short(&["ip"])
            .fields(&["spec.parentRef"]),
        of::<networking::ServiceCIDR>().rules(kinds::address::SERVICE_CIDR).status(),
        of::<discovery::EndpointSlice>().rules(kinds::endpoints::SLICE),
    ]
}

fn storage_rows() -> Vec<Resource> {
    vec![
        of::<storage::StorageClass>().rules(kinds::storage::CLASS).short(&["sc"]),
        of::<storage::CSIDriver>().rules(kinds::storage::DRIVER),
        of::<storage::CSINode>().rules(kinds::storage::NODE),
        of::<storage::CSIStorageCapacity>().rules(kinds::storage::CAPACITY),
        of::<storage::VolumeAttachment>().rules(kinds::storage::ATTACHMENT).status(),
        of::<storage::VolumeAttributesClass>().rules(kinds::storage::ATTRIBUTES_CLASS).short(&["vac"]),
        of::<resource::DeviceClass>().rules(kinds::device::CLASS),
        of::<resource::ResourceClaim>().rules(kinds::device::CLAIM).status(),
        of::<resource::ResourceClaimTemplate>().rules(kinds::device::TEMPLATE),
        of::<resource::ResourceSlice>().rules(kinds::device::SLICE).fields(&["spec.driver", "spec.nodeName"]),
        of::<resource::DeviceTaintRule>().rules(kinds::device::TAINT_RULE).status(),
    ]
}

fn access_rows() -> Vec<Resource> {
    vec![
        of::<rbac::Role>().rules(kinds::rbac::ROLE),
        of::<rbac::RoleBinding>().rules(kinds::rbac::BINDING),
        of::<rbac::ClusterRole>().rules(kinds::rbac::CLUSTER_ROLE),
        of::<rbac::ClusterRoleBinding>().rules(kinds::rbac::CLUSTER_BINDING),
        of::<certificates::CertificateSigningRequest>()
            .rules(kinds::certificate::SIGNING_REQUEST)
            .short(&["csr"])
            .status()
            .with_part(APPROVAL)
            .fields(&["spec.signerName"]),
        of::<certificates::ClusterTrustBundle>()
            .rules(kinds::certificate::TRUST_BUNDLE)
            .fields(&["spec.signerName"]),
        of::<certificates::PodCertificateRequest>()
            .rules(kinds::certificate::POD_REQUEST)
            .status()
            .fields(&["spec.signerName", "spec.podName", "spec.nodeName"]),
    ]
}

fn cluster_rows() -> Vec<Resource> {
    vec![
        of::<coordination::Lease>().rules(kinds::lease::STRATEGY),
        of::<events::Event>()
            .rules(kinds::event::EVENTS)
            .converted(|event, version, _| kinds::event::convert(event, version))
            .short(&["ev"])
            .stored_as::<core::Event>()
            .fields(&[
                "regarding.kind",
                "regarding.namespace",
                "regarding.name",
                "regarding.uid",
                "regarding.apiVersion",
                "regarding.resourceVersion",
                "regarding.fieldPath",
                "reason",
                "reportingController",
                "type",
            ]),
        of::<scheduling::PriorityClass>().rules(kinds::class::PRIORITY).short(&["pc"]),
        of::<node::RuntimeClass>().rules(kinds::class::RUNTIME),
        of::<flowcontrol::FlowSchema>().rules(kinds::flow_control::SCHEMA).status(),
        of::<flowcontrol::PriorityLevelConfiguration>().rules(kinds::flow_control::LEVEL).status(),
        of::<admissionregistration::MutatingWebhookConfiguration>()
            .rules(kinds::webhook::MUTATING)
            .in_category("api-extensions"),
        of::<admissionregistration::ValidatingWebhookConfiguration>()
            .rules(kinds::webhook::VALIDATING)
            .in_category("api-extensions"),
        of::<admissionregistration::ValidatingAdmissionPolicy>()
            .rules(kinds::admission_policy::VALIDATING)
            .in_category("api-extensions")
            .status(),
        of::<admissionregistration::ValidatingAdmissionPolicyBinding>()
            .rules(kinds::admission_policy::VALIDATING_BINDING)
            .in_category("api-extensions"),
        of::<admissionregistration::MutatingAdmissionPolicy>()
            .rules(kinds::admission_policy::MUTATING)
            .in_category("api-extensions"),
        of::<admissionregistration::MutatingAdmissionPolicyBinding>()
            .rules(kinds::admission_policy::MUTATING_BINDING)
            .in_category("api-extensions"),
        of::<storagemigration::StorageVersionMigration>().rules(kinds::device::MIGRATION).status(),
        of::<apiextensions::CustomResourceDefinition>()
            .rules(kinds::extension::DEFINITION)
            .ruled_by(kinds::extension::DefinitionRules)
            .converted(kinds::extension::convert)
            .also::<v1beta1::CustomResourceDefinition>()
            .short(&["crd", "crds"])
            .in_category("api-extensions")
            .at("apiextensions.k8s.io/customresourcedefinitions/")
            .status(),
        of::<apiregistration::APIService>()
            .rules(kinds::extension::API_SERVICE)
            .in_category("api-extensions")
            .at("apiregistration.k8s.io/apiservices/")
            .status(),
    ]
}

fn review_rows() -> Vec<Resource> {
    vec![
        of::<core::Binding>().answers(Review::Bind),
        of::<authentication::TokenReview>().answers(Review::Token),
        of::<authentication::SelfSubjectReview>().answers(Review::SelfSubject),
        of::<authorization::SubjectAccessReview>().answers(Review::Access),
        of::<authorization::LocalSubjectAccessReview>().answers(Review::Access),
        of::<authorization::SelfSubjectAccessReview>().answers(Review::SelfAccess),
        of::<authorization::SelfSubjectRulesReview>().answers(Review::SelfRules),
    ]
}

const FINALIZE: Part =
    Part { name: "finalize", writes: &["spec.finalizers"], put_only: true, ..Part::STATUS };
const APPROVAL: Part = Part { name: "approval", writes: &["status.conditions"], ..Part::STATUS };
const EPHEMERAL_CONTAINERS: Part =
    Part { name: "ephemeralcontainers", writes: &["spec.ephemeralContainers"], ..Part::STATUS };
/// Everything else in the containers is kept by the strategy of pods.
const RESIZE: Part = Part {
    name: "resize",
    writes: &["spec.containers", "spec.initContainers", "spec.resources"],
    reserved: false,
    metadata: true,
    put_only: false,
};

const SPEC_SELECTOR: Scale = Scale {
    replicas: Cow::Borrowed("spec.replicas"),
    status_replicas: Cow::Borrowed("status.replicas"),
    selector: Cow::Borrowed("spec.selector"),
    optional: true,
};

/// Whether a scope is that of objects in namespaces.
trait Scope {
    const NAMESPACED: bool;
}

impl Scope for ClusterResourceScope {
    const NAMESPACED: bool = false;
}

impl Scope for NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

fn version<T: Typed + JsonSchema>() -> Version {
    let source = Source::Type(|generator| generator.subschema_for::<T>());
    Version::new(T::VERSION, T::schema_name().into_owned(), source)
}

/// A row with what the type itself says.
fn of<T: Typed<Scope: Scope> + JsonSchema>() -> Resource {
    Resource {
        group: T::GROUP.to_owned(),
        plural: T::URL_PATH_SEGMENT.to_owned(),
        singular: T::KIND.to_lowercase(),
        kind: T::KIND.to_owned(),
        list_kind: format!("{}List", T::KIND),
        short_names: vec![],
        categories: vec![],
        namespaced: <T::Scope as Scope>::NAMESPACED,
        versions: vec![version::<T>()],
        stored_as: T::API_VERSION.to_owned(),
        handled_as: T::API_VERSION.to_owned(),
        handled_in: None,
        deletes_collections: true,
        prefix: format!("{}/", T::URL_PATH_SEGMENT),
        parts: vec![],
        scale: None,
        actions: vec![],
        review: None,
        computed: false,
        columns: columns::of(T::GROUP, T::KIND),
        fields: vec![],
        strategy: Strategy::PLAIN,
        rules: Arc::new(Strategy::PLAIN),
        conversion: Conversion::Rename,
    }
}

impl Resource {
    fn short(mut self, names: &[&str]) -> Self {
        self.short_names = names.iter().map(ToString::to_string).collect();
        self
    }

    fn all(self) -> Self {
        self.in_category("all")
    }

    fn in_category(mut self, category: &str) -> Self {
        self.categories.push(category.to_owned());
        self
    }

    fn at(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    fn deleted_one_by_one(mut self) -> Self {
        self.deletes_collections = false;
        self
    }

    fn status(self) -> Self {
        self.with_part(Part::STATUS)
    }

    fn with_part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    fn scale(mut self, scale: Scale) -> Self {
        self.scale = Some(scale);
        self
    }

    fn action(mut self, name: &'static str, action: Action) -> Self {
        self.actions.push((name, action));
        self
    }

    fn fields(mut self, fields: &'static [&'static str]) -> Self {
        self.fields = fields.iter().map(|field| Cow::Borrowed(*field)).collect();
        self
    }

    fn answers(mut self, review: Review) -> Self {
        self.review = Some(review);
        self.prefix.clear();
        self
    }

    /// Its objects are worked out when they are asked for, and whoever asks is told this.
    fn computed(mut self, warning: &str) -> Self {
        self.computed = true;
        self.prefix.clear();
        self.versions.iter_mut().for_each(|version| version.warning = Some(warning.to_owned()));
        self
    }

    fn stored_as<T: Typed + JsonSchema>(mut self) -> Self {
        self.stored_as = T::API_VERSION.to_owned();
        self.handled_as = T::API_VERSION.to_owned();
        self.handled_in = Some(version::<T>());
        self
    }

    fn also<T: Typed + JsonSchema>(mut self) -> Self {
        self.versions.push(version::<T>());
        self
    }

    /// The kind's own rules.
    fn rules(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self.rules = Arc::new(strategy);
        self
    }

    /// Rules in place of those of the strategy.
    fn ruled_by(mut self, rules: impl Rules + 'static) -> Self {
        self.rules = Arc::new(rules);
        self
    }

    /// How its forms are turned into each other.
    fn converted(mut self, convert: Convert) -> Self {
        self.conversion = Conversion::With(convert);
        self
    }
}
