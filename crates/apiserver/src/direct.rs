//! Asking the server inside of its own process: no socket and no TLS, but the same way for every request, from
//! authentication on.
//!
//! [`Direct`] is a tower service, which is what `kube::Client` speaks to.

use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use tokio::task::JoinHandle;
use tower::Service;
use windlass_access::{User, authn::Peer};

use crate::{ApiServer, http::Body, server::failure, status::Status};

/// Someone who asks the server directly.
#[derive(Clone)]
pub struct Direct {
    server: Arc<ApiServer>,
    user: Arc<User>,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl Direct {
    /// `user` is known as if by a certificate, and may do what roles allow.
    pub fn new(server: &Arc<ApiServer>, user: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(ToString::to_string).collect();
        Direct { server: Arc::clone(server), user: Arc::new(User::new(user, groups).authenticated()) }
    }
}

impl<B> Service<Request<B>> for Direct
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Answering {
        request
            .extensions_mut()
            .insert(Peer { certificate: Some(Arc::clone(&self.user)), ..Peer::default() });
        let server = Arc::clone(&self.server);
        // A task of its own, as on a connection: requests that are awaited together run on all threads.
        Answering(tokio::spawn(async move {
            let is_draining = *server.draining().borrow();
            match is_draining {
                // It takes no more connections either.
                true => gone(),
                false => server.handle(request).await,
            }
        }))
    }
}

fn gone() -> Response<Body> {
    failure(&Status::unavailable("the server is shutting down"))
}

/// A request under way. It ends when nobody waits for it, as one does whose connection is closed.
#[derive(Debug)]
pub struct Answering(JoinHandle<Response<Body>>);

impl Future for Answering {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.0).poll(cx);
        answer.map(|answer| Ok(answer.unwrap_or_else(|_| gone())))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.abort();
    }
}
