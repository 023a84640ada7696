//! The phases of a request, as Pingora calls them. Each request is answered here; none is proxied by Pingora itself.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use http::Method;
use pingora::proxy::{ProxyHttp, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorType, Result};
use tenant::{EndpointScope, Principal};

use super::body;
use super::client::Downstream;
use crate::answer::{Denied, Forbidden};
use crate::fault::{Fault, seeded};
use crate::house::House;
use crate::openai::Endpoint;
use crate::status;

/// Which listener a connection came by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    /// Clients.
    Public,
    /// The operator: status and metrics too.
    Admin,
}

/// What a path asks for.
enum Route {
    Live,
    Ready,
    Status,
    Metrics,
    Models,
    Model(String),
    Call(Endpoint),
}

pub(super) struct Phases {
    pub(super) house: Arc<House>,
    pub(super) role: Role,
}

#[async_trait]
impl ProxyHttp for Phases {
    type CTX = Instant;

    fn new_ctx(&self) -> Instant {
        Instant::now()
    }

    async fn upstream_peer(&self, _: &mut Session, _: &mut Instant) -> Result<Box<HttpPeer>> {
        // Never reached: `request_filter` answers each request. Refused all the same, so that nothing is ever proxied.
        Error::e_explain(ErrorType::InternalError, "nothing is proxied")
    }

    async fn request_filter(&self, session: &mut Session, arrived: &mut Instant) -> Result<bool> {
        // Only where Pingora would keep the connection: to set it always would re-open what framing has closed.
        if session.get_keepalive().is_some() {
            session.set_keepalive(Some(self.house.policy.idle_timeout_ms().as_secs().max(1)));
        }
        session.set_write_timeout(Some(self.house.policy.write_timeout_ms()));
        // A client may send its body while the answer is already known; it is read and dropped for a while.
        session.as_downstream_mut().set_close_on_response_before_downstream_finish(false);
        session.as_downstream_mut().set_total_drain_timeout(Some(std::time::Duration::from_secs(2)));
        let theirs = if seeded(Fault::ClientNames) { named(session) } else { None };
        let request = theirs.unwrap_or_else(uuid::Uuid::now_v7);
        let mut client =
            Downstream { session, request, arrived: *arrived, standing: None, passed: String::new() };
        if self.answer(&mut client).await.is_err() {
            client.session.set_keepalive(None);
        }
        Ok(true)
    }

    fn suppress_error_log(&self, _: &Session, _: &Instant, _: &Error) -> bool {
        // Each end has its access line; Pingora's own would name paths.
        true
    }

    fn request_summary(&self, _: &Session, _: &Instant) -> String {
        "a request".into()
    }
}

impl Phases {
    async fn answer(&self, client: &mut Downstream<'_>) -> std::result::Result<(), crate::flow::Gone> {
        let head = client.session.req_header();
        let (path, method) = (head.uri.path().to_owned(), head.method.clone());
        let route = match self.route(&path, &method) {
            Ok(route) => route,
            Err(denied) => return client.deny(&denied).await,
        };
        match route {
            Route::Live => client.plain(200, "text/plain; charset=utf-8", b"live\n".to_vec()).await,
            Route::Ready => {
                let (code, body) = status::ready(&self.house);
                client.plain(code, "text/plain; charset=utf-8", body).await
            }
            Route::Status => {
                let body = status::json(&self.house).await;
                client.plain(200, "application/json", body).await
            }
            Route::Metrics => {
                let body = status::metrics(&self.house).await;
                client.plain(200, "text/plain; version=0.0.4; charset=utf-8", body).await
            }
            Route::Models => self.models(client, None).await,
            Route::Model(name) => self.models(client, Some(&name)).await,
            Route::Call(endpoint) => self.call(client, endpoint).await,
        }
    }

    fn route(&self, path: &str, method: &Method) -> std::result::Result<Route, Denied> {
        let admin = self.role == Role::Admin;
        let (route, allow) = match path {
            "/livez" => (Route::Live, "GET"),
            "/readyz" => (Route::Ready, "GET"),
            "/status" if admin => (Route::Status, "GET"),
            "/metrics" if admin => (Route::Metrics, "GET"),
            _ if admin => return Err(Denied::NoSuchPath),
            "/v1/models" => (Route::Models, "GET"),
            "/v1/chat/completions" => (Route::Call(Endpoint::Chat), "POST"),
            "/v1/completions" => (Route::Call(Endpoint::Completions), "POST"),
            _ => {
                let name = path.strip_prefix("/v1/models/").filter(|name| !name.is_empty());
                (Route::Model(name.ok_or(Denied::NoSuchPath)?.to_owned()), "GET")
            }
        };
        if method.as_str() == allow { Ok(route) } else { Err(Denied::Method { allow }) }
    }

    /// Who calls, if they may call this from where they are.
    fn authenticate(
        &self,
        session: &Session,
        scope: EndpointScope,
    ) -> std::result::Result<Principal, Denied> {
        let from = session.client_addr().and_then(|address| address.as_inet()).map(|from| from.ip());
        let principal = self.house.authenticate(bearer(session), from)?;
        let scopes = principal.scopes();
        let is_from_there = from.is_some_and(|from| scopes.allows_address(from));
        if !is_from_there && !scopes.allows_any_address() {
            return Err(Denied::Forbidden(Forbidden::Address));
        }
        if !scopes.allows_endpoint(scope) {
            return Err(Denied::Forbidden(Forbidden::Endpoint(scope)));
        }
        Ok(principal)
    }

    async fn models(
        &self,
        client: &mut Downstream<'_>,
        name: Option<&str>,
    ) -> std::result::Result<(), crate::flow::Gone> {
        let answer = self
            .authenticate(client.session, EndpointScope::Models)
            .and_then(|principal| self.house.models(&principal, name));
        match answer {
            Ok(body) => client.plain(200, "application/json", body).await,
            Err(denied) => client.deny(&denied).await,
        }
    }

    async fn call(
        &self,
        client: &mut Downstream<'_>,
        endpoint: Endpoint,
    ) -> std::result::Result<(), crate::flow::Gone> {
        let scope = match endpoint {
            Endpoint::Chat => EndpointScope::ChatCompletions,
            Endpoint::Completions => EndpointScope::Completions,
        };
        let principal = match self.authenticate(client.session, scope) {
            Ok(principal) => principal,
            Err(denied) => return client.deny(&denied).await,
        };
        let moment = (*client.request.as_bytes(), client.arrived);
        let Some(ledger) = self.house.ledger(&principal, moment, endpoint) else {
            return client.deny(&Denied::Internal).await;
        };
        let is_json = is_json(client.session);
        let body = match body::whole(client.session, &self.house.policy).await {
            Ok(_) if !is_json => Err(Denied::NotJson),
            body => body,
        };
        let ended = match body {
            Ok(body) => self.house.serve((endpoint, body), principal, ledger, client).await,
            Err(denied) => Err((denied, Some(ledger))),
        };
        let Err((denied, ledger)) = ended else { return Ok(()) };
        let sent = client.deny(&denied).await;
        if let Some(ledger) = ledger {
            ledger.deny(&denied);
        }
        sent
    }
}

/// The key that was presented, if it is text at all; a key that is none fails like a wrong one.
fn bearer(session: &Session) -> &str {
    let value = session.get_header(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (scheme, key) = value.and_then(|value| value.trim().split_once(' ')).unwrap_or_default();
    if scheme.eq_ignore_ascii_case("bearer") { key.trim() } else { "" }
}

/// What a client calls its request, for [`Fault::ClientNames`] alone.
fn named(session: &Session) -> Option<uuid::Uuid> {
    session.get_header("x-request-id")?.to_str().ok()?.parse().ok()
}

/// A body without a type is taken for JSON, as OpenAI does.
fn is_json(session: &Session) -> bool {
    let Some(value) = session.get_header(http::header::CONTENT_TYPE) else { return true };
    let kind = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}
