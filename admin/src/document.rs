//! All routes, and the OpenAPI document that is made of them.

use std::collections::BTreeMap;

use axum::extract::DefaultBodyLimit;
use axum::{Extension, Router};
use http::StatusCode;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi as Document, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses, Modify, OpenApi};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::asked::BodyMax;
use crate::house::Shared;
use crate::leaks::REPORT_BYTES_MAX;
use crate::prices::PRICES_BYTES_MAX;
use crate::problem::{PROBLEM_JSON, ProblemView};
use crate::{budgets, events, keys, leaks, limits, prices, projects, tenants, usage};

/// The OpenAPI 3.1 document, as `GET /openapi.json` answers it.
pub fn document() -> Document {
    routes_and_document().1
}

/// All routes. Each stands in the document.
pub(crate) fn routes_and_document() -> (Router<Shared>, Document) {
    OpenApiRouter::with_openapi(Head::openapi())
        .routes(routes!(tenants::list, tenants::create))
        .routes(routes!(tenants::get, tenants::change))
        .routes(routes!(projects::list, projects::create))
        .routes(routes!(projects::get))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::get))
        .routes(routes!(keys::rotate))
        .routes(routes!(keys::revoke))
        .routes(bounded(routes!(leaks::report), REPORT_BYTES_MAX))
        .routes(routes!(limits::list))
        .routes(routes!(limits::get, limits::set, limits::change))
        .routes(routes!(budgets::list))
        .routes(routes!(budgets::get, budgets::set, budgets::lift))
        .routes(bounded(routes!(prices::get, prices::set), PRICES_BYTES_MAX))
        .routes(routes!(usage::get))
        .routes(routes!(events::list))
        .split_for_parts()
}

/// Routes whose bodies have a bound of their own.
fn bounded(routes: UtoipaMethodRouter<Shared>, bytes_max: usize) -> UtoipaMethodRouter<Shared> {
    let routes: UtoipaMethodRouter<Shared> = routes.layer(DefaultBodyLimit::max(bytes_max));
    routes.layer(Extension(BodyMax(bytes_max)))
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Bulkhead Admin API",
        description = "Tenants, projects, keys, limits, budgets, prices, usage, and what was changed. Every error is a problem of RFC 9457.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "/")),
    components(schemas(ProblemView)),
    security(("person" = [])),
    modifiers(&Key),
)]
struct Head;

struct Key;

impl Modify for Key {
    fn modify(&self, document: &mut Document) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("A person's key, as `bulkhead key create --for owner` makes one"))
            .build();
        let components = document.components.get_or_insert_with(Default::default);
        components.add_security_scheme("person", SecurityScheme::Http(scheme));
    }
}

/// Problems of all that is asked.
const READING: [(StatusCode, &str); 7] = [
    (StatusCode::BAD_REQUEST, "The request cannot be read"),
    (StatusCode::UNAUTHORIZED, "No key that works"),
    (StatusCode::FORBIDDEN, "This key may not do that, or its tenant is suspended"),
    (StatusCode::NOT_FOUND, "Nothing of this id is within the reach of this key"),
    (
        StatusCode::TOO_MANY_REQUESTS,
        "Too many keys that do not work came from this address, or too many names of requests, or reports",
    ),
    (StatusCode::INTERNAL_SERVER_ERROR, "The server cannot answer"),
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "The store does not answer; whether something was changed is not known",
    ),
];
/// The problem of what can be read and yet not be.
const ASKING: (StatusCode, &str) =
    (StatusCode::UNPROCESSABLE_ENTITY, "What is asked cannot be, or something else had this Idempotency-Key");
/// Problems of all that has a body.
const WRITING: [(StatusCode, &str); 5] = [
    (StatusCode::REQUEST_TIMEOUT, "The body did not come in time"),
    (StatusCode::CONFLICT, "It cannot be as things are, or was done before"),
    (StatusCode::PAYLOAD_TOO_LARGE, "The body is too large"),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "JSON is needed"),
    ASKING,
];
/// Problems of what is changed only as it is expected to look.
const MATCHING: [(StatusCode, &str); 2] = [
    (StatusCode::PRECONDITION_FAILED, "It was changed meanwhile"),
    (StatusCode::PRECONDITION_REQUIRED, "An If-Match header is needed"),
];

/// The header of a request that shall be done once.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its shape is used; `asked` reads the header")]
pub(crate) struct Named {
    /// Names the request: sent again within 24 h with the same body, it is not done again, and answered as before.
    #[param(rename = "idempotency-key", min_length = 1, max_length = 128, pattern = "^[!-~]+$")]
    idempotency_key: Option<String>,
}

/// The header of a change of what was seen.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its shape is used; `asked` reads the header")]
pub(crate) struct Matching {
    /// The ETag of what was seen, or `*`.
    #[param(rename = "if-match", pattern = r#"^(\*|"[0-9a-f]{32}")$"#)]
    if_match: String,
}

type Responses = BTreeMap<String, RefOr<Response>>;

/// What a look is refused with.
pub(crate) struct Reading;
/// What a look at what may not be is refused with.
pub(crate) struct Looking;
/// What the making of something is refused with.
pub(crate) struct Creating;
/// What a change of what was seen is refused with.
pub(crate) struct Changing;
/// What a report is refused with.
pub(crate) struct Reporting;
/// What the end of something is refused with.
pub(crate) struct Ending;
/// What the end of what was seen is refused with.
pub(crate) struct Lifting;

impl IntoResponses for Reading {
    fn responses() -> Responses {
        problems(READING.iter())
    }
}

impl IntoResponses for Looking {
    fn responses() -> Responses {
        problems(READING.iter().chain([&ASKING]))
    }
}

impl IntoResponses for Lifting {
    fn responses() -> Responses {
        problems(READING.iter().chain([&ASKING]).chain(&MATCHING))
    }
}

impl IntoResponses for Creating {
    fn responses() -> Responses {
        problems(READING.iter().chain(&WRITING))
    }
}

impl IntoResponses for Reporting {
    fn responses() -> Responses {
        let all = READING.iter().chain(&WRITING);
        problems(
            all.filter(|(status, _)| *status != StatusCode::NOT_FOUND && *status != StatusCode::CONFLICT),
        )
    }
}

impl IntoResponses for Changing {
    fn responses() -> Responses {
        problems(READING.iter().chain(&WRITING).chain(&MATCHING))
    }
}

impl IntoResponses for Ending {
    fn responses() -> Responses {
        problems(READING.iter())
    }
}

fn problems<'a>(of: impl Iterator<Item = &'a (StatusCode, &'a str)>) -> Responses {
    of.map(|(status, says)| (status.as_str().to_owned(), problem(says).into())).collect()
}

fn problem(says: &str) -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(says).content(PROBLEM_JSON, content).build()
}
