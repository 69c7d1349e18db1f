//! How clients are known besides by their certificates: the flags, the keys, and the files that are followed.
//!
//! Names and meanings of flags are kube-apiserver's where it has the same thing. Start at [`AuthnArgs::config`], which
//! touches nothing, and [`AuthnConfig::prepare`], which reads the files.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow};
use clap::builder::NonEmptyStringValueParser;
use jiff::SignedDuration;
use windlass_access::{
    KubectlRules,
    jwt::{KeySet, PublicKey, SigningKey},
    tokens::TokenFile,
    user_tokens::{MOST_REVOKED, Revoked},
};
use windlass_apiserver::{AccountIssuer, Authentication};

use crate::{
    args::Usage,
    datadir::{make_private, warn_if_open, write_file},
    reload::{Files, Followed},
    values::GoDuration,
};

/// The key that signs tokens of service accounts, unless another is named.
const ACCOUNT_KEY: &str = "service-account.key";

/// The key that signs tokens of users.
const USER_KEY: &str = "token.key";

/// The tokens that are no good any more.
const REVOKED: &str = "revoked-tokens";

/// The shortest and the longest that tokens may be allowed to last, as Kubernetes has it.
const MAX_EXPIRATION: (Duration, Duration) = (Duration::from_secs(3600), Duration::from_secs(1 << 32));

/// Who clients are, besides those with certificates.
#[derive(Debug, clap::Args)]
pub(crate) struct AuthnArgs {
    /// A file of tokens: lines of token,user,uid,"group1,group2"; read again when it changes
    #[arg(long, value_name = "FILE", help_heading = "Authentication")]
    token_auth_file: Option<PathBuf>,
    /// The key that signs tokens of service accounts [default: one that is made in the data directory]
    #[arg(long, value_name = "FILE", help_heading = "Authentication")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Further keys whose tokens are taken, such as the one that signed before
    #[arg(long, value_name = "FILE", value_delimiter = ',', help_heading = "Authentication")]
    service_account_key_file: Vec<PathBuf>,
    /// The name of the issuer of these tokens; further ones are names it has had
    #[arg(long, value_name = "URL", value_delimiter = ',', default_value = AccountIssuer::DEFAULT_NAME, help_heading = "Authentication")]
    service_account_issuer: Vec<String>,
    /// Where others find the public keys, if not at this server
    #[arg(long, value_name = "URL", help_heading = "Authentication")]
    service_account_jwks_uri: Option<String>,
    /// How long tokens of service accounts last at most
    #[arg(long, value_name = "DURATION", help_heading = "Authentication")]
    service_account_max_token_expiration: Option<GoDuration>,
    /// What this server is called in tokens that are meant for it [default: the issuer]
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = "Authentication"
    )]
    api_audiences: Vec<String>,
    /// Know new machines by the bootstrap tokens in kube-system
    #[arg(long, help_heading = "Authentication")]
    enable_bootstrap_token_auth: bool,
    /// Keep kubectl out; advice to people, because a client says itself what it is called
    #[arg(long, help_heading = "Authentication")]
    kubectl_disabled: bool,
    /// Let kubectl in only with tokens that expire soon; advice to people, as above
    #[arg(long, help_heading = "Authentication")]
    kubectl_ephemeral_token: bool,
    /// How soon
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Duration::from_secs(3600)), help_heading = "Authentication")]
    kubectl_ephemeral_duration: GoDuration,
}

/// How clients are known. The files have not been read.
#[derive(Debug)]
pub(crate) struct AuthnConfig {
    token_file: Option<PathBuf>,
    signing_key: Option<PathBuf>,
    more_keys: Vec<PathBuf>,
    issuers: Vec<String>,
    audiences: Vec<String>,
    most_seconds: Option<i64>,
    keys_url: Option<String>,
    bootstrap_tokens: bool,
    kubectl: KubectlRules,
}

impl AuthnArgs {
    /// Checks what one flag alone cannot show to be wrong.
    pub(crate) fn config(self) -> Result<AuthnConfig, Usage> {
        let AuthnArgs {
            token_auth_file,
            service_account_signing_key_file,
            service_account_key_file,
            service_account_issuer,
            service_account_jwks_uri,
            service_account_max_token_expiration,
            api_audiences,
            enable_bootstrap_token_auth,
            kubectl_disabled,
            kubectl_ephemeral_token,
            kubectl_ephemeral_duration,
        } = self;
        for issuer in &service_account_issuer {
            let is_url = issuer.split_once("://").is_some_and(|(_, rest)| !rest.is_empty());
            if issuer.is_empty() || issuer == "windlass" || (issuer.contains(':') && !is_url) {
                let found = format!("--service-account-issuer {issuer:?}");
                return Err(Usage(format!("{found}: expected a URL such as https://api.example.org")));
            }
        }
        if let Some(url) = service_account_jwks_uri.as_ref().filter(|url| !url.starts_with("https://")) {
            return Err(Usage(format!("--service-account-jwks-uri {url}: expected an https URL")));
        }
        let (least, most) = MAX_EXPIRATION;
        if let Some(given) =
            service_account_max_token_expiration.filter(|given| given.0 < least || given.0 > most)
        {
            return Err(Usage(format!(
                "--service-account-max-token-expiration {given}: expected between 1h and 2^32 seconds"
            )));
        }
        let ephemeral = SignedDuration::try_from(kubectl_ephemeral_duration.0);
        let ephemeral = ephemeral.ok().filter(|most| most.is_positive()).ok_or_else(|| {
            Usage("--kubectl-ephemeral-duration: expected a duration above zero, such as 1h".into())
        })?;
        let own = service_account_issuer.first().cloned();
        Ok(AuthnConfig {
            token_file: token_auth_file,
            signing_key: service_account_signing_key_file,
            more_keys: service_account_key_file,
            audiences: if api_audiences.is_empty() { own.into_iter().collect() } else { api_audiences },
            issuers: service_account_issuer,
            most_seconds: service_account_max_token_expiration.map(|most| most.0.as_secs() as i64),
            keys_url: service_account_jwks_uri,
            bootstrap_tokens: enable_bootstrap_token_auth,
            kubectl: KubectlRules {
                disabled: kubectl_disabled,
                ephemeral: kubectl_ephemeral_token.then_some(ephemeral),
            },
        })
    }
}

impl AuthnConfig {
    /// Reads what the flags name and what is in `folder`, making what is missing, and says what to follow.
    pub(crate) fn prepare(self, folder: &Path) -> anyhow::Result<(Authentication, Files)> {
        let AuthnConfig {
            token_file,
            signing_key,
            more_keys,
            issuers,
            audiences,
            most_seconds,
            keys_url,
            bootstrap_tokens,
            kubectl,
        } = self;
        let signing = match signing_key {
            Some(path) => {
                warn_if_open(&path);
                named(&path, "--service-account-signing-key-file", SigningKey::from_pem)?
            }
            None => own_key(&folder.join(ACCOUNT_KEY))?,
        };
        let mut others = vec![];
        for path in more_keys {
            others.append(&mut named(&path, "--service-account-key-file", PublicKey::from_pem)?);
        }
        let issuer = AccountIssuer::new(signing, others);
        let issuer = AccountIssuer { issuers, audiences, most_seconds, keys_url, ..issuer };
        let mut authentication = Authentication {
            accounts: Some(Arc::new(issuer)),
            bootstrap_tokens,
            kubectl,
            ..Authentication::default()
        };
        let mut files = Files::default();
        if let Some(path) = &token_file {
            files.add(follow_tokens(path, &mut authentication)?);
        }
        files.add(follow_user_key(&folder.join(USER_KEY), &authentication)?);
        files.add(follow_revoked(&folder.join(REVOKED), &authentication)?);
        Ok((authentication, files))
    }
}

/// Reads a file that a flag names.
fn named<T, E: std::fmt::Display>(
    path: &Path,
    flag: &str,
    read: impl FnOnce(&[u8]) -> Result<T, E>,
) -> anyhow::Result<T> {
    let fault = |why: String| Usage(format!("{flag} {}: {why}", path.display()));
    let text = fs::read(path).map_err(|error| fault(error.to_string()))?;
    Ok(read(&text).map_err(|error| fault(error.to_string()))?)
}

/// Reads a key of ours, or makes it.
fn own_key(path: &Path) -> anyhow::Result<SigningKey> {
    match read_key(path)? {
        Some(key) => Ok(key),
        None => {
            let pem = SigningKey::generate_pem().context("cannot make a key")?;
            write_file(path, pem.as_bytes(), 0o600)?;
            SigningKey::from_pem(pem.as_bytes()).context("a key that was just made is good")
        }
    }
}

/// Reads a key of ours; nothing if there is none.
fn read_key(path: &Path) -> anyhow::Result<Option<SigningKey>> {
    let pem = match fs::read(path) {
        Ok(pem) => pem,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    make_private(path)?;
    let key = SigningKey::from_pem(&pem).map_err(|error| {
        let hint =
            "put a copy back, or remove it to make a new one; the tokens that it signed are no good then";
        anyhow!("{} is damaged: {error}\nhint: {hint}", path.display())
    })?;
    Ok(Some(key))
}

/// The key that signs tokens of users, made if there is none.
pub(crate) fn user_key(folder: &Path) -> anyhow::Result<SigningKey> {
    own_key(&folder.join(USER_KEY))
}

/// Where the tokens are listed that are no good any more.
pub(crate) fn revoked_file(folder: &Path) -> PathBuf {
    folder.join(REVOKED)
}

/// Reads the token file, which must be good the first time.
fn follow_tokens(path: &Path, into: &mut Authentication) -> anyhow::Result<Followed> {
    let tokens = into.token_file.insert(Arc::new(arc_swap::ArcSwap::from_pointee(no_tokens()?)));
    let (first, later) = (Arc::clone(tokens), Arc::clone(tokens));
    Followed::new(
        path,
        move |path| {
            warn_if_open(path);
            let read = read_tokens(path).map_err(|(line, why)| {
                let place = if line == 0 { String::new() } else { format!(" line {line}:") };
                Usage(format!("--token-auth-file {}:{place} {why}", path.display()))
            });
            first.store(Arc::new(read?));
            Ok(())
        },
        move |path| match read_tokens(path) {
            Ok(file) => {
                tracing::info!(file = %path.display(), n_tokens = file.len(), "the token file has been read again");
                later.store(Arc::new(file));
            }
            Err((line, why)) => {
                tracing::error!(file = %path.display(), line, why, "the token file cannot be used; the last good one stays");
            }
        },
    )
}

fn no_tokens() -> anyhow::Result<TokenFile> {
    Ok(TokenFile::parse("", b"").context("an empty token file is good")?.0)
}

fn read_tokens(path: &Path) -> Result<TokenFile, (usize, String)> {
    let text = fs::read(path).map_err(|error| (0, error.to_string()))?;
    let name = path.display().to_string();
    let (file, warnings) = TokenFile::parse(&name, &text).map_err(|error| (error.line, error.why))?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Ok(file)
}

/// Takes up the key of tokens of users. When it is gone, so are these tokens.
fn follow_user_key(path: &Path, into: &Authentication) -> anyhow::Result<Followed> {
    let keys = |path: &Path| -> anyhow::Result<KeySet> {
        Ok(KeySet::new(read_key(path)?.iter().map(|key| key.public().clone()).collect()))
    };
    let (first, later) = (Arc::clone(&into.user_keys), Arc::clone(&into.user_keys));
    Followed::new(
        path,
        move |path| {
            first.store(Arc::new(keys(path)?));
            Ok(())
        },
        move |path| match keys(path) {
            Ok(set) => {
                tracing::info!(file = %path.display(), n_keys = set.keys().len(), "the key of user tokens is another");
                later.store(Arc::new(set));
            }
            Err(error) => {
                // Whoever damages the key wants an end of what it signed.
                later.store(Arc::default());
                tracing::error!(error = crate::exit::chain(&error), "no user token is good");
            }
        },
    )
}

/// Takes up the list of revoked tokens. What cannot be read revokes what the last one did.
fn follow_revoked(path: &Path, into: &Authentication) -> anyhow::Result<Followed> {
    let (first, later) = (Arc::clone(&into.revoked), Arc::clone(&into.revoked));
    Followed::new(
        path,
        move |path| {
            first.store(Arc::new(read_revoked(path)?));
            Ok(())
        },
        move |path| match read_revoked(path) {
            Ok(revoked) => later.store(Arc::new(revoked)),
            Err(error) => {
                tracing::error!(error = crate::exit::chain(&error), "the last good list stays");
            }
        },
    )
}

fn read_revoked(path: &Path) -> anyhow::Result<Revoked> {
    match fs::read_to_string(path) {
        Ok(text) => {
            let long = || {
                let path = path.display();
                format!(
                    "{path} has more than {MOST_REVOKED} bytes\nhint: take out the ids of tokens that have expired"
                )
            };
            Revoked::parse(&text).with_context(long)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Revoked::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        authn: AuthnArgs,
    }

    fn config(flags: &str) -> Result<AuthnConfig, String> {
        let line = Line::try_parse_from(["windlass"].into_iter().chain(flags.split_whitespace()));
        line.map_err(|error| error.to_string())?.authn.config().map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_issuer_is_the_audience_where_none_is_named() {
        let usual = config("").expect("no flag is needed");
        assert_eq!(usual.issuers, [AccountIssuer::DEFAULT_NAME]);
        assert_eq!(usual.audiences, [AccountIssuer::DEFAULT_NAME]);
        assert_eq!((usual.kubectl, usual.most_seconds), (KubectlRules::default(), None));
        let flags = "--service-account-issuer https://a --service-account-issuer https://b \
                     --service-account-max-token-expiration 2h --kubectl-ephemeral-token";
        let given = config(flags).expect("good flags");
        assert_eq!(
            (given.issuers, given.audiences),
            (vec!["https://a".to_owned(), "https://b".to_owned()], vec!["https://a".to_owned()])
        );
        assert_eq!(given.most_seconds, Some(7200));
        assert_eq!(given.kubectl.ephemeral, Some(SignedDuration::from_hours(1)));
        assert_eq!(config("--api-audiences x,y").expect("good flags").audiences, ["x", "y"]);
    }

    #[test]
    fn bad_flags_are_named() {
        for (flags, named) in [
            ("--service-account-issuer a:b", "--service-account-issuer"),
            ("--service-account-issuer windlass", "--service-account-issuer"),
            ("--service-account-jwks-uri http://x", "--service-account-jwks-uri"),
            ("--service-account-max-token-expiration 59m", "--service-account-max-token-expiration"),
            ("--kubectl-ephemeral-duration 0", "--kubectl-ephemeral-duration"),
            ("--api-audiences=", "--api-audiences"),
            ("--api-audiences a,,b", "--api-audiences"),
        ] {
            let error = config(flags).expect_err(flags);
            assert!(error.contains(named), "{flags}: {error}");
        }
    }

    #[test]
    fn the_key_of_accounts_is_made_once_and_for_its_owner() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let prepare = || config("").expect("no flag is needed").prepare(folder.path()).expect("a key");
        let id = |(authentication, _): (Authentication, Files)| {
            let issuer = authentication.accounts.expect("an issuer");
            issuer.signing.public().id().map(str::to_owned)
        };
        assert_eq!(id(prepare()), id(prepare()));
        let mode = fs::metadata(folder.path().join(ACCOUNT_KEY)).expect("a key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(!folder.path().join(USER_KEY).exists(), "nobody has asked for it");
        fs::write(folder.path().join(ACCOUNT_KEY), "rot").expect("the folder is ours");
        let error =
            config("").expect("no flag is needed").prepare(folder.path()).err().expect("a damaged key");
        assert!(error.to_string().contains("damaged"), "{error}");
    }

    #[test]
    fn a_file_that_a_flag_names_must_be_good() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("file");
        for (flag, text, why) in [
            ("--token-auth-file", Some("a,b,c\nd,e"), "line 2: token file"),
            ("--token-auth-file", None, "No such file"),
            ("--service-account-signing-key-file", Some("nothing"), "no key"),
            ("--service-account-key-file", Some("nothing"), "no key"),
        ] {
            match text {
                Some(text) => fs::write(&file, text).expect("the folder is ours"),
                None => fs::remove_file(&file).expect("it is there"),
            }
            let config = config(&format!("{flag} {}", file.display())).expect("good flags");
            let error = config.prepare(folder.path()).err().expect(flag);
            assert!(error.downcast_ref::<Usage>().is_some(), "{error}");
            let error = error.to_string();
            assert!(error.contains(flag) && error.contains(why), "{error}");
        }
    }
}
