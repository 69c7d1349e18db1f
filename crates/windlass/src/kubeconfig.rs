//! The administrator's kubeconfig: everything kubectl needs, in one file.

use std::{fs, io::Write, net::SocketAddr, path::Path};

use anyhow::Context;
use base64::{Engine, prelude::BASE64_STANDARD};

use crate::{
    args::{DataDir, Usage},
    datadir,
    pki::{self, Identity, Pki},
    tls::Given,
};

/// Writes it out, for a server at `address`. A server that shows what someone else has signed is believed by just that.
pub(crate) fn render(address: SocketAddr, pki: &Pki, given: &Given) -> String {
    let shown = given.server.as_ref().map(|server| &*server.cert);
    let ca = match shown {
        Some(shown) => BASE64_STANDARD.encode(format!("{}\n{}", shown.trim_end(), pki.ca)),
        None => BASE64_STANDARD.encode(&pki.ca),
    };
    let name = match shown.and_then(|shown| pki::name_for(shown, address.ip())) {
        Some(name) => format!("\n    tls-server-name: {name}"),
        None => String::new(),
    };
    let cert = BASE64_STANDARD.encode(&pki.admin.cert);
    let key = BASE64_STANDARD.encode(pki::sec1(&pki.admin.key));
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: windlass
  cluster:
    server: https://{address}
    certificate-authority-data: {ca}{name}
users:
- name: windlass-admin
  user:
    client-certificate-data: {cert}
    client-key-data: {key}
contexts:
- name: windlass
  context:
    cluster: windlass
    user: windlass-admin
current-context: windlass
"
    )
}

/// What a client needs to know of a server, besides its address.
pub(crate) struct Admin {
    /// Whom to believe, in PEM.
    pub(crate) ca: String,
    /// What the server is called, if not by its address.
    pub(crate) name: Option<String>,
    /// What to show.
    pub(crate) identity: Identity,
}

/// Reads back what was written.
pub(crate) fn read(directory: &Path) -> anyhow::Result<Admin> {
    let path = datadir::kubeconfig(directory);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let field = |name: &str| text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
    let data = |name: &str| {
        let decoded = field(name).and_then(|value| BASE64_STANDARD.decode(value).ok());
        let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        text.with_context(|| format!("{} is damaged: there is no {name} in it", path.display()))
    };
    Ok(Admin {
        ca: data("certificate-authority-data")?,
        name: field("tls-server-name").map(str::to_owned),
        identity: Identity { cert: data("client-certificate-data")?, key: data("client-key-data")? },
    })
}

/// `windlass kubeconfig`: prints it, or where it is.
pub(crate) fn run(data_dir: &DataDir, only_path: bool, out: &mut dyn Write) -> anyhow::Result<()> {
    let path = datadir::kubeconfig(data_dir.path());
    if !path.is_file() {
        return Err(Usage(format!(
            "--data-dir {}: there is no kubeconfig in it, expected the directory of an earlier start",
            data_dir.path().display()
        ))
        .into());
    }
    if only_path {
        let path = path.canonicalize().unwrap_or(path);
        return Ok(writeln!(out, "{}", path.display())?);
    }
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(out.write_all(&text)?)
}
