//! Who clients are, and of what they may be told.
//!
//! The protocol knows neither, and SDKs send nothing of the kind, so everybody may know everything unless somebody asks
//! for more. Then clients show a certificate or a token, the API server says whose a token is, and whether they may
//! `subscribe` to a kind in a namespace under the name of an app. What was allowed is asked again and again.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::pending,
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Request, Status};
use xxhash_rust::xxh3::xxh3_128;

use crate::{serve::Peer, status, topic::Topic};

/// What the API server has said is so for this long. It is asked again as often, so whoever loses a right is told nothing
/// more after twice as long.
const LIFETIME: Duration = Duration::from_secs(5);

/// How long it may take to say so.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much of it is remembered.
const MOST_REMEMBERED: usize = 100_000;

/// What is asked for.
const VERB: &str = "subscribe";

/// A client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub name: String,
    /// The groups.
    pub groups: Vec<String>,
    uid: Option<String>,
    extra: Option<BTreeMap<String, Vec<String>>>,
    /// The token that it has shown, for it may be taken back.
    token: Option<Token>,
}

impl Identity {
    /// The owner of a certificate.
    pub(crate) fn certified(name: String, groups: Vec<String>) -> Self {
        Identity { name, groups, ..Identity::default() }
    }
}

/// A token, which stands in no log.
#[derive(Clone, PartialEq, Eq)]
struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Answers that are remembered for a while.
#[derive(Debug)]
struct Memory<Q, A>(Mutex<HashMap<Q, (A, Instant)>>);

impl<Q, A> Default for Memory<Q, A> {
    fn default() -> Self {
        Memory(Mutex::default())
    }
}

impl<Q: Eq + Hash, A: Clone> Memory<Q, A> {
    fn get(&self, question: &Q) -> Option<A> {
        let memory = self.0.lock();
        memory.get(question).filter(|(_, since)| since.elapsed() < LIFETIME).map(|(answer, _)| answer.clone())
    }

    fn put(&self, question: Q, answer: A) {
        let mut memory = self.0.lock();
        if memory.len() >= MOST_REMEMBERED {
            memory.retain(|_, (_, since)| since.elapsed() < LIFETIME);
        }
        if memory.len() >= MOST_REMEMBERED {
            memory.clear();
        }
        memory.insert(question, (answer, Instant::now()));
    }
}

#[derive(Debug)]
struct Guard {
    reviews: Reviews,
    audiences: Option<Vec<String>>,
    tokens: Memory<u128, Result<Arc<Identity>, String>>,
    rights: Memory<u128, bool>,
}

struct Reviews {
    tokens: Api<TokenReview>,
    rights: Api<SubjectAccessReview>,
}

impl fmt::Debug for Reviews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reviews")
    }
}

/// Says who may know what.
#[derive(Clone, Debug)]
pub struct Access(Option<Arc<Guard>>);

impl Access {
    /// Everybody may know everything.
    pub fn open() -> Self {
        Access(None)
    }

    /// The API server decides.
    pub fn reviewed(client: Client, audiences: Option<Vec<String>>) -> Self {
        let reviews = Reviews { tokens: Api::all(client.clone()), rights: Api::all(client) };
        Access(Some(Arc::new(Guard {
            reviews,
            audiences,
            tokens: Memory::default(),
            rights: Memory::default(),
        })))
    }

    /// Who has sent a request. Nobody, if nobody asks.
    pub(crate) async fn identify<T>(&self, request: &Request<T>) -> Result<Option<Arc<Identity>>, Status> {
        let Some(guard) = &self.0 else { return Ok(None) };
        if let Some(identity) = request.extensions().get::<Peer>().and_then(|peer| peer.identity.clone()) {
            return Ok(Some(identity));
        }
        let header = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
        let token = header.and_then(|header| header.split_once(' ')).filter(|(scheme, token)| {
            // As everywhere, case does not matter here.
            scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()
        });
        let Some((_, token)) = token else {
            return Err(status::unauthenticated(
                "expected \"authorization: Bearer TOKEN\", or a client certificate with a common name",
            ));
        };
        guard.whose(token.trim()).await.map(Some)
    }

    /// Why a client may not be told of a topic, in words, if it may not. An error is no answer.
    pub(crate) async fn refuses(
        &self,
        who: Option<&Arc<Identity>>,
        topic: &Topic,
    ) -> Result<Option<String>, Status> {
        let (Some(guard), Some(who)) = (&self.0, who) else { return Ok(None) };
        let may = guard.may(who, topic).await.map_err(|error| {
            tracing::warn!(error, "it cannot be told what clients may do");
            status::cannot_tell()
        })?;
        Ok((!may).then(|| {
            let (kind, app) = (topic.kind.kind(), &topic.app);
            format!(
                "{:?} may not {VERB} to {}.{} {:?} in the namespace {:?}",
                who.name, kind.plural, kind.group, app.name, app.namespace
            )
        }))
    }

    /// Asks again and again whether a client still is who it was, and may know what it is told; why not, as soon as that is
    /// so.
    pub(crate) fn revoked(
        &self,
        who: Option<&Arc<Identity>>,
        topics: impl Fn() -> Vec<Topic> + Send + 'static,
    ) -> BoxFuture<'static, Status> {
        let (Some(guard), Some(who)) = (&self.0, who) else { return Box::pin(pending()) };
        let (guard, who) = (Arc::clone(guard), Arc::clone(who));
        Box::pin(async move {
            loop {
                sleep(LIFETIME).await;
                if let Err(status) = guard.still_may(&who, topics()).await {
                    return status;
                }
            }
        })
    }
}

impl Guard {
    async fn still_may(&self, who: &Identity, topics: Vec<Topic>) -> Result<(), Status> {
        if let Some(Token(token)) = &who.token {
            match self.whose(token).await {
                Ok(found) if found.name == who.name => {}
                Ok(_) => return Err(status::unauthenticated("the token is somebody else's now")),
                // An API server that does not answer has not said no.
                Err(status) if status.code() == Code::Unavailable => return Ok(()),
                Err(status) => return Err(status),
            }
        }
        for topic in topics {
            match self.may(who, &topic).await {
                Ok(true) => {}
                Ok(false) => {
                    let text = format!("{:?} may no longer know {}", who.name, topic.app);
                    return Err(status::no_longer_allowed(text));
                }
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    async fn whose(&self, token: &str) -> Result<Arc<Identity>, Status> {
        let question = xxh3_128(token.as_bytes());
        if let Some(answer) = self.tokens.get(&question) {
            return answer.map_err(status::unauthenticated);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), audiences: self.audiences.clone() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review = reviewed(&self.reviews.tokens, &review).await.map_err(|error| {
            tracing::warn!(error, "it cannot be told who clients are");
            status::cannot_tell()
        })?;
        let review = review.status.unwrap_or_default();
        let answer = match review.user.filter(|_| review.authenticated == Some(true)) {
            Some(user) => Ok(Arc::new(Identity {
                name: user.username.unwrap_or_default(),
                groups: user.groups.unwrap_or_default(),
                uid: user.uid,
                extra: user.extra,
                token: Some(Token(token.to_owned())),
            })),
            None => Err(review.error.unwrap_or_else(|| "nobody knows this token".to_owned())),
        };
        self.tokens.put(question, answer.clone());
        answer.map_err(status::unauthenticated)
    }

    async fn may(&self, who: &Identity, topic: &Topic) -> Result<bool, String> {
        let kind = topic.kind.kind();
        let attributes = ResourceAttributes {
            verb: Some(VERB.to_owned()),
            group: Some(kind.group.to_owned()),
            version: Some(kind.version.to_owned()),
            resource: Some(kind.plural.to_owned()),
            namespace: Some(topic.app.namespace.to_string()),
            name: Some(topic.app.name.to_string()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(who.name.clone()),
            groups: Some(who.groups.clone()),
            uid: who.uid.clone(),
            extra: who.extra.clone(),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        // Everything that is asked counts: whoever answers may go by any of it.
        let question = serde_json::to_vec(&spec).map_err(|error| error.to_string())?;
        let question = xxh3_128(&question);
        if let Some(answer) = self.rights.get(&question) {
            return Ok(answer);
        }
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let review = reviewed(&self.reviews.rights, &review).await?;
        let answer = review.status.is_some_and(|status| status.allowed);
        self.rights.put(question, answer);
        Ok(answer)
    }
}

/// What the API server makes of a question. An error is no answer.
async fn reviewed<K>(api: &Api<K>, question: &K) -> Result<K, String>
where
    K: Clone + fmt::Debug + Serialize + DeserializeOwned,
{
    match timeout(PATIENCE, api.create(&PostParams::default(), question)).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("the API server has not answered for {} s", PATIENCE.as_secs())),
    }
}
