//! The flags about issuers of tokens: a configuration file, or the classic flags for one issuer.

use std::{fs, path::PathBuf};

use windlass_apiserver::{Classic, IssuerConfig};

use crate::args::Usage;

/// Whose tokens are trusted. The files have not been read.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct IssuerArgs {
    /// An AuthenticationConfiguration: whose tokens are trusted, and what becomes of them; read anew when it changes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["oidc_issuer_url", "oidc_client_id"], help_heading = "Issuers")]
    authentication_config: Option<PathBuf>,

    /// The issuer whose OpenID tokens are trusted, such as `https://accounts.example.org`
    #[arg(long, value_name = "URL", requires = "oidc_client_id", help_heading = "Issuers")]
    oidc_issuer_url: Option<String>,
    /// Whom its tokens must be meant for
    #[arg(long, value_name = "ID", requires = "oidc_issuer_url", help_heading = "Issuers")]
    oidc_client_id: Option<String>,
    /// The claim that is the user's name
    #[arg(long, value_name = "CLAIM", default_value = "sub", help_heading = "Issuers")]
    oidc_username_claim: String,
    /// What stands before the names; "-" is nothing [default: the issuer and #, except before addresses]
    #[arg(
        long,
        value_name = "PREFIX",
        requires = "oidc_issuer_url",
        allow_hyphen_values = true,
        help_heading = "Issuers"
    )]
    oidc_username_prefix: Option<String>,
    /// The claim that is the user's groups
    #[arg(long, value_name = "CLAIM", requires = "oidc_issuer_url", help_heading = "Issuers")]
    oidc_groups_claim: Option<String>,
    /// What stands before the groups
    #[arg(long, value_name = "PREFIX", requires = "oidc_issuer_url", help_heading = "Issuers")]
    oidc_groups_prefix: Option<String>,
    /// A claim that tokens must have, and its value; may be given several times
    #[arg(long, value_name = "CLAIM=VALUE", value_delimiter = ',', value_parser = required_claim, requires = "oidc_issuer_url", help_heading = "Issuers")]
    oidc_required_claim: Vec<(String, String)>,
    /// The authority that signed the issuer's certificate [default: those that the system trusts]
    #[arg(long, value_name = "FILE", requires = "oidc_issuer_url", help_heading = "Issuers")]
    oidc_ca_file: Option<PathBuf>,
    /// How its tokens may be signed
    #[arg(
        long,
        value_name = "ALG",
        value_delimiter = ',',
        default_value = "RS256",
        help_heading = "Issuers"
    )]
    oidc_signing_algs: Vec<String>,
}

fn required_claim(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((claim, value)) if !claim.is_empty() => Ok((claim.to_owned(), value.to_owned())),
        _ => Err("expected CLAIM=VALUE".to_owned()),
    }
}

impl IssuerArgs {
    /// Reads the files. What is wrong with them is told by the flag that names them. Nobody else may be called what the
    /// server itself is in tokens of service accounts.
    pub(crate) fn load(self, own_issuers: &[String]) -> Result<Option<IssuerConfig>, Usage> {
        let IssuerArgs {
            authentication_config,
            oidc_issuer_url,
            oidc_client_id,
            oidc_username_claim,
            oidc_username_prefix,
            oidc_groups_claim,
            oidc_groups_prefix,
            oidc_required_claim,
            oidc_ca_file,
            oidc_signing_algs,
        } = self;
        if let Some(path) = authentication_config {
            let config = IssuerConfig::from_file(&path, own_issuers);
            let wrong = |why| Usage(format!("--authentication-config {}: {why}", path.display()));
            return config.map(Some).map_err(wrong);
        }
        let Some(issuer_url) = oidc_issuer_url else { return Ok(None) };
        let authorities = match &oidc_ca_file {
            None => String::new(),
            Some(path) => fs::read_to_string(path)
                .map_err(|error| Usage(format!("--oidc-ca-file {}: {error}", path.display())))?,
        };
        let flag = format!("--oidc-issuer-url {issuer_url}");
        let classic = Classic {
            issuer_url,
            client_id: oidc_client_id.unwrap_or_default(),
            username_claim: oidc_username_claim,
            username_prefix: oidc_username_prefix.unwrap_or_default(),
            groups_claim: oidc_groups_claim.unwrap_or_default(),
            groups_prefix: oidc_groups_prefix.unwrap_or_default(),
            required_claims: oidc_required_claim,
            authorities,
            signing_algorithms: oidc_signing_algs,
        };
        let config = IssuerConfig::from_flags(&classic, own_issuers);
        config.map(Some).map_err(|why| Usage(format!("{flag}: {why}")))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    const OWN_ISSUER: &str = "https://own.example.org";

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        issuers: IssuerArgs,
    }

    fn load(flags: &str) -> Result<bool, String> {
        let line = Line::try_parse_from(["windlass"].into_iter().chain(flags.split_whitespace()));
        let loaded = line.map_err(|error| error.to_string())?.issuers.load(&[OWN_ISSUER.to_owned()]);
        loaded.map(|config| config.is_some()).map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_nobody_is_trusted() {
        assert_eq!(load(""), Ok(false));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_was_expected() {
        const CLASSIC: &str = "--oidc-issuer-url https://a.b --oidc-client-id c";
        assert_eq!(load(CLASSIC), Ok(true));
        let more = "--oidc-username-prefix - --oidc-required-claim a=b,c=d --oidc-signing-algs RS256,ES256";
        assert_eq!(load(&format!("{CLASSIC} {more}")), Ok(true));
        for (flags, named, expected) in [
            ("--authentication-config /nowhere", "--authentication-config /nowhere", "No such file"),
            (
                &format!("--authentication-config f {CLASSIC}"),
                "--authentication-config",
                "cannot be used with",
            ),
            ("--oidc-issuer-url https://a.b", "--oidc-client-id", "required"),
            ("--oidc-client-id a", "--oidc-issuer-url", "required"),
            ("--oidc-groups-claim a", "--oidc-issuer-url", "required"),
            ("--oidc-issuer-url http://a.b --oidc-client-id c", "--oidc-issuer-url", "scheme must be https"),
            (&format!("{CLASSIC} --oidc-required-claim a"), "--oidc-required-claim", "expected CLAIM=VALUE"),
            (&format!("{CLASSIC} --oidc-signing-algs HS256"), "--oidc-signing-algs", "expected one of RS256"),
            (&format!("{CLASSIC} --oidc-ca-file /nowhere"), "--oidc-ca-file /nowhere", "No such file"),
            (
                &format!("--oidc-issuer-url {OWN_ISSUER} --oidc-client-id c"),
                "--oidc-issuer-url",
                "must not overlap with disallowed issuers",
            ),
        ] {
            let error = load(flags).expect_err(flags);
            assert!(error.contains(named) && error.contains(expected), "{flags}: {error}");
        }
    }
}
