//! A line to an API server that can be cut, muted and mended.

use std::task::{Context, Poll};

use futures_util::{StreamExt, future::BoxFuture};
use http::{Request, Response};
use http_body_util::{BodyExt, BodyStream, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use tokio::sync::watch;
use tonic::codegen::{Bytes, Service, StdError};

/// How a line is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Up,
    Cut,
    Mute,
}

/// A line. What goes over it ends in the middle when it is cut, and is never answered when it is mute.
pub(crate) struct Line(watch::Sender<State>);

impl Line {
    /// One that is cut, or is not.
    pub(crate) fn new(is_up: bool) -> Self {
        Line(watch::channel(if is_up { State::Up } else { State::Cut }).0)
    }

    pub(crate) fn cut(&self) {
        self.0.send_replace(State::Cut);
    }

    pub(crate) fn mute(&self) {
        self.0.send_replace(State::Mute);
    }

    pub(crate) fn mend(&self) {
        self.0.send_replace(State::Up);
    }

    /// A client at the end of the line.
    pub(crate) fn client(&self, client: &Client) -> Client {
        self.client_in("default", client)
    }

    /// A client at the end of the line, whose home is a namespace.
    pub(crate) fn client_in(&self, namespace: &str, client: &Client) -> Client {
        Client::new(Wire { client: client.clone(), state: self.0.subscribe() }, namespace)
    }
}

#[derive(Clone)]
struct Wire {
    client: Client,
    state: watch::Receiver<State>,
}

impl Service<Request<Body>> for Wire {
    type Response = Response<UnsyncBoxBody<Bytes, kube::Error>>;
    type Error = StdError;
    type Future = BoxFuture<'static, Result<Self::Response, StdError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Wire { client, mut state } = self.clone();
        Box::pin(async move {
            if *state.wait_for(|state| *state != State::Mute).await? == State::Cut {
                return Err("the line is cut".into());
            }
            let response = client.send(request).await?;
            Ok(response.map(|body| {
                let cut = Box::pin(async move { drop(state.wait_for(|state| *state == State::Cut).await) });
                let body = body.map_err(|error| kube::Error::Service(Box::new(error)));
                StreamBody::new(BodyStream::new(body).take_until(cut)).boxed_unsync()
            }))
        })
    }
}
