//! Who one is and what one may: `kubectl auth` and `kubectl certificate`.

use base64::{Engine, prelude::BASE64_STANDARD};
use windlass_e2e::Server;

use crate::objects::{contains, create, rows};

#[test]
fn whoami_names_the_administrator() {
    let server = Server::start();
    let me = server.kubectl("auth whoami -o json").ok();
    let me: serde_json::Value = serde_json::from_str(&me).expect("JSON");
    let groups = me["status"]["userInfo"]["groups"].as_array().expect("groups");
    for group in ["system:masters", "system:authenticated"] {
        assert!(groups.iter().any(|own| own == group), "{me}");
    }
}

#[test]
fn the_administrator_may_do_everything() {
    let server = Server::start();
    assert_eq!(server.kubectl("auth can-i create pods").ok(), "yes\n");
    assert_eq!(server.kubectl("auth can-i '*' '*' -A").ok(), "yes\n");
    contains(&server.kubectl("auth can-i --list").ok(), &["Resources", "*.*", "[*]"]);
}

#[test]
fn a_signing_request_is_approved_and_denied() {
    let server = Server::start();
    for name in ["good", "bad"] {
        create(&server, &request(name));
    }
    contains(&server.kubectl("get csr good").ok(), &["Pending", "example.com/signer"]);
    contains(&server.kubectl("certificate approve good").ok(), &["good approved"]);
    contains(&server.kubectl("certificate deny bad").ok(), &["bad denied"]);
    let table = server.kubectl("get csr").ok();
    let conditions: Vec<_> = rows(&table).iter().map(|row| (row[0], row[row.len() - 1])).collect();
    assert_eq!(conditions, [("bad", "Denied"), ("good", "Approved")]);
}

#[test]
fn an_approved_request_becomes_a_certificate_that_works() {
    let server = Server::start();
    let (key, asked) = ask_for("ann");
    create(&server, &asked_of("ann", "kubernetes.io/kube-apiserver-client", "client auth", &asked));
    contains(&server.kubectl("get csr ann").ok(), &["Pending"]);
    server.kubectl("certificate approve ann").ok();
    contains(&server.kubectl("get csr ann").ok(), &["Approved,Issued"]);
    let issued = server.kubectl("get csr ann -o jsonpath={.status.certificate}").ok();
    let issued = BASE64_STANDARD.decode(issued).expect("base64");
    server.write("ann.crt", std::str::from_utf8(&issued).expect("PEM"));
    server.write("ann.key", &key);
    let shown = "--client-certificate ann.crt --client-key ann.key --embed-certs";
    server.kubectl(&format!("config set-credentials ann {shown}")).ok();
    let refused = server.kubectl("get ns --user ann").fails();
    contains(&refused, &[r#"User "ann" cannot list resource "namespaces""#]);
}

#[test]
fn requests_that_the_signer_does_not_sign_get_no_certificate() {
    let server = Server::start();
    let (_, asked) = ask_for("ann");
    create(&server, &asked_of("other", "kubernetes.io/kubelet-serving", "server auth", &asked));
    create(&server, &asked_of("serves", "kubernetes.io/kube-apiserver-client", "server auth", &asked));
    for name in ["other", "serves"] {
        server.kubectl(&format!("certificate approve {name}")).ok();
        assert_eq!(server.kubectl(&format!("get csr {name} -o jsonpath={{.status.certificate}}")).ok(), "");
    }
    contains(&server.kubectl("get csr serves").ok(), &["Approved,Failed"]);
}

/// A key, and a request for a certificate of its, in PEM in base64.
fn ask_for(user: &str) -> (String, String) {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, user);
    let key = rcgen::KeyPair::generate().expect("a key");
    let asked = params.serialize_request(&key).and_then(|asked| asked.pem()).expect("a request");
    (key.serialize_pem(), BASE64_STANDARD.encode(asked))
}

fn asked_of(name: &str, signer: &str, usage: &str, asked: &str) -> String {
    format!(
        "{{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {{name: {name}}},
          spec: {{signerName: {signer}, expirationSeconds: 3600, usages: [{usage}], request: {asked}}}}}"
    )
}

#[test]
fn a_role_limits_what_someone_may_do() {
    let server = Server::start();
    server.kubectl("create role reader --verb=get,list,watch --resource=pods,configmaps").ok();
    server.kubectl("create rolebinding ann --role=reader --user=ann").ok();
    server.kubectl("create configmap c --from-literal=a=b").ok();
    contains(&server.kubectl("get configmap c --as ann").ok(), &["c"]);
    contains(
        &server.kubectl("get secrets --as ann").fails(),
        &["User \"ann\" cannot list resource \"secrets\" in API group \"\" in the namespace \"default\""],
    );
    contains(
        &server.kubectl("delete configmap c --as ann").fails(),
        &["cannot delete resource \"configmaps\""],
    );
    contains(&server.kubectl("get configmaps -n kube-system --as ann").fails(), &["Forbidden"]);
    assert_eq!(server.kubectl("auth can-i list pods --as ann").ok(), "yes\n");
    assert_eq!(server.kubectl("auth can-i delete pods --as ann").run().stdout, "no\n");
    assert_eq!(server.kubectl("auth can-i get pods --subresource=log --as ann").run().stdout, "no\n");
    assert_eq!(server.kubectl("auth can-i get /version --as ann").ok(), "yes\n");
    assert_eq!(server.kubectl("auth can-i get /metrics --as ann").run().stdout, "no\n");
    let list = server.kubectl("auth can-i --list --as ann").ok();
    contains(
        &list,
        &[
            "configmaps",
            "pods",
            "[get list watch]",
            "selfsubjectaccessreviews.authorization.k8s.io",
            "/openapi/*",
        ],
    );
    assert!(!list.contains("*.*"), "{list}");
}

#[test]
fn one_can_be_someone_else() {
    let server = Server::start();
    let me = server.kubectl("auth whoami -o json --as ann --as-group staff --as-uid 7").ok();
    let me: serde_json::Value = serde_json::from_str(&me).expect("JSON");
    let info = &me["status"]["userInfo"];
    assert_eq!(info["username"], "ann");
    assert_eq!(info["groups"], serde_json::json!(["staff", "system:authenticated"]));
    assert_eq!(info["uid"], "7");
    server.kubectl("create clusterrolebinding staff --clusterrole=view --group=staff").ok();
    server.kubectl("get pods -A --as ann --as-group staff").ok();
    contains(
        &server.kubectl("get pods -A --as ann").fails(),
        &["cannot list resource \"pods\"", "at the cluster scope"],
    );
    server.kubectl("create clusterrolebinding robot --clusterrole=view --serviceaccount=default:robot").ok();
    server.kubectl("get pods -A --as system:serviceaccount:default:robot").ok();
    contains(
        &server.kubectl("get secrets -A --as system:serviceaccount:default:robot").fails(),
        &["Forbidden"],
    );
}

#[test]
fn roles_are_reconciled_and_not_escalated() {
    let server = Server::start();
    let roles = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r, namespace: default}
rules:
- {apiGroups: [''], resources: [pods], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: b, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}
";
    contains(
        &server.kubectl("auth reconcile -f -").yaml(roles).ok(),
        &["role.rbac.authorization.k8s.io/r reconciled"],
    );
    assert_eq!(server.kubectl("auth can-i get pods --as ann").ok(), "yes\n");
    let more = roles.replace("verbs: [get]", "verbs: [list]");
    server.kubectl("auth reconcile -f -").yaml(&more).ok();
    for verb in ["get", "list"] {
        assert_eq!(server.kubectl(&format!("auth can-i {verb} pods --as ann")).ok(), "yes\n");
    }
    server.kubectl("create rolebinding admin --clusterrole=admin --user=ann").ok();
    contains(
        &server.kubectl("create role s --verb=get --resource=nodes --as ann").fails(),
        &["attempting to grant RBAC permissions not currently held", "Resources:[\"nodes\"]"],
    );
    server.kubectl("create role s --verb=get --resource=secrets --as ann").ok();
}

/// A request for a certificate, made with `openssl req -new -newkey ed25519 -nodes -subj /CN=ann | base64 -w0`.
fn request(name: &str) -> String {
    format!(
        "{{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {{name: {name}}},
          spec: {{signerName: example.com/signer, usages: [client auth], request: {REQUEST}}}}}"
    )
}

const REQUEST: &str = "\
    LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlHTk1FRUNBUUF3RGpFTU1Bb0dBMVVFQXd3RFlXNXVNQ293QlFZ\
    REsyVndBeUVBczQ5bDkvWXVHK0pBNnpmcQp0aWExVXFBcVNnQ2RzYmQ5SVNyK3cybHlBamlnQURBRkJnTXJaWEFEUVFDVi9HS0lx\
    ekR6WUN6UUFMVTF1OFA0CkwwMEFsb2t0RWQ1RzJiUmxWUnVJa3l3QklCeFRkZVBHTHhPbksrZGV5NTJpbzF4K0ZGTkdHSkdhTXgw\
    YzNrWUoKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";
