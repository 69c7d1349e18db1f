//! The way to a server: what a kubeconfig says about its current context.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;

/// Where a server is, whom it is believed to be and who we are.
#[derive(Debug)]
pub(crate) struct Access {
    /// Such as `https://127.0.0.1:6443`.
    pub(crate) server: String,
    /// The authority, as PEM.
    pub(crate) ca: Vec<u8>,
    /// Our certificate and its key, as PEM.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Config {
    current_context: String,
    contexts: Vec<Context_>,
    clusters: Vec<Cluster>,
    users: Vec<User>,
}

#[derive(Deserialize)]
struct Context_ {
    name: String,
    context: Pair,
}

#[derive(Deserialize)]
struct Pair {
    cluster: String,
    user: String,
}

#[derive(Deserialize)]
struct Cluster {
    name: String,
    cluster: ClusterInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ClusterInfo {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
}

#[derive(Deserialize)]
struct User {
    name: String,
    user: UserInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct UserInfo {
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    token: Option<String>,
}

/// Reads the file at `path`.
pub(crate) fn read(path: &Path) -> anyhow::Result<Access> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    access(&text, folder).with_context(|| format!("understanding {}", path.display()))
}

fn access(text: &str, folder: &Path) -> anyhow::Result<Access> {
    let config: Config = serde_saphyr::from_str(text)?;
    let Config { current_context, contexts, clusters, users } = config;
    let pair = contexts.into_iter().find(|one| one.name == current_context);
    let pair = pair.context("there is no current context")?.context;
    let cluster =
        clusters.into_iter().find(|one| one.name == pair.cluster).context("there is no such cluster")?;
    let user = users.into_iter().find(|one| one.name == pair.user).context("there is no such user")?;
    let ClusterInfo { server, certificate_authority, certificate_authority_data } = cluster.cluster;
    let UserInfo { client_certificate, client_certificate_data, client_key, client_key_data, token } =
        user.user;
    let ca = bytes(folder, certificate_authority, certificate_authority_data)?;
    let certificate = bytes(folder, client_certificate, client_certificate_data)?;
    let key = bytes(folder, client_key, client_key_data)?;
    if certificate.is_none() && token.is_none() {
        bail!("the user has neither a certificate nor a token, and no other way is known here");
    }
    Ok(Access {
        server,
        ca: ca.context("the cluster names no authority to believe in")?,
        identity: certificate.zip(key),
        token,
    })
}

/// What stands in the file itself or in another one.
fn bytes(folder: &Path, path: Option<PathBuf>, data: Option<String>) -> anyhow::Result<Option<Vec<u8>>> {
    match (data, path) {
        (Some(data), _) => Ok(Some(BASE64_STANDARD.decode(data.trim())?)),
        (None, Some(path)) => {
            let path = folder.join(path);
            Ok(Some(fs::read(&path).with_context(|| format!("reading {}", path.display()))?))
        }
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "apiVersion: v1
kind: Config
clusters:
- name: other
  cluster: {server: 'https://10.0.0.9:6443', insecure-skip-tls-verify: true}
- name: one
  cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: Y2E=}
users:
- name: admin
  user: {client-certificate-data: Y2VydA==, client-key-data: a2V5}
contexts:
- name: here
  context: {cluster: one, user: admin}
current-context: here
";

    #[test]
    fn the_current_context_leads_to_the_server() {
        let access = access(TEXT, Path::new(".")).expect("a good file");
        assert_eq!(access.server, "https://127.0.0.1:6443");
        assert_eq!(access.ca, b"ca");
        assert_eq!(access.identity, Some((b"cert".to_vec(), b"key".to_vec())));
    }

    #[test]
    fn a_context_that_is_not_there_is_told() {
        let text = TEXT.replace("current-context: here", "current-context: there");
        let error = access(&text, Path::new(".")).expect_err("there is none");
        assert!(error.to_string().contains("current context"), "{error:#}");
    }
}
