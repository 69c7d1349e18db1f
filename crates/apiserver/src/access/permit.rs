//! Leave to go on: for what lasts longer than a request, such as a watch.
//!
//! A permit remembers what its holder showed and wanted. Every few seconds it is asked for anew, by the way that a request
//! takes; so whoever loses a role or a token loses what they have opened with it, soon after.

use std::{sync::Arc, time::Duration};

use http::HeaderMap;
use tokio::time::Instant;
use windlass_access::{
    Attributes, Wanted,
    authn::{Peer, Shown},
};

use super::Access;
use crate::status::Outcome;

/// How long a permit holds at most before it is asked for anew.
const HOLDS: Duration = Duration::from_secs(4);

/// Leave to go on.
pub(crate) struct Permit {
    access: Arc<Access>,
    peer: Peer,
    headers: HeaderMap,
    path: String,
    wanted: Owned,
    due: Instant,
}

/// Attributes that last.
struct Owned {
    verb: String,
    wanted: OwnedWanted,
}

enum OwnedWanted {
    /// Group, version, resource, subresource, namespace, name.
    Resource([String; 6]),
    Path(String),
}

impl Owned {
    fn new(attributes: &Attributes<'_>) -> Self {
        let wanted = match attributes.wanted {
            Wanted::Resource { group, version, resource, subresource, namespace, name } => {
                let all = [group, version, resource, subresource, namespace, name];
                OwnedWanted::Resource(all.map(str::to_owned))
            }
            Wanted::Path(path) => OwnedWanted::Path(path.to_owned()),
        };
        Owned { verb: attributes.verb.to_owned(), wanted }
    }

    fn borrow(&self) -> Attributes<'_> {
        let wanted = match &self.wanted {
            OwnedWanted::Resource([group, version, resource, subresource, namespace, name]) => {
                Wanted::Resource { group, version, resource, subresource, namespace, name }
            }
            OwnedWanted::Path(path) => Wanted::Path(path),
        };
        Attributes { verb: &self.verb, wanted }
    }
}

impl Permit {
    /// A permit for what has just been allowed at a path.
    pub(crate) fn new(
        access: &Arc<Access>,
        shown: Shown<'_>,
        path: &str,
        attributes: &Attributes<'_>,
    ) -> Self {
        Permit {
            access: Arc::clone(access),
            peer: shown.peer.clone(),
            headers: shown.kept(),
            path: path.to_owned(),
            wanted: Owned::new(attributes),
            due: next(),
        }
    }

    /// When it is to be asked for anew.
    pub(crate) fn due(&self) -> Instant {
        self.due
    }

    /// Asks for it anew if that is due; why it no longer holds.
    pub(crate) async fn renew(&mut self) -> Outcome<()> {
        if Instant::now() < self.due {
            return Ok(());
        }
        self.due = next();
        let shown = Shown { peer: &self.peer, headers: &self.headers };
        self.access.ask(shown, &self.path, &self.wanted.borrow()).await
    }
}

/// Not all at the same time: those that began together would be asked for together for ever.
fn next() -> Instant {
    Instant::now() + HOLDS.mul_f64(0.5 + 0.5 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;
    use jiff::Timestamp;
    use windlass_access::{
        MASTERS, User,
        authn::{Authenticator, Chain, Identity, Refusal},
        issuers::Issuers,
    };
    use windlass_store::{Memory, Store};

    use super::*;
    use crate::access::{Authentication, Rights};

    /// Knows everyone for as long as it is good.
    struct Key(AtomicBool);

    #[async_trait]
    impl Authenticator for Key {
        fn name(&self) -> &'static str {
            "key"
        }

        async fn authenticate(&self, shown: Shown<'_>) -> Result<Option<Identity>, Refusal> {
            assert_eq!(shown.bearer(), Some("secret"), "what was shown is kept");
            match self.0.load(Ordering::Relaxed) {
                false => Err(Refusal { by: self.name(), why: "revoked".to_owned() }),
                true => {
                    let user = Arc::new(User::new("ann", vec![MASTERS.to_owned()]));
                    Ok(Some(Identity { user, by: self.name(), expires: None }))
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_ends_soon_after_what_was_shown_is_no_longer_good() {
        let key = Arc::new(Key(AtomicBool::new(true)));
        let store: Arc<dyn Store> = Arc::new(Memory::new().expect("a store in memory can be made"));
        let (rights, catalog) = (Rights::new(Arc::clone(&store)), Arc::default());
        let issuers = Arc::new(Issuers::new(Timestamp::now));
        let access = Access::new(&Authentication::default(), &issuers, &store, &catalog, &rights);
        let mut access = access.expect("there is nothing to go wrong");
        access.chain = Chain::new(vec![Arc::clone(&key) as _]);
        let access = Arc::new(access);
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer secret".parse().expect("a value"));
        headers.insert("x-other", "value".parse().expect("a value"));
        let shown = Shown { peer: &Peer::default(), headers: &headers };
        let attributes = Attributes { verb: "get", wanted: Wanted::Path("/metrics") };
        let mut permit = Permit::new(&access, shown, "/metrics", &attributes);
        assert_eq!(permit.headers.len(), 1, "nothing else is kept");
        for _ in 0..10 {
            tokio::time::advance(HOLDS).await;
            permit.renew().await.expect("it holds");
        }
        key.0.store(false, Ordering::Relaxed);
        permit.renew().await.expect("it is not due yet");
        tokio::time::advance(HOLDS).await;
        assert_eq!(permit.renew().await.expect_err("it is revoked").code, 401);
    }
}
