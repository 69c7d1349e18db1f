//! From the claims of a token to a user: rules that must hold, and what becomes name, groups, id and the rest.
//!
//! The words of a failure name claims and rules; they are for logs, not for whoever shows the token.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_cel::{Budget, Program, Value as Cel, Variables};

use crate::User;

/// Where the id of a token stands among what is known of a user.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The claims whose values are elsewhere.
const CLAIM_NAMES: &str = "_claim_names";

/// Everything an issuer's tokens are made users by.
#[derive(Debug)]
pub(super) struct Mappings {
    pub(super) rules: Vec<ClaimRule>,
    pub(super) username: Source,
    pub(super) groups: Option<Source>,
    pub(super) uid: Option<Source>,
    pub(super) extra: Vec<(String, Expression)>,
    pub(super) user_rules: Vec<Rule>,
}

/// Where a value comes from.
#[derive(Debug)]
pub(super) enum Source {
    /// A claim, and what is put before each of its values.
    Claim { name: String, prefix: String },
    /// What an expression over the claims comes to.
    Expression(Expression),
}

/// An expression, compiled.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) source: String,
    pub(super) program: Program,
}

/// What must hold for claims.
#[derive(Debug)]
pub(super) enum ClaimRule {
    /// A claim is there and is this text.
    Required { claim: String, value: String },
    /// An expression holds.
    Rule(Rule),
}

/// An expression that must hold, and what is said when it does not.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) expression: Expression,
    pub(super) message: String,
}

impl Mappings {
    /// The user whom these claims are about.
    pub(super) fn user(&self, claims: &Value) -> Result<User, String> {
        let mut budget = Budget::default();
        let given = Given { claims, budget: &mut budget };
        self.map(given)
    }

    fn map(&self, mut given: Given<'_>) -> Result<User, String> {
        let mut user = User {
            name: self.username(&mut given)?,
            uid: match &self.uid {
                Some(source) => given.text(source).map_err(|why| format!("uid: {why}"))?,
                None => String::new(),
            },
            groups: match &self.groups {
                Some(source) => given.groups(source).map_err(|why| format!("groups: {why}"))?,
                None => vec![],
            },
            extra: BTreeMap::new(),
        };
        if let Some(Value::String(id)) = given.claims.get("jti").filter(|id| **id != "") {
            user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        }
        for (key, expression) in &self.extra {
            let values = given.eval(expression, texts).map_err(|why| format!("extra {key:?}: {why}"))?;
            if !values.is_empty() {
                user.extra.insert(key.clone(), values);
            }
        }
        for rule in &self.rules {
            match rule {
                ClaimRule::Required { claim, value } => match given.claims.get(claim) {
                    Some(Value::String(text)) if text == value => {}
                    Some(Value::String(_)) => {
                        return Err(format!("required claim {claim} value does not match"));
                    }
                    Some(_) => return Err(format!("required claim {claim} is no string")),
                    None => return Err(format!("required claim {claim} not present in ID token")),
                },
                ClaimRule::Rule(rule) => given.hold("claims", given.claims, rule)?,
            }
        }
        let known = json!({
            "username": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra,
        });
        for rule in &self.user_rules {
            given.hold("user", &known, rule)?;
        }
        Ok(user.authenticated())
    }

    fn username(&self, given: &mut Given<'_>) -> Result<String, String> {
        if let Source::Claim { name, .. } = &self.username
            && name == "email"
            && given.claims.get("email_verified").is_some_and(|verified| *verified != true)
        {
            return Err("username: email not verified".to_owned());
        }
        let bare = match &self.username {
            Source::Claim { name, .. } => given.claims.get(name) == Some(&Value::String(String::new())),
            Source::Expression(_) => false,
        };
        let name = given.text(&self.username).map_err(|why| format!("username: {why}"))?;
        match bare || name.is_empty() {
            true => Err("username: it is empty".to_owned()),
            false => Ok(name),
        }
    }
}

/// What a token says, and what may still be spent on looking at it.
struct Given<'a> {
    claims: &'a Value,
    budget: &'a mut Budget,
}

impl Given<'_> {
    fn text(&mut self, source: &Source) -> Result<String, String> {
        match source {
            Source::Claim { name, prefix } => match self.claims.get(name) {
                Some(Value::String(text)) => Ok(format!("{prefix}{text}")),
                Some(_) => Err(format!("claim {name:?} is no string")),
                None => Err(format!("claim {name:?} not present")),
            },
            Source::Expression(expression) => self.eval(expression, |value| match value.as_str() {
                Some(text) => Ok(text.to_owned()),
                None => Err("expression must return a string".to_owned()),
            }),
        }
    }

    fn groups(&mut self, source: &Source) -> Result<Vec<String>, String> {
        let (name, prefix) = match source {
            Source::Claim { name, prefix } => (name, prefix),
            Source::Expression(expression) => return self.eval(expression, texts),
        };
        let claim = match self.claims.get(name) {
            Some(claim) => claim,
            None if self.claims.get(CLAIM_NAMES).is_some_and(|names| names.get(name).is_some()) => {
                return Err(format!("claim {name:?} is distributed, which is not supported"));
            }
            None => return Ok(vec![]),
        };
        let prefixed = |value: &Value| match value {
            Value::String(text) => Ok(format!("{prefix}{text}")),
            _ => Err(format!("claim {name:?} is neither a string nor a list of strings")),
        };
        match claim {
            Value::Array(list) => list.iter().map(prefixed).collect(),
            one => Ok(vec![prefixed(one)?]),
        }
    }

    fn eval<T>(
        &mut self,
        expression: &Expression,
        read: impl FnOnce(&Cel<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let variables = Variables::new().json("claims", self.claims);
        let outcome = expression.program.eval(&variables, self.budget).map_err(|error| error.to_string());
        let outcome = outcome.and_then(|value| read(&value));
        outcome.map_err(|why| format!("expression '{}' failed: {why}", expression.source))
    }

    fn hold(&mut self, variable: &str, value: &Value, rule: &Rule) -> Result<(), String> {
        let Rule { expression, message } = rule;
        let variables = Variables::new().json(variable, value);
        let failed = |why: &str| format!("validation expression '{}' failed: {why}", expression.source);
        match expression.program.eval(&variables, self.budget) {
            Ok(value) if value.as_bool() == Some(true) => Ok(()),
            Ok(_) => Err(failed(message)),
            Err(error) => Err(failed(&error.to_string())),
        }
    }
}

/// A text or a list of them; empty ones and null are nothing.
fn texts(value: &Cel<'_>) -> Result<Vec<String>, String> {
    let wrong = || "expression must return a string or a list of strings".to_owned();
    let list = match value.to_json().map_err(|_| wrong())? {
        Value::Null if !matches!(value, Cel::Optional(_)) => return Ok(vec![]),
        Value::String(text) if value.as_str().is_some() => vec![Value::String(text)],
        Value::Array(list) => list,
        _ => return Err(wrong()),
    };
    let text = |value| match value {
        Value::String(text) => Ok(text),
        _ => Err(wrong()),
    };
    let all: Result<Vec<String>, String> = list.into_iter().map(text).collect();
    Ok(all?.into_iter().filter(|text| !text.is_empty()).collect())
}
