//! client-go and kube-rs are known by whatever they show: a certificate, a static token, a service account's token.

use std::{fs, path::PathBuf};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, ObjectList},
};
use tempfile::TempDir;
use windlass_e2e::Server;

use crate::objects::{config, create};

/// A server that knows one static token, of an administrator, and has one service account.
struct Place {
    server: Server,
    _tokens: TempDir,
}

impl Place {
    fn new() -> Self {
        let tokens = tempfile::tempdir().expect("a temporary directory");
        let file = tokens.path().join("tokens.csv");
        fs::write(&file, "static-secret,jane,7,\"system:masters,devs\"\n").expect("the directory is ours");
        let server = Server::start_with(&["--token-auth-file", file.to_str().expect("text")]);
        server.kubectl("create serviceaccount robot").ok();
        create(&server, &config("last"));
        Place { server, _tokens: tokens }
    }

    /// What administrators show.
    fn of_administrators(&self) -> [PathBuf; 2] {
        [self.server.kubeconfig(), self.server.kubeconfig_with_token("static-secret")]
    }

    /// What a service account shows that has been given no rights.
    fn of_the_account(&self) -> PathBuf {
        let token = self.server.kubectl("create token robot").ok();
        self.server.kubeconfig_with_token(token.trim())
    }
}

#[test]
fn client_go_is_known_by_certificate_token_and_service_account() {
    let place = Place::new();
    for kubeconfig in place.of_administrators() {
        let (printed, status) = place.server.informer_with(&kubeconfig, "default", "last", false).finish();
        assert!(status.success() && printed.contains("REQUEST list 200"), "{printed}");
    }
    let mut refused = place.server.informer_with(&place.of_the_account(), "default", "last", false);
    refused.line_with("REQUEST list 403");
    let nobody = place.server.kubeconfig_with_token("nonsense");
    let mut unknown = place.server.informer_with(&nobody, "default", "last", false);
    unknown.line_with("REQUEST list 401");
}

/// The code and the words of a refusal.
#[track_caller]
fn refused(outcome: Result<ObjectList<ConfigMap>, kube::Error>) -> (u16, String) {
    match outcome {
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        Err(other) => panic!("{other}"),
        Ok(list) => panic!("{} objects are shown", list.items.len()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_rs_is_known_by_certificate_token_and_service_account() {
    let place = Place::new();
    let list = async |kubeconfig: PathBuf| {
        let api: Api<ConfigMap> = Api::default_namespaced(place.server.client_with(&kubeconfig).await);
        api.list(&ListParams::default().fields("metadata.name!=kube-root-ca.crt")).await
    };
    for kubeconfig in place.of_administrators() {
        assert_eq!(list(kubeconfig).await.expect("a list").items.len(), 1);
    }
    let (code, why) = refused(list(place.of_the_account()).await);
    assert!(code == 403 && why.contains("system:serviceaccount:default:robot"), "{code} {why}");
    let nobody = place.server.kubeconfig_with_token("nonsense");
    assert_eq!(refused(list(nobody).await), (401, "Unauthorized".to_owned()));
}
