//! What went wrong, as RFC 9457 says it: the one place where errors become answers.

use core::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use tenant::{BadShare, StoreError};
use utoipa::ToSchema;

/// A kind of problem: the last part of its type, its status and its title. They stay as they are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    BadRequest,
    Unauthenticated,
    Forbidden,
    Suspended,
    NotFound,
    MethodNotAllowed,
    TooSlow,
    NameTaken,
    DoneBefore,
    KeyEnded,
    Full,
    Stale,
    TooLarge,
    NotJson,
    Invalid,
    NameReused,
    IfMatchNeeded,
    TooManyFailures,
    TooManyNames,
    TooManyReports,
    Broken,
    StoreAway,
}

impl Kind {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 22] = [
        Self::BadRequest,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::Suspended,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::TooSlow,
        Self::NameTaken,
        Self::DoneBefore,
        Self::KeyEnded,
        Self::Full,
        Self::Stale,
        Self::TooLarge,
        Self::NotJson,
        Self::Invalid,
        Self::NameReused,
        Self::IfMatchNeeded,
        Self::TooManyFailures,
        Self::TooManyNames,
        Self::TooManyReports,
        Self::Broken,
        Self::StoreAway,
    ];

    pub(crate) const fn says(self) -> (&'static str, StatusCode, &'static str) {
        match self {
            Self::BadRequest => ("bad-request", StatusCode::BAD_REQUEST, "The request cannot be read"),
            Self::Unauthenticated => ("unauthenticated", StatusCode::UNAUTHORIZED, "No key that works"),
            Self::Forbidden => ("forbidden", StatusCode::FORBIDDEN, "This key may not do that"),
            Self::Suspended => ("suspended", StatusCode::FORBIDDEN, "The tenant is suspended"),
            Self::NotFound => ("not-found", StatusCode::NOT_FOUND, "There is no such thing"),
            Self::MethodNotAllowed => {
                ("method-not-allowed", StatusCode::METHOD_NOT_ALLOWED, "Not with this method")
            }
            Self::TooSlow => ("too-slow", StatusCode::REQUEST_TIMEOUT, "The body did not come in time"),
            Self::NameTaken => ("name-taken", StatusCode::CONFLICT, "Another has this name"),
            Self::DoneBefore => ("done-before", StatusCode::CONFLICT, "This request was done before"),
            Self::KeyEnded => ("key-ended", StatusCode::CONFLICT, "The key works no more"),
            Self::Full => ("full", StatusCode::CONFLICT, "No more of these fit"),
            Self::Stale => ("stale", StatusCode::PRECONDITION_FAILED, "It was changed meanwhile"),
            Self::TooLarge => ("too-large", StatusCode::PAYLOAD_TOO_LARGE, "The body is too large"),
            Self::NotJson => ("not-json", StatusCode::UNSUPPORTED_MEDIA_TYPE, "JSON is needed"),
            Self::Invalid => ("invalid", StatusCode::UNPROCESSABLE_ENTITY, "What is asked cannot be"),
            Self::NameReused => (
                "idempotency-key-reused",
                StatusCode::UNPROCESSABLE_ENTITY,
                "The Idempotency-Key is another request's",
            ),
            Self::IfMatchNeeded => {
                ("if-match-needed", StatusCode::PRECONDITION_REQUIRED, "An If-Match header is needed")
            }
            Self::TooManyFailures => {
                ("too-many-failures", StatusCode::TOO_MANY_REQUESTS, "Too many keys that do not work")
            }
            Self::TooManyNames => {
                ("too-many-idempotency-keys", StatusCode::TOO_MANY_REQUESTS, "Too many Idempotency-Keys")
            }
            Self::TooManyReports => {
                ("too-many-reports", StatusCode::TOO_MANY_REQUESTS, "Too many reports of leaked keys")
            }
            Self::Broken => ("broken", StatusCode::INTERNAL_SERVER_ERROR, "The server cannot answer"),
            Self::StoreAway => ("store-away", StatusCode::SERVICE_UNAVAILABLE, "The store does not answer"),
        }
    }
}

/// Why a request was not done.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    kind: Kind,
    detail: String,
    asked: Option<u64>,
    allowed: Option<u64>,
    id: Option<String>,
    retry_after_s: Option<u64>,
}

/// A problem as it is answered (RFC 9457, `application/problem+json`).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemView<'a> {
    /// What kind of problem it is: a relative reference that stays as it is.
    r#type: String,
    /// The kind in words, always the same.
    title: &'a str,
    /// The status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What was wrong with this request.
    detail: &'a str,
    /// The request's id, as in `x-request-id`.
    instance: String,
    /// The number that was asked for, where one was too high.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0)]
    asked: Option<u64>,
    /// The most that is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0)]
    allowed: Option<u64>,
    /// The id of what was made when the same was asked before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    id: Option<&'a str>,
}

/// The media type of problems.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { kind, detail, asked: None, allowed: None, id: None, retry_after_s: None }
    }

    pub(crate) fn numbers(self, asked: impl Into<u64>, allowed: impl Into<u64>) -> Self {
        Self { asked: Some(asked.into()), allowed: Some(allowed.into()), ..self }
    }

    pub(crate) fn of(self, id: Option<String>) -> Self {
        Self { id, ..self }
    }

    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after_s: Some(wait.as_secs().saturating_add(1)), ..self }
    }

    /// The same for all that is not there and all that is another's.
    pub(crate) fn not_found() -> Self {
        Self::new(Kind::NotFound, "nothing of this id is within the reach of this key")
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    /// The answer, in which the request has this id.
    pub(crate) fn render(&self, instance: &str) -> Response {
        let (kind, status, title) = self.kind.says();
        let view = ProblemView {
            r#type: format!("/problems/{kind}"),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            instance: format!("urn:uuid:{instance}"),
            asked: self.asked,
            allowed: self.allowed,
            id: self.id.as_deref(),
        };
        // A struct of texts and numbers is always JSON.
        let body = serde_json::to_string(&view).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if self.kind == Kind::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, wait.into());
        }
        response
    }
}

impl IntoResponse for Problem {
    /// An answer without a body: [`crate::trace`] renders it, which knows the request's id.
    fn into_response(self) -> Response {
        let mut response = self.kind.says().1.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let detail = error.to_string();
        match error {
            StoreError::NameTaken => Self::new(Kind::NameTaken, detail),
            StoreError::Stale => Self::new(Kind::Stale, detail),
            StoreError::Repeated => Self::new(Kind::DoneBefore, detail),
            StoreError::TooManyAnswers { allowed } => {
                let asked = u64::from(allowed).saturating_add(1);
                let problem = Self::new(Kind::TooManyNames, detail).numbers(asked, allowed);
                problem.retry_after(Duration::from_secs(3_600))
            }
            StoreError::NoSuchTenant(_)
            | StoreError::NoSuchProject(_)
            | StoreError::NoSuchKey(_)
            | StoreError::NoSuchGateway => Self::not_found(),
            StoreError::ActorEnded => Self::new(Kind::Unauthenticated, detail),
            StoreError::KeyEnded(_) => Self::new(Kind::KeyEnded, detail),
            StoreError::OverlapTooLong { asked, allowed } => {
                Self::new(Kind::Invalid, detail).numbers(asked.as_secs(), allowed.as_secs())
            }
            StoreError::WindowCapTooHigh { asked, allowed }
            | StoreError::ConcurrencyTooHigh { asked, allowed }
            | StoreError::BadShare(BadShare::FloorAboveCap { floor: asked, cap: allowed }) => {
                Self::new(Kind::Invalid, detail).numbers(asked, allowed)
            }
            StoreError::BadShare(BadShare::WeightTooHigh { asked }) => {
                Self::new(Kind::Invalid, detail).numbers(asked, tenant::WEIGHT_MAX)
            }
            StoreError::BudgetTooHigh { asked, allowed } => {
                Self::new(Kind::Invalid, detail).numbers(asked, allowed)
            }
            StoreError::UsageTooLong { allowed } => {
                Self::new(Kind::Invalid, detail).numbers(u64::from(allowed).saturating_add(1), allowed)
            }
            StoreError::Scopes(_) | StoreError::NoLimits | StoreError::ExpiryPassed => {
                Self::new(Kind::Invalid, detail)
            }
            StoreError::Full { limit } => {
                Self::new(Kind::Full, detail).numbers(u64::from(limit).saturating_add(1), limit)
            }
            StoreError::TenantFull { held, allowed, .. } => {
                Self::new(Kind::Full, detail).numbers(u64::from(held).saturating_add(1), allowed)
            }
            StoreError::NoSuchEvent => {
                Self::new(Kind::BadRequest, "`after` is not the `next` of a page of this listing")
            }
            StoreError::Database(_) => {
                // What a database says of itself is the operator's to read, not the client's.
                tracing::error!(error = %detail, "the store fails the Admin API");
                let detail = "try again; whether something was changed is not known, but a request with an Idempotency-Key is not done twice";
                Self::new(Kind::StoreAway, detail).retry_after(Duration::ZERO)
            }
            StoreError::BadAddress
            | StoreError::UnknownParameter(_)
            | StoreError::NotPostgres
            | StoreError::WrongPepper
            | StoreError::File(_)
            | StoreError::Schema(_)
            | StoreError::Damaged { .. }
            | StoreError::NoRandomness => {
                tracing::error!(error = %detail, "the Admin API cannot use the store");
                Self::new(Kind::Broken, "the log of the server says more, under this instance's id")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_type_of_its_own_and_stands_in_the_docs() {
        let page = include_str!("../../docs/admin-api.md");
        let mut seen = std::collections::HashSet::new();
        for kind in Kind::ALL {
            let (name, status, title) = kind.says();
            assert!(seen.insert(name) && status.as_u16() >= 400, "{name}");
            let line = format!("| `/problems/{name}` | {} | {title} |", status.as_u16());
            assert!(page.lines().any(|one| one == line), "docs/admin-api.md has no line\n{line}");
        }
    }
}
