//! Who asks: a person whose key works.

use core::net::IpAddr;
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use http::header;
use http::request::Parts;
use tenant::{Administrator, Caller, KeyId, MonoNanos, NotAuthenticated, Reach, Role, TenantId};

use crate::fault::{Fault, seeded};
use crate::house::{House, Shared, now};
use crate::problem::{Kind, Problem};
use crate::roles::{Operation, may};
use crate::trace::Trace;

/// A person whose key was proven. Only a request with such a key makes one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) key: KeyId,
    pub(crate) reach: Reach,
    role: Role,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl Asker {
    /// Whether the key reaches what is this tenant's, or what is nobody's.
    pub(crate) fn reaches(&self, tenant: Option<TenantId>) -> bool {
        match self.reach {
            Reach::Installation => true,
            Reach::Tenant(own) => tenant == Some(own) || seeded(Fault::AnyReach),
        }
    }

    /// Refuses what the person's role does not allow.
    pub(crate) fn demand(&self, operation: Operation) -> Result<(), Problem> {
        if may(self.reach, self.role, operation) || seeded(Fault::AnyRole) {
            return Ok(());
        }
        let who = match self.reach {
            Reach::Installation => "an operator with the role",
            Reach::Tenant(_) => "a tenant's",
        };
        let detail = format!("{who} {} may not {}", self.role.name(), operation.name());
        Err(Problem::new(Kind::Forbidden, detail))
    }
}

impl FromRequestParts<Shared> for Asker {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, house: &Shared) -> Result<Self, Problem> {
        // A key that was revoked meanwhile would work: nobody is let in (fail closed).
        if house.directory.health(Instant::now()).age > house.keys_age_max {
            let detail = "what this server knows of keys is too old to be relied on";
            return Err(Problem::new(Kind::StoreAway, detail).retry_after(Duration::from_secs(1)));
        }
        match house.directory.authenticate(presented(parts), now()) {
            Ok(Caller::Person(Administrator { key, reach, role, .. })) => {
                if let Some(trace) = parts.extensions.get::<Trace>() {
                    trace.note(key);
                }
                Ok(Self { key, reach, role })
            }
            Ok(Caller::Service(_) | Caller::Auditor(_)) => Err(Problem::new(
                Kind::Forbidden,
                "this key is no person's: one made for owner, admin, member or auditor is needed",
            )),
            Err(NotAuthenticated::Suspended) => {
                Err(Problem::new(Kind::Suspended, "the tenant of this key is suspended"))
            }
            Err(NotAuthenticated::Invalid) => Err(refused(parts.extensions.get().copied(), house)),
        }
    }
}

/// What was presented as a key; nothing where it was not as a bearer's. Both are refused alike.
fn presented(parts: &Parts) -> &str {
    let value = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (scheme, key) = value.and_then(|value| value.split_once(' ')).unwrap_or_default();
    if scheme.eq_ignore_ascii_case("bearer") { key.trim_matches(' ') } else { "" }
}

/// What is answered to whoever has no key that works. It counts against where the request comes from.
pub(crate) fn refused(from: Option<Peer>, house: &House) -> Problem {
    let counted = from.map(|Peer(from)| {
        let now = MonoNanos::between(house.began, Instant::now());
        house.failures.count(from, house.failures_per_minute, now)
    });
    match counted {
        Some(Err(failures)) => {
            let allowed = u64::from(failures.per_minute.get());
            Problem::new(Kind::TooManyFailures, failures.to_string())
                .numbers(allowed.saturating_add(1), allowed)
                .retry_after(failures.clears)
        }
        Some(Ok(())) | None => Problem::new(
            Kind::Unauthenticated,
            "send `Authorization: Bearer KEY` with a person's key, as `bulkhead key create --for owner` makes one",
        ),
    }
}
