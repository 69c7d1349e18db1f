//! Services over a small world.

use serde_json::{Value, json};
use windlass_machinery::object::{self, Object};

use super::ServiceAllocation;
use crate::{
    admission::{
        AdmissionConfig,
        testing::{World, admit},
    },
    status::Outcome,
};

/// A world with an allocator, where every accepted request is committed.
struct Cluster {
    world: World,
    plugin: ServiceAllocation,
}

impl Cluster {
    async fn new(cidrs: &[&str]) -> Self {
        let service_cidrs = cidrs.iter().map(|cidr| cidr.parse().unwrap()).collect();
        let (node_ports, external_ips) = (30000..=30099, vec![]);
        let config = AdmissionConfig { service_cidrs, node_ports, external_ips, signer: None };
        Cluster { world: World::new(&[]).await, plugin: ServiceAllocation::new(&config) }
    }

    async fn create(&mut self, name: &str, spec: Value) -> Outcome<Object> {
        let service = json!({"metadata": {"name": name, "namespace": "n"}, "spec": spec});
        let (service, effects) =
            admit(&self.plugin, self.world.request("", "services", "n", service)).await?;
        self.world.commit(effects).await;
        Ok(service)
    }

    async fn update(&mut self, old: &Object, change: impl FnOnce(&mut Value)) -> Outcome<Object> {
        let mut service = Value::Object(old.clone());
        change(&mut service["spec"]);
        let request = self.world.update("", "services", "n", old, service);
        let (service, effects) = admit(&self.plugin, request).await?;
        self.world.commit(effects).await;
        Ok(service)
    }

    async fn delete(&mut self, old: &Object) {
        let request = self.world.deletion("", "services", "n", old);
        let (_, effects) = admit(&self.plugin, request).await.unwrap();
        self.world.commit(effects).await;
    }

    /// The addresses and ports that are taken.
    fn taken(&self) -> (Vec<String>, Vec<String>) {
        let addresses = self.world.view.list("networking.k8s.io", "ipaddresses", "");
        let addresses = addresses.iter().map(|(address, _)| object::name(address).to_owned()).collect();
        let ports = self.world.view.snapshot.iter(b"ranges/servicenodeports/", None);
        let ports = ports.map(|entry| entry.key.to_string().replace("ranges/servicenodeports/", ""));
        (addresses, ports.collect())
    }
}

fn ports(service: &Object) -> Vec<i64> {
    let ports = object::list_at(service, &["spec", "ports"]).iter();
    ports.filter_map(|port| port.get("nodePort")?.as_i64()).collect()
}

const V4: &[&str] = &["10.0.0.0/24"];
const DUAL: &[&str] = &["10.0.0.0/24", "fd00::/112"];

#[tokio::test]
async fn a_service_gets_an_address_that_is_recorded_and_given_back() {
    let mut cluster = Cluster::new(V4).await;
    let service = cluster.create("web", json!({"type": "ClusterIP"})).await.unwrap();
    let spec = &service["spec"];
    let ip = spec["clusterIP"].as_str().unwrap().to_owned();
    assert_eq!(spec["clusterIPs"], json!([ip]));
    assert_eq!((&spec["ipFamilies"], &spec["ipFamilyPolicy"]), (&json!(["IPv4"]), &json!("SingleStack")));
    assert_eq!(cluster.taken(), (vec![ip.clone()], vec![]));
    let (address, _) = cluster.world.view.get("networking.k8s.io", "ipaddresses", "", &ip).unwrap();
    let parent = json!({"group": "", "resource": "services", "namespace": "n", "name": "web"});
    assert_eq!(address["spec"]["parentRef"], parent);
    assert_eq!(address["metadata"]["labels"]["ipaddress.kubernetes.io/managed-by"], "ipallocator.k8s.io");
    assert!(!object::uid(&address).is_empty());
    cluster.delete(&service).await;
    assert_eq!(cluster.taken(), (vec![], vec![]));
}

#[tokio::test]
async fn headless_and_external_services_take_nothing() {
    let mut cluster = Cluster::new(V4).await;
    let headless = json!({"clusterIP": "None", "selector": {"a": "b"}});
    let service = cluster.create("headless", headless).await.unwrap();
    assert_eq!(service["spec"]["clusterIPs"], json!(["None"]));
    assert_eq!(service["spec"]["ipFamilies"], json!(["IPv4"]));
    let bare = cluster.create("bare", json!({"clusterIP": "None"})).await.unwrap();
    assert_eq!(bare["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(bare["spec"]["ipFamilyPolicy"], "RequireDualStack");
    let external = json!({"type": "ExternalName", "externalName": "example.com"});
    let service = cluster.create("external", external.clone()).await.unwrap();
    assert_eq!(service["spec"], external);
    assert_eq!(cluster.taken(), (vec![], vec![]));
}

#[tokio::test]
async fn a_chosen_address_must_be_in_range_and_free() {
    let mut cluster = Cluster::new(V4).await;
    cluster.create("one", json!({"clusterIP": "10.0.0.10"})).await.unwrap();
    for (ip, why) in [
        ("10.0.0.10", "provided IP is already allocated"),
        (
            "10.1.0.1",
            "the provided IP (10.1.0.1) is not in the valid range. The range of valid IPs is 10.0.0.0/24",
        ),
        (
            "10.0.0.0",
            "the provided IP (10.0.0.0) is not in the valid range. The range of valid IPs is 10.0.0.0/24",
        ),
    ] {
        let status = cluster.create("two", json!({"clusterIP": ip})).await.unwrap_err();
        let message = format!(
            "Service \"two\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: {why}"
        );
        assert_eq!((status.code, status.message), (422, message));
    }
}

#[tokio::test]
async fn a_range_is_used_up_to_its_last_address() {
    let mut cluster = Cluster::new(&["10.0.0.0/28"]).await;
    for n in 0..14 {
        cluster.create(&format!("s{n}"), json!({})).await.unwrap();
    }
    let status = cluster.create("more", json!({})).await.unwrap_err();
    assert!(status.message.contains("range is full"), "{}", status.message);
    assert_eq!(cluster.taken().0.len(), 14);
}

#[tokio::test]
async fn two_families_are_given_where_they_are_asked_for() {
    let mut cluster = Cluster::new(DUAL).await;
    for (name, spec, families) in [
        ("single", json!({}), json!(["IPv4"])),
        ("six", json!({"ipFamilies": ["IPv6"]}), json!(["IPv6"])),
        ("prefer", json!({"ipFamilyPolicy": "PreferDualStack"}), json!(["IPv4", "IPv6"])),
        (
            "require",
            json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}),
            json!(["IPv6", "IPv4"]),
        ),
    ] {
        let service = cluster.create(name, spec).await.unwrap();
        assert_eq!(service["spec"]["ipFamilies"], families, "{name}");
        let n_families = families.as_array().unwrap().len();
        assert_eq!(service["spec"]["clusterIPs"].as_array().unwrap().len(), n_families, "{name}");
    }
    let mut cluster = Cluster::new(V4).await;
    let service = cluster.create("prefer", json!({"ipFamilyPolicy": "PreferDualStack"})).await.unwrap();
    assert_eq!(service["spec"]["ipFamilies"], json!(["IPv4"]));
    for spec in [json!({"ipFamilyPolicy": "RequireDualStack"}), json!({"ipFamilies": ["IPv6"]})] {
        assert_eq!(cluster.create("x", spec).await.unwrap_err().code, 422);
    }
}

#[tokio::test]
async fn a_second_family_comes_and_goes_with_the_policy() {
    let mut cluster = Cluster::new(DUAL).await;
    let single = cluster.create("s", json!({})).await.unwrap();
    let dual =
        cluster.update(&single, |spec| spec["ipFamilyPolicy"] = "RequireDualStack".into()).await.unwrap();
    assert_eq!(dual["spec"]["clusterIPs"][0], single["spec"]["clusterIP"]);
    assert_eq!(cluster.taken().0.len(), 2);
    let back = cluster.update(&dual, |spec| spec["ipFamilyPolicy"] = "SingleStack".into()).await.unwrap();
    assert_eq!(back["spec"], single["spec"]);
    assert_eq!(cluster.taken().0.len(), 1);
}

#[tokio::test]
async fn node_ports_are_reserved_shared_between_protocols_and_given_back() {
    let mut cluster = Cluster::new(V4).await;
    let spec = json!({"type": "NodePort", "ports": [
        {"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}, {"port": 80, "protocol": "TCP"},
    ]});
    let service = cluster.create("dns", spec).await.unwrap();
    let given = ports(&service);
    assert!(given[0] == given[1] && given[0] != given[2], "{given:?}");
    assert_eq!(cluster.taken().1.len(), 2);
    let less =
        cluster.update(&service, |spec| drop(spec["ports"].as_array_mut().unwrap().pop())).await.unwrap();
    assert_eq!(cluster.taken().1, [given[0].to_string()]);
    cluster.delete(&less).await;
    assert_eq!(cluster.taken(), (vec![], vec![]));
}

#[tokio::test]
async fn a_chosen_node_port_must_be_in_range_and_free() {
    let mut cluster = Cluster::new(V4).await;
    let spec = |port: i64| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    cluster.create("one", spec(30001)).await.unwrap();
    for (port, why) in [
        (30001, "provided port is already allocated"),
        (80, "provided port is not in the valid range. The range of valid ports is 30000-30099"),
    ] {
        let status = cluster.create("two", spec(port)).await.unwrap_err();
        let message =
            format!("Service \"two\" is invalid: spec.ports[0].nodePort: Invalid value: {port}: {why}");
        assert_eq!((status.code, status.message), (422, message));
    }
}

#[tokio::test]
async fn an_update_keeps_what_the_client_leaves_out() {
    let mut cluster = Cluster::new(V4).await;
    let spec = json!({"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]});
    let old = cluster.create("web", spec.clone()).await.unwrap();
    let before = cluster.taken();
    let new = cluster.update(&old, |all| *all = spec).await.unwrap();
    assert_eq!(new["spec"], old["spec"]);
    let moved = json!({"type": "NodePort", "ports": [{"port": 81, "protocol": "TCP"}]});
    let moved = cluster.update(&new, |all| *all = moved).await.unwrap();
    assert_eq!(ports(&moved), ports(&old));
    assert_eq!(cluster.taken(), before);
}

#[tokio::test]
async fn a_change_of_type_takes_and_gives_back() {
    // From, to, and how many addresses and ports are taken before and after.
    let all = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];
    let needs = |kind: &str| match kind {
        "ClusterIP" => (1, 0),
        "NodePort" => (1, 1),
        "LoadBalancer" => (1, 2),
        _ => (0, 0),
    };
    for from in all {
        for to in all {
            let mut cluster = Cluster::new(V4).await;
            let mut spec = json!({"type": from, "ports": [{"port": 80, "protocol": "TCP"}]});
            let local = |spec: &mut Value| spec["externalTrafficPolicy"] = "Local".into();
            if from == "LoadBalancer" {
                local(&mut spec);
            }
            let old = cluster.create("web", spec).await.unwrap();
            let count = |cluster: &Cluster| (cluster.taken().0.len(), cluster.taken().1.len());
            assert_eq!(count(&cluster), needs(from), "{from}");
            let new = cluster
                .update(&old, |spec| {
                    spec["type"] = to.into();
                    if to == "LoadBalancer" {
                        local(spec);
                    }
                })
                .await
                .unwrap();
            assert_eq!(count(&cluster), needs(to), "{from} to {to}");
            assert_eq!(new["spec"].get("clusterIP").is_some(), to != "ExternalName", "{from} to {to}");
            cluster.delete(&new).await;
            assert_eq!(count(&cluster), (0, 0), "{from} to {to}");
        }
    }
}

#[tokio::test]
async fn node_ports_that_are_no_longer_given_out_stay_until_they_are_taken_out() {
    let mut cluster = Cluster::new(V4).await;
    let old = cluster.create("web", json!({"type": "LoadBalancer", "ports": [{"port": 80}]})).await.unwrap();
    let without = |spec: &mut Value| spec["allocateLoadBalancerNodePorts"] = false.into();
    let kept = cluster.update(&old, without).await.unwrap();
    assert_eq!(ports(&kept), ports(&old));
    let bare = cluster.update(&kept, |spec| spec["ports"] = json!([{"port": 80}])).await.unwrap();
    assert!(ports(&bare).is_empty());
    assert!(cluster.taken().1.is_empty());
}

#[tokio::test]
async fn a_balanced_service_may_do_without_node_ports() {
    let mut cluster = Cluster::new(V4).await;
    let spec =
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]});
    let service = cluster.create("web", spec).await.unwrap();
    assert!(ports(&service).is_empty());
    let healthy =
        cluster.update(&service, |spec| spec["externalTrafficPolicy"] = "Local".into()).await.unwrap();
    let port = object::int_at(&healthy, &["spec", "healthCheckNodePort"]).unwrap();
    assert_eq!(cluster.taken().1, [port.to_string()]);
}
