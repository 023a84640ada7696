//! What is answered when all went well.

use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use tenant::Version;

use crate::problem::{Kind, Problem};

/// Says that an answer is that of a request which was done before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A body of JSON, with the headers of what it shows.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
    version: Option<Version>,
    location: Option<String>,
    is_replayed: bool,
}

impl Answer {
    pub(crate) fn ok(body: &impl Serialize) -> Result<Self, Problem> {
        let body = serde_json::to_string(body)
            .map_err(|_| Problem::new(Kind::Broken, "the answer cannot be written"))?;
        Ok(Self { status: StatusCode::OK, body, version: None, location: None, is_replayed: false })
    }

    /// The answer to a request that was done before.
    pub(crate) fn replayed(status: u16, body: String) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
        Self { status, body, version: None, location: None, is_replayed: true }
    }

    /// Shows one thing, that looks like this.
    pub(crate) fn version(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Shows what was made, and where it is from now on.
    pub(crate) fn created(self, location: String) -> Self {
        Self { status: StatusCode::CREATED, location: Some(location), ..self }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let etag = self.version.and_then(|version| HeaderValue::from_str(&format!("\"{version}\"")).ok());
        etag.map(|etag| headers.insert(header::ETAG, etag));
        let location = self.location.and_then(|location| HeaderValue::from_str(&location).ok());
        location.map(|location| headers.insert(header::LOCATION, location));
        if self.is_replayed {
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        response
    }
}
