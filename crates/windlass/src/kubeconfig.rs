//! The administrator's kubeconfig: everything kubectl needs, in one file.

use std::{fs, io::Write};

use anyhow::Context;
use base64::{Engine, prelude::BASE64_STANDARD};

use crate::{
    args::{DataDir, Usage},
    datadir,
    pki::Pki,
};

/// Writes it out, for a server at `url`.
pub(crate) fn render(url: &str, pki: &Pki) -> String {
    let ca = BASE64_STANDARD.encode(&pki.ca);
    let cert = BASE64_STANDARD.encode(&pki.admin.cert);
    let key = BASE64_STANDARD.encode(&pki.admin.key);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: windlass
  cluster:
    server: {url}
    certificate-authority-data: {ca}
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
