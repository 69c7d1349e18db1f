//! `windlass status`: asks a running server whether it is ready, as the administrator.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs},
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use rustls_pki_types::ServerName;
use serde_json::Value;

use crate::{
    args::DataDir,
    datadir::{self, CONTROLLERS},
    exit::chain,
    kubeconfig::{self, Admin},
    table::table,
    tls::{certificates, private_key, provider, roots},
};

/// A server that has not answered by then is not ready.
const PATIENCE: Duration = Duration::from_secs(5);

/// Characters of an error that fit a line.
const MOST_ERROR: usize = 100;

/// More than any page has.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// Prints what every check says; an error if any fails.
pub(crate) fn run(data_dir: &DataDir, out: &mut dyn Write) -> anyhow::Result<()> {
    let directory = data_dir.path();
    let Some(endpoints) = datadir::endpoints(directory)? else {
        bail!(
            "nothing is ready in {}\nhint: start it with: windlass up --data-dir {}",
            directory.display(),
            directory.display()
        );
    };
    let rows: Vec<_> = endpoints.iter().map(|(service, url)| vec![service.clone(), url.clone()]).collect();
    writeln!(out, "{}\n", table(&["SERVICE", "ADDRESS"], &rows))?;
    if let Some(url) = endpoints.get(CONTROLLERS) {
        match controllers(url) {
            Ok(rows) => writeln!(out, "{}\n", table(&CONTROLLER_HEADER, &rows))?,
            Err(error) => writeln!(out, "no answer from {url}: {}\n", chain(&error))?,
        }
    }
    let url = endpoints.get("apiserver").context("endpoints.json does not name an API server")?;
    let Answer { code, body } =
        ask(url, "/readyz?verbose", None, directory).with_context(|| format!("no answer from {url}"))?;
    let rows = checks(&body);
    if !rows.is_empty() {
        writeln!(out, "{}\n", table(&["CHECK", "STATE"], &rows))?;
    }
    if code != 200 {
        out.flush()?;
        bail!("not ready: {url}/readyz answered {code}");
    }
    Ok(writeln!(out, "ready")?)
}

const CONTROLLER_HEADER: [&str; 5] = ["CONTROLLER", "STATE", "WAITING", "FAILING", "LAST ERROR"];

/// How each controller is, as rows.
fn controllers(url: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let page = fetch(address(url)?, "/status")?;
    let all: Vec<Value> = serde_json::from_str(&page).context("it says something else")?;
    let text = |one: &Value, field: &str| match &one[field] {
        Value::Null => String::new(),
        Value::String(text) => text.chars().take(MOST_ERROR).collect(),
        other => other.to_string(),
    };
    let fields = ["name", "state", "queueLength", "failing", "lastError"];
    Ok(all.iter().map(|one| fields.map(|field| text(one, field)).to_vec()).collect())
}

/// Where a page is served in plain text.
pub(crate) fn address(url: &str) -> anyhow::Result<SocketAddr> {
    let place = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    let found = place.to_socket_addrs().map(|mut all| all.next());
    found.ok().flatten().context("expected an address such as http://127.0.0.1:18002")
}

/// What a page says that is served in plain text.
pub(crate) fn fetch(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let Answer { code, body } = talk(&mut connect(address)?, address, path, None)?;
    match code {
        200 => Ok(body),
        _ => bail!("it answered {code}: {}", body.trim()),
    }
}

fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// The lines `[+]name ok` and `[-]name failed: why`, as rows.
fn checks(body: &str) -> Vec<Vec<String>> {
    let rows = body.lines().filter_map(|line| {
        let rest = line.strip_prefix("[+]").or_else(|| line.strip_prefix("[-]"))?;
        let (name, state) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(vec![name.to_owned(), state.to_owned()])
    });
    rows.collect()
}

/// What a server said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: String,
}

/// One request as the administrator: it asks, or sends JSON.
pub(crate) fn ask(url: &str, path: &str, sent: Option<&str>, directory: &Path) -> anyhow::Result<Answer> {
    let address: SocketAddr =
        url.strip_prefix("https://").unwrap_or(url).parse().context("not an address")?;
    let socket = connect(address)?;
    let Admin { ca, name, identity } = kubeconfig::read(directory)?;
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(&ca)?)
        .with_client_auth_cert(certificates(&identity.cert)?, private_key(&identity.key)?)?;
    let name = match name {
        Some(name) => ServerName::try_from(name).context("the kubeconfig has a name that is none")?,
        None => ServerName::IpAddress(address.ip().into()),
    };
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name)?, socket);
    talk(&mut stream, address, path, sent)
}

/// HTTP/1.0 keeps it simple: the answer ends where the connection does, and is never chunked.
fn talk(
    stream: &mut (impl Read + Write),
    address: SocketAddr,
    path: &str,
    sent: Option<&str>,
) -> anyhow::Result<Answer> {
    let method = if sent.is_some() { "POST" } else { "GET" };
    write!(stream, "{method} {path} HTTP/1.0\r\nhost: {address}\r\naccept: */*\r\nuser-agent: windlass\r\n")?;
    match sent {
        None => write!(stream, "\r\n")?,
        Some(body) => {
            let length = body.len();
            write!(stream, "content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")?;
        }
    }
    let bytes = read_all(stream, Instant::now() + PATIENCE)?;
    read_answer(&String::from_utf8_lossy(&bytes)).ok_or_else(|| anyhow!("it does not speak HTTP"))
}

/// Everything that is said until a time; whoever has not ended by then is not well.
fn read_all(stream: &mut impl Read, deadline: Instant) -> anyhow::Result<Vec<u8>> {
    let (mut bytes, mut chunk) = (vec![], [0; 16 << 10]);
    while (bytes.len() as u64) < MAX_ANSWER_BYTES {
        let late = || anyhow!("it has not answered within {} s", PATIENCE.as_secs());
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(n_read) => bytes.extend_from_slice(&chunk[..n_read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(late());
            }
            Err(error) => return Err(error.into()),
        }
        if Instant::now() > deadline {
            return Err(late());
        }
    }
    Ok(bytes)
}

fn read_answer(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let code = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { code, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_checks_are_read() {
        let answer = read_answer(
            "HTTP/1.0 500 Internal Server Error\r\na: b\r\n\r\n[+]ping ok\n[-]store failed: full\nreadyz check failed",
        );
        let answer = answer.expect("an answer");
        assert_eq!(answer.code, 500);
        assert_eq!(checks(&answer.body), [["ping", "ok"], ["store", "failed: full"]]);
        assert_eq!(read_answer("SSH-2.0"), None);
    }
}
