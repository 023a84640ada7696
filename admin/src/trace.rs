//! What surrounds each request: its id, its deadline, its line in the log, and the body of its problem.

use core::time::Duration;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, header};
use tenant::KeyId;
use uuid::Uuid;

use crate::problem::{Kind, Problem};

/// From the last byte of a request's head to its answer, at most. The store gives up before that by itself.
const REQUEST_MAX: Duration = Duration::from_secs(60);

/// Names a request, in answers and in the log.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is noted of a request while it is answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Arc<OnceLock<KeyId>>);

impl Trace {
    pub(crate) fn note(&self, key: KeyId) {
        // One request has one key: the first is the only one.
        self.0.get_or_init(|| key);
    }
}

/// Gives each request an id, and each answer what all have.
pub(crate) async fn around(mut request: Request, next: Next) -> Response {
    let (id, began, trace) = (Uuid::now_v7().to_string(), Instant::now(), Trace::default());
    request.extensions_mut().insert(trace.clone());
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let answered = tokio::time::timeout(REQUEST_MAX, next.run(request)).await;
    let mut response = answered.unwrap_or_else(|_| {
        Problem::new(Kind::StoreAway, "no answer in time; look whether it was done").into_response()
    });
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let allow = response.headers_mut().remove(header::ALLOW);
        response = problem.render(&id);
        allow.map(|allow| response.headers_mut().insert(header::ALLOW, allow));
        tracing::debug!(request = %id, kind = problem.kind().says().0, "refused");
    }
    let headers = response.headers_mut();
    // 36 characters of a UUID are a header.
    headers.insert(REQUEST_ID, HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("-")));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    tracing::info!(
        request = %id,
        %method,
        // The pattern, not the path: that is the client's to choose.
        path = path.as_ref().map_or("-", MatchedPath::as_str),
        status = response.status().as_u16(),
        key = trace.0.get().map_or("-", |key| key.as_str()),
        ms = began.elapsed().as_millis(),
        "admin api"
    );
    response
}
