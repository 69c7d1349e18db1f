//! Finding out what the server has: api-resources, api-versions, explain, cluster-info, version and help.

use windlass_e2e::Server;

use crate::objects::{contains, names, rows};

#[test]
fn api_resources_names_every_kind_with_its_words() {
    let server = Server::start();
    let all = server.kubectl("api-resources").ok();
    for expected in [
        ["pods", "po", "v1", "true", "Pod"],
        ["namespaces", "ns", "v1", "false", "Namespace"],
        ["deployments", "deploy", "apps/v1", "true", "Deployment"],
        ["horizontalpodautoscalers", "hpa", "autoscaling/v2", "true", "HorizontalPodAutoscaler"],
        ["storageclasses", "sc", "storage.k8s.io/v1", "false", "StorageClass"],
    ] {
        assert!(rows(&all).iter().any(|row| *row == expected), "{expected:?} is not in:\n{all}");
    }
    assert!(rows(&all).len() >= 60, "{all}");
    let wide = server.kubectl("api-resources -o wide").ok();
    contains(&wide, &["create,delete,deletecollection,get,list,patch,update,watch   all\n"]);
}

#[test]
fn api_resources_can_be_chosen() {
    let server = Server::start();
    let create_only = server.kubectl("api-resources --verbs=create -o name").ok();
    contains(&create_only, &["bindings\n", "subjectaccessreviews.authorization.k8s.io\n"]);
    let listed = server.kubectl("api-resources --verbs=list,watch -o name").ok();
    assert!(!listed.contains("bindings\n") && listed.contains("pods\n"), "{listed}");
    let global = server.kubectl("api-resources --namespaced=false -o name").ok();
    assert!(global.contains("nodes\n") && !global.contains("pods\n"), "{global}");
    let all = server.kubectl("api-resources --categories=all -o name").ok();
    for name in
        ["pods", "services", "deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps"]
    {
        contains(&all, &[&format!("{name}\n")]);
    }
    let batch = server.kubectl("api-resources --api-group=batch").ok();
    assert_eq!(names(&batch), ["cronjobs", "jobs"]);
}

#[test]
fn api_versions_names_every_group() {
    let server = Server::start();
    let versions = server.kubectl("api-versions").ok();
    for group in [
        "v1",
        "admissionregistration.k8s.io/v1",
        "apiextensions.k8s.io/v1",
        "apiregistration.k8s.io/v1",
        "apps/v1",
        "authentication.k8s.io/v1",
        "authorization.k8s.io/v1",
        "autoscaling/v1",
        "autoscaling/v2",
        "batch/v1",
        "certificates.k8s.io/v1",
        "coordination.k8s.io/v1",
        "discovery.k8s.io/v1",
        "events.k8s.io/v1",
        "flowcontrol.apiserver.k8s.io/v1",
        "networking.k8s.io/v1",
        "node.k8s.io/v1",
        "policy/v1",
        "rbac.authorization.k8s.io/v1",
        "resource.k8s.io/v1",
        "scheduling.k8s.io/v1",
        "storage.k8s.io/v1",
    ] {
        assert!(versions.lines().any(|line| line == group), "{group} is not in:\n{versions}");
    }
}

#[test]
fn every_resource_is_explained() {
    let server = Server::start();
    let all = server.kubectl("api-resources --no-headers").ok();
    for line in all.lines() {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let [.., version, _, kind] = cells[..] else { panic!("{line}") };
        let text = server.kubectl(&format!("explain {} --api-version={version}", cells[0])).ok();
        let version = version.rsplit('/').next().unwrap_or(version);
        contains(
            &text,
            &[&format!("KIND:       {kind}\nVERSION:    {version}\n"), "DESCRIPTION:\n", "FIELDS:\n"],
        );
        assert!(!text.contains("<empty>"), "{kind} has no description:\n{text}");
        assert!(
            text.contains("  apiVersion\t<string>") && text.contains("  metadata\t<ObjectMeta>"),
            "{text}"
        );
    }
}

#[test]
fn explain_goes_into_fields_and_down_to_the_leaves() {
    let server = Server::start();
    let ports = server.kubectl("explain pod.spec.containers.ports").ok();
    contains(
        &ports,
        &["FIELD: ports <[]ContainerPort>", "containerPort\t<integer> -required-", "hostIP\t<string>"],
    );
    let probe =
        server.kubectl("explain deploy.spec.template.spec.containers.livenessProbe.httpGet.port").ok();
    contains(&probe, &["FIELD: port <IntOrString>"]);
    let all = server.kubectl("explain cronjob --recursive").ok();
    contains(
        &all,
        &[
            "jobTemplate\t<JobTemplateSpec> -required-",
            "livenessProbe\t<Probe>",
            "schedule\t<string> -required-",
        ],
    );
    let policy = server.kubectl("explain pod.spec.restartPolicy").ok();
    contains(&policy, &["FIELD: restartPolicy <string>"]);
    contains(&server.kubectl("explain hpa --api-version=autoscaling/v1").ok(), &["VERSION:    v1\n"]);
    contains(&server.kubectl("explain pod.spec.colour").fails(), &["field \"colour\" does not exist"]);
    contains(&server.kubectl("explain gadget").fails(), &["the server doesn't have a resource type"]);
}

#[test]
fn cluster_info_says_where_it_is() {
    let server = Server::start();
    let info = server.kubectl("cluster-info").ok();
    contains(&info, &["Kubernetes control plane", "is running at", &format!("https://{}", server.address())]);
    contains(&server.kubectl("cluster-info dump").ok(), &["\"kind\": \"NodeList\"", "\"kind\": \"PodList\""]);
}

#[test]
fn version_names_the_server() {
    let server = Server::start();
    let version = server.kubectl("version -o json").ok();
    let version: serde_json::Value = serde_json::from_str(&version).expect("JSON");
    assert_eq!(version["serverVersion"]["major"], "1");
    assert_eq!(version["serverVersion"]["minor"], "37");
    contains(version["serverVersion"]["gitVersion"].as_str().expect("text"), &["v1.37.", "windlass"]);
}

#[test]
fn help_needs_no_server() {
    let mut server = Server::start();
    server.stop();
    for (command, expected) in [
        ("--help", "Basic Commands"),
        ("get --help", "Display one or many resources"),
        ("create --help", "Create a resource from a file or from stdin"),
        ("rollout --help", "Manage the rollout of one or many resources"),
        ("options", "--kubeconfig"),
    ] {
        contains(&server.kubectl(command).ok(), &[expected]);
    }
    contains(&server.kubectl("get pods").fails(), &["was refused"]);
}
