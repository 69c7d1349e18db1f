//! `windlass token`: credentials for people and programs, from the data directory.
//!
//! A token of a user is signed with a key in the data directory, so it can be made while the server is away; one of a
//! service account is asked of the server, which knows the accounts.

use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt, path::Path, time::Duration};

use anyhow::{Context, bail};
use clap::{Subcommand, builder::NonEmptyStringValueParser};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use windlass_access::{
    MASTERS,
    jwt::Token,
    user_tokens::{MOST_REVOKED, UserToken},
};

use crate::{
    args::{DataDir, Usage},
    authn,
    datadir::{self, create_folder},
    status::{Answer, ask},
    values::GoDuration,
};

/// What names of the system begin with: whoever has one of these may be more than they look like.
const SYSTEM: &str = "system:";

/// Longer than that, a certificate is the better choice.
const MOST_LIFE: Duration = Duration::from_secs(366 * 24 * 3600);

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Print a token for a user, or for a service account
    #[command(after_help = "Examples:
  windlass token create --user jane --group devs --ttl 8h
  windlass token create --service-account default/robot

The token of a user is signed with DIR/pki/token.key; the server need not run. Removing that file ends all tokens
of users within seconds. The token of a service account is made by the running server, for 10 minutes at least.")]
    Create(CreateArgs),
    /// Make the server refuse a token from now on
    #[command(after_help = "Example:
  windlass token revoke 0b6a9a1e-6f9c-4a7e-9d0e-0b1f2c3d4e5f

The id is the token's jti, which \"kubectl auth whoami\" shows as credential-id. It goes to DIR/pki/revoked-tokens,
which the server reads again within seconds. Tokens of service accounts can be revoked like those of users.")]
    Revoke {
        #[command(flatten)]
        data_dir: DataDir,
        /// The token, or its id
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        token: String,
    },
}

/// Whom a token is for.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    data_dir: DataDir,
    /// The name of the user
    #[arg(long, value_name = "NAME", required_unless_present = "service_account", value_parser = NonEmptyStringValueParser::new())]
    user: Option<String>,
    /// A group that the user is in
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "user", value_parser = NonEmptyStringValueParser::new())]
    group: Vec<String>,
    /// Take names that begin with "system:", which have rights of their own
    #[arg(long, requires = "user")]
    allow_system: bool,
    /// A service account instead, as NAMESPACE/NAME
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with = "user")]
    service_account: Option<String>,
    /// Whom the service account's token is meant for [default: the server]
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "service_account")]
    audience: Vec<String>,
    /// How long it is good
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Duration::from_secs(3600)))]
    ttl: GoDuration,
}

/// Does what the command says.
pub(crate) fn run(command: TokenCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        TokenCommand::Create(args) => Ok(writeln!(out, "{}", create(args)?)?),
        TokenCommand::Revoke { data_dir, token } => revoke(&data_dir, &token),
    }
}

fn create(args: CreateArgs) -> anyhow::Result<String> {
    let CreateArgs { data_dir, user, group, allow_system, service_account, audience, ttl } = args;
    if ttl.0.as_secs() == 0 || ttl.0 > MOST_LIFE {
        return Err(Usage(format!("--ttl {ttl}: expected from a second to a year")).into());
    }
    match (user, service_account) {
        (_, Some(account)) => of_account(data_dir.path(), &account, &audience, ttl.0),
        (Some(name), None) => {
            let token = UserToken { name, groups: group, id: uuid::Uuid::new_v4().to_string() };
            of_user(data_dir.path(), &token, allow_system, ttl.0)
        }
        (None, None) => Err(Usage("expected --user or --service-account".into()).into()),
    }
}

fn of_user(
    directory: &Path,
    token: &UserToken,
    allow_system: bool,
    life: Duration,
) -> anyhow::Result<String> {
    let names =
        [("--user", &token.name)].into_iter().chain(token.groups.iter().map(|group| ("--group", group)));
    for (flag, name) in names {
        if name.starts_with(SYSTEM) && !allow_system {
            let what = if name == MASTERS { "may do everything" } else { "is the system's own" };
            return Err(
                Usage(format!("{flag} {name}: it {what}; add --allow-system if that is meant")).into()
            );
        }
        if name.len() > 256 || name.chars().any(char::is_control) {
            return Err(Usage(format!("{flag} {name:?}: expected at most 256 bytes of plain text")).into());
        }
    }
    let folder = existing(directory)?;
    create_folder(&folder)?;
    let key = authn::user_key(&folder)?;
    let now = Timestamp::now();
    let expires = now.checked_add(SignedDuration::try_from(life)?)?;
    let made = key.sign(&token.claims(now, expires)).context("the system has no randomness")?;
    // Nothing that a server would not even read is given out.
    Token::parse(&made).map_err(|error| anyhow::anyhow!("the token cannot be used: {error}"))?;
    Ok(made)
}

/// Where keys are in a data directory, which must be there.
fn existing(directory: &Path) -> anyhow::Result<std::path::PathBuf> {
    match directory.is_dir() {
        true => Ok(datadir::pki(directory)),
        false => {
            Err(Usage(format!("--data-dir {}: expected the directory of a server", directory.display()))
                .into())
        }
    }
}

fn of_account(
    directory: &Path,
    account: &str,
    audiences: &[String],
    life: Duration,
) -> anyhow::Result<String> {
    let is_plain = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
    };
    let Some((namespace, name)) =
        account.split_once('/').filter(|(space, name)| is_plain(space) && is_plain(name))
    else {
        return Err(Usage(format!("--service-account {account}: expected NAMESPACE/NAME")).into());
    };
    let Some(endpoints) = datadir::endpoints(directory)? else {
        bail!(
            "nothing is ready in {}\nhint: tokens of service accounts are made by the server; start it with: windlass up",
            directory.display()
        );
    };
    let url = endpoints.get("apiserver").context("endpoints.json does not name an API server")?;
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": audiences, "expirationSeconds": life.as_secs()},
    });
    let Answer { code, body } = ask(url, &path, Some(&request.to_string()), directory)
        .with_context(|| format!("no answer from {url}"))?;
    let body: Value = serde_json::from_str(&body).with_context(|| format!("{url} answered {code}"))?;
    match body.pointer("/status/token").and_then(Value::as_str) {
        Some(token) => Ok(token.to_owned()),
        None => {
            bail!("{}", body.get("message").and_then(Value::as_str).unwrap_or("the server gave no token"))
        }
    }
}

/// Puts the id of a token on the list.
fn revoke(data_dir: &DataDir, token: &str) -> anyhow::Result<()> {
    let id = match Token::parse(token) {
        Ok(token) => token.unverified_id().to_owned(),
        Err(_) => token.to_owned(),
    };
    // All tokens that are made here have ids of this form, and what is not one may be a secret: it is not written down.
    let Ok(id) = uuid::Uuid::try_parse(&id).map(|id| id.hyphenated().to_string()) else {
        let what = "expected a token of this server or its id, as \"kubectl auth whoami\" shows it";
        let hint = "rows of --token-auth-file are removed from the file, and tokens of issuers revoked there";
        return Err(Usage(format!("{what}\nhint: {hint}")).into());
    };
    let path = authn::revoked_file(&existing(data_dir.path())?);
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let mut file = file.with_context(|| format!("cannot write {}", path.display()))?;
    let line = format!("{id}\n");
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    if size + line.len() as u64 > MOST_REVOKED as u64 {
        // The server reads no more than that: it would go on taking the token.
        bail!(
            "the token is NOT revoked: {} is full\nhint: take out the ids of tokens that have expired, or replace the key of all tokens",
            path.display()
        );
    }
    // One write, so that nobody reads half an id.
    let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_all());
    written.with_context(|| format!("cannot write {}", path.display()))
}
