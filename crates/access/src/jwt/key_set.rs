//! Keys that change rarely, and the tokens that they have verified so far.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ring::digest;

use super::{Algorithm, Claims, PublicKey, Token, TokenError};

/// Most tokens that are remembered, of a kilobyte or so each. A client sends the same one with every request, and
/// to verify a signature takes longer than everything else about a small request.
const MOST_REMEMBERED: usize = 4096;

/// Keys, and what the tokens said that they have signed. Only good tokens are remembered, by a digest.
#[derive(Default)]
pub struct KeySet {
    keys: Vec<PublicKey>,
    remembered: Mutex<HashMap<[u8; 32], Arc<Claims>>>,
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySet").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl KeySet {
    /// A set of these keys.
    pub fn new(keys: Vec<PublicKey>) -> Self {
        KeySet { keys, remembered: Mutex::default() }
    }

    /// The keys.
    pub fn keys(&self) -> &[PublicKey] {
        &self.keys
    }

    /// What a token says, if one of the keys has signed it; `None` when it is of another issuer, or no token. Whether
    /// it is good now is still to be checked.
    pub fn verify(
        &self,
        text: &str,
        is_issuer: impl Fn(&str) -> bool,
    ) -> Option<Result<Arc<Claims>, TokenError>> {
        let mut id = [0; 32];
        id.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
        if let Some(claims) = self.remembered().get(&id) {
            return is_issuer(claims.text("iss")).then(|| Ok(Arc::clone(claims)));
        }
        let token = Token::parse(text).ok().filter(|token| is_issuer(token.unverified_issuer()))?;
        let claims = token.verify(&self.keys, &Algorithm::ALL).map(Arc::new);
        if let Ok(claims) = &claims {
            let mut remembered = self.remembered();
            if remembered.len() >= MOST_REMEMBERED {
                remembered.clear();
            }
            remembered.insert(id, Arc::clone(claims));
        }
        Some(claims)
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<[u8; 32], Arc<Claims>>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
