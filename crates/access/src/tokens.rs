//! Static tokens: a file that says which token is whose.
//!
//! The file is CSV as kube-apiserver reads it: `token,user,uid` and, if there are any, the groups in one quoted
//! column: `token,user,uid,"group1,group2"`. Only keyed digests of tokens are kept. Start at [`TokenFile::parse`].

use std::{collections::HashMap, fmt, sync::Arc};

use ring::{hmac, rand::SystemRandom};

use crate::User;

/// Most bytes of a file. It is read into memory whole, and again whenever it changes.
pub const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Why a file is not taken. Never says what a token is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct TokenFileError {
    /// The line, counted from one; 0 when it is about the whole file.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

/// Which token is whose.
pub struct TokenFile {
    /// Made for this file alone, so that how long a search takes says nothing about what is in it.
    key: hmac::Key,
    by_prefix: HashMap<[u8; 8], Entry>,
}

struct Entry {
    digest: [u8; 32],
    user: Arc<User>,
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile").field("n_tokens", &self.by_prefix.len()).finish_non_exhaustive()
    }
}

impl TokenFile {
    /// Reads a file called `name`, and says what is odd about it.
    pub fn parse(name: &str, text: &[u8]) -> Result<(Self, Vec<String>), TokenFileError> {
        let fault = |line: usize, why: &str| TokenFileError { line, why: why.to_owned() };
        if text.len() > MOST_BYTES {
            return Err(fault(0, "the token file is larger than 16 MiB"));
        }
        let text = std::str::from_utf8(text).map_err(|error| {
            let line = text[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            fault(line, "the token file is not UTF-8")
        })?;
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let key = key.map_err(|_| fault(0, "the system has no randomness"))?;
        let mut file = TokenFile { key, by_prefix: HashMap::new() };
        let mut warnings = vec![];
        for (idx, record) in records(text)?.into_iter().enumerate() {
            let Record { line, columns } = record;
            let [token, user, uid, rest @ ..] = columns.as_slice() else {
                let why = format!(
                    "token file '{name}' must have at least 3 columns (token, user name, user uid), found {}",
                    columns.len()
                );
                return Err(fault(line, &why));
            };
            if token.is_empty() {
                let number = idx + 1;
                warnings.push(format!(
                    "empty token has been found in token file '{name}', record number '{number}'"
                ));
                continue;
            }
            let groups = rest.first().filter(|groups| !groups.is_empty());
            let groups = groups.into_iter().flat_map(|groups| groups.split(',')).map(str::to_owned).collect();
            let user = User { uid: uid.clone(), ..User::new(user.as_str(), groups) };
            if file.insert(token, user.authenticated()) {
                let number = idx + 1;
                warnings.push(format!(
                    "duplicate token has been found in token file '{name}', record number '{number}'"
                ));
            }
        }
        Ok((file, warnings))
    }

    /// Whose token this is.
    pub fn find(&self, token: &str) -> Option<&Arc<User>> {
        let entry = self.by_prefix.get(&prefix(&self.digest(token)))?;
        hmac::verify(&self.key, token.as_bytes(), &entry.digest).is_ok().then_some(&entry.user)
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.by_prefix.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_prefix.is_empty()
    }

    /// Takes a token; says whether it was there.
    fn insert(&mut self, token: &str, user: User) -> bool {
        let digest = self.digest(token);
        self.by_prefix.insert(prefix(&digest), Entry { digest, user: Arc::new(user) }).is_some()
    }

    fn digest(&self, token: &str) -> [u8; 32] {
        let mut digest = [0; 32];
        digest.copy_from_slice(hmac::sign(&self.key, token.as_bytes()).as_ref());
        digest
    }
}

fn prefix(digest: &[u8; 32]) -> [u8; 8] {
    let mut prefix = [0; 8];
    prefix.copy_from_slice(&digest[..8]);
    prefix
}

/// Whether two secrets are the same, in a time that says nothing about where they differ.
pub fn is_same_secret(one: &[u8], other: &[u8]) -> bool {
    let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
    key.is_ok_and(|key| hmac::verify(&key, one, hmac::sign(&key, other).as_ref()).is_ok())
}

struct Record {
    /// Where it begins.
    line: usize,
    columns: Vec<String>,
}

/// The records of a CSV file. Empty lines are none; a quoted column may hold commas, line ends and doubled quotes.
fn records(text: &str) -> Result<Vec<Record>, TokenFileError> {
    let (mut found, mut rest, mut line) = (vec![], text, 1);
    while !rest.is_empty() {
        let begins = line;
        let mut columns = vec![];
        loop {
            let (column, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted_column(quoted, &mut line)?,
                None => plain_column(rest, line)?,
            };
            columns.push(column);
            rest = after;
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')).unwrap_or("");
        line += 1;
        if columns != [""] {
            found.push(Record { line: begins, columns });
        }
    }
    Ok(found)
}

/// A column without quotes, and what follows it.
fn plain_column(text: &str, line: usize) -> Result<(String, &str), TokenFileError> {
    let end = text.find([',', '\n']).unwrap_or(text.len());
    let end = if text[..end].ends_with('\r') && !text[end..].starts_with(',') { end - 1 } else { end };
    let (column, rest) = text.split_at(end);
    match column.contains('"') {
        true => Err(TokenFileError { line, why: "bare \" in non-quoted field".to_owned() }),
        // At the end of the file, a line may end in half a line end.
        false => Ok((column.to_owned(), if rest == "\r" { "" } else { rest })),
    }
}

/// A column behind its first quote, and what follows its last.
fn quoted_column<'a>(text: &'a str, line: &mut usize) -> Result<(String, &'a str), TokenFileError> {
    let fault =
        |line: usize| TokenFileError { line, why: "extraneous or missing \" in quoted-field".to_owned() };
    let (mut column, mut rest, begins) = (String::new(), text, *line);
    loop {
        let (part, after) = rest.split_once('"').ok_or_else(|| fault(begins))?;
        column += part;
        *line += part.matches('\n').count();
        match after.strip_prefix('"') {
            Some(more) => {
                column.push('"');
                rest = more;
            }
            None if after.is_empty() || after.starts_with([',', '\n']) || after.starts_with("\r\n") => {
                return Ok((column, after));
            }
            None => return Err(fault(*line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (TokenFile, Vec<String>) {
        TokenFile::parse("tokens.csv", text.as_bytes()).unwrap_or_else(|error| panic!("{text:?}: {error}"))
    }

    #[test]
    fn tokens_are_read_as_kubernetes_reads_them() {
        let (file, warnings) = parse(
            "secret1,jane,7\r\n\nsecret2,\"joe, the \"\"second\"\"\",8,\"admins,devs\",more\nsecret3,\"a\nb\",9,ops",
        );
        assert_eq!((file.len(), warnings), (3, vec![]));
        let jane = file.find("secret1").expect("jane");
        assert_eq!((jane.name.as_str(), jane.uid.as_str()), ("jane", "7"));
        assert_eq!(jane.groups, ["system:authenticated"]);
        let joe = file.find("secret2").expect("joe");
        assert_eq!(joe.name, "joe, the \"second\"");
        assert_eq!(joe.groups, ["admins", "devs", "system:authenticated"]);
        assert_eq!(file.find("secret3").expect("a name over two lines").name, "a\nb");
        for other in ["", "secret", "secret11", "SECRET1", "jane", "secret1 "] {
            assert!(file.find(other).is_none(), "{other:?} is a token");
        }
    }

    #[test]
    fn odd_lines_are_told_and_the_last_of_two_wins() {
        let (file, warnings) = parse(",nobody,0\nsecret,jane,1\nsecret,joe,2\n");
        assert_eq!(file.find("secret").expect("one of them").name, "joe");
        assert!(file.find("").is_none());
        let [empty, twice] = warnings.as_slice() else { panic!("{warnings:?}") };
        assert!(empty.contains("empty token") && empty.contains("record number '1'"), "{empty}");
        assert!(twice.contains("duplicate token") && twice.contains("record number '3'"), "{twice}");
        assert!(!twice.contains("secret"), "{twice}");
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, line, why) in [
            (
                "a,b,c\n\"x\ny\",b\n",
                2,
                "token file 'tokens.csv' must have at least 3 columns (token, user name, user uid), found 2",
            ),
            ("a,b,c\nd,e", 2, "found 2"),
            ("a,b,c\nd,\"e,f\n", 2, "extraneous or missing \" in quoted-field"),
            ("a,\"b\"x,c", 1, "extraneous or missing \" in quoted-field"),
            ("a,b,c\n\na,b\"x\",c", 3, "bare \" in non-quoted field"),
        ] {
            let error = TokenFile::parse("tokens.csv", text.as_bytes()).expect_err(text);
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.why.contains(why), "{text:?}: {error}");
        }
        let error = TokenFile::parse("t", b"a,b,c\n\xff").expect_err("no text");
        assert_eq!(error.line, 2);
        assert!(TokenFile::parse("t", &vec![b'\n'; MOST_BYTES + 1]).is_err());
    }

    #[test]
    fn nothing_shows_a_token() {
        let (file, _) = parse("canary-token,jane,1");
        assert!(!format!("{file:?}").contains("canary"), "{file:?}");
    }
}
