//! A line to an API server that can be cut and mended.

use std::task::{Context, Poll};

use futures_util::{StreamExt, future::BoxFuture};
use http::{Request, Response};
use http_body_util::{BodyExt, BodyStream, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use tokio::sync::watch;
use tonic::codegen::{Bytes, Service, StdError};

/// A line. What goes over it ends in the middle when it is cut.
pub(crate) struct Line(watch::Sender<bool>);

impl Line {
    /// One that is cut, or is not.
    pub(crate) fn new(is_up: bool) -> Self {
        Line(watch::channel(is_up).0)
    }

    pub(crate) fn cut(&self) {
        self.0.send_replace(false);
    }

    pub(crate) fn mend(&self) {
        self.0.send_replace(true);
    }

    /// A client at the end of the line.
    pub(crate) fn client(&self, client: &Client) -> Client {
        Client::new(Wire { client: client.clone(), is_up: self.0.subscribe() }, "default")
    }
}

#[derive(Clone)]
struct Wire {
    client: Client,
    is_up: watch::Receiver<bool>,
}

impl Service<Request<Body>> for Wire {
    type Response = Response<UnsyncBoxBody<Bytes, kube::Error>>;
    type Error = StdError;
    type Future = BoxFuture<'static, Result<Self::Response, StdError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Wire { client, mut is_up } = self.clone();
        Box::pin(async move {
            if !*is_up.borrow_and_update() {
                return Err("the line is cut".into());
            }
            let response = client.send(request).await?;
            Ok(response.map(|body| {
                let cut = Box::pin(async move { drop(is_up.wait_for(|is_up| !is_up).await) });
                let body = body.map_err(|error| kube::Error::Service(Box::new(error)));
                StreamBody::new(BodyStream::new(body).take_until(cut)).boxed_unsync()
            }))
        })
    }
}
