//! What anybody who may list a thing sees of it, as JSON, and what it is recognised by.
//!
//! Architecture invariant: no secret, digest or tag.

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use policies::WindowCap;

use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::ledger::{Budget, BudgetName, Price, Prices};
use crate::level::{ModelName, Models};
use crate::limits::{Concurrency, Expiry};
use crate::purpose::Purpose;
use crate::rate::{Limit, Rule};
use crate::share::MemoryCap;
use crate::store::{BudgetEntry, KeyRecord, Project, Tenant, TenantState, limits};
use crate::time::UnixMillis;

/// Recognises what a thing looks like: another look is another version. It tells nothing of how often a store was changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Version([u8; 16]);

impl Version {
    /// Characters of its text.
    pub const CHARS: usize = 32;

    fn of(public: &Value) -> Self {
        let digest = digest(&SHA256, public.to_string().as_bytes());
        let mut version = [0; 16];
        for (to, from) in version.iter_mut().zip(digest.as_ref()) {
            *to = *from;
        }
        Self(version)
    }

    /// Reads what a version writes.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_one = text.len() == Self::CHARS && text.bytes().all(is_hex);
        is_one.then(|| u128::from_str_radix(text, 16).ok())?.map(|number| Self(number.to_be_bytes()))
    }
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// What something must look like for a change to be made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Expect {
    /// Whatever it looks like.
    Any,
    /// Like this.
    Version(Version),
}

impl Expect {
    pub(super) fn check(self, found: Version) -> Result<(), StoreError> {
        match self {
            Self::Version(expected) if expected != found && !seeded(Fault::ExpectIgnored) => {
                Err(StoreError::Stale)
            }
            Self::Version(_) | Self::Any => Ok(()),
        }
    }
}

impl Tenant {
    /// What it looks like.
    pub fn version(&self) -> Version {
        Version::of(&self.public())
    }

    pub(super) fn public(&self) -> Value {
        let suspended = match self.state {
            TenantState::Active => None,
            TenantState::Suspended(since) => Some(since.get()),
        };
        let cap = match self.share.cap {
            MemoryCap::Pool => None,
            MemoryCap::Tokens(tokens) => Some(tokens.get()),
        };
        json!({
            "id": self.id.to_string(),
            "name": self.name.as_str(),
            "created_ms": self.created.get(),
            "suspended_ms": suspended,
            "share": { "floor": self.share.floor, "cap": cap, "weight": self.share.weight.get() },
        })
    }
}

impl Project {
    /// What it looks like.
    pub fn version(&self) -> Version {
        Version::of(&self.public())
    }

    pub(super) fn public(&self) -> Value {
        json!({
            "id": self.id.to_string(),
            "tenant_id": self.tenant.to_string(),
            "name": self.name.as_str(),
            "created_ms": self.created.get(),
        })
    }
}

impl KeyRecord {
    /// What it looks like; when it was last used is no part of that.
    pub fn version(&self) -> Version {
        Version::of(&self.public())
    }

    pub(super) fn public(&self) -> Value {
        let (purpose, project, scopes) = match &self.purpose {
            Purpose::Service { project, scopes, .. } => (None, Some(project.to_string()), json!(scopes)),
            Purpose::Person { role, .. } => (Some(role.name()), None, Value::Null),
            Purpose::Auditor { .. } => (None, None, Value::Null),
        };
        let window_cap = match self.limits.window_cap {
            WindowCap::Inherit => None,
            WindowCap::Tokens(tokens) => Some(tokens.get()),
        };
        let concurrency = match self.limits.concurrency {
            Concurrency::Inherit => None,
            Concurrency::AtMost(most) => Some(most.get()),
        };
        let secrets = self.secrets.iter().map(|secret| {
            json!({ "serial": secret.serial, "created_ms": secret.created.get(), "ends_ms": moment(secret.ends) })
        });
        json!({
            "id": self.id.to_string(),
            "for": purpose.unwrap_or_else(|| self.purpose.kind().name()),
            "tenant_id": self.purpose.tenant().map(|tenant| tenant.to_string()),
            "project_id": project,
            "name": self.name.as_str(),
            "scopes": scopes,
            "window_cap": window_cap,
            "concurrency": concurrency,
            "expires_ms": moment(self.expires),
            "created_ms": self.created.get(),
            "revoked_ms": self.revoked.map(UnixMillis::get),
            "secrets": secrets.collect::<Vec<_>>(),
        })
    }
}

impl BudgetEntry {
    /// What it looks like; what is spent is no part of that.
    pub fn version(&self) -> Version {
        match self {
            Self::Set(budget) => Version::of(&budget.public()),
            Self::Lifted(name) => Version::of(&of_budget(name, None)),
        }
    }
}

impl Budget {
    pub(super) fn public(&self) -> Value {
        of_budget(&self.name(), Some(self))
    }
}

fn of_budget(name: &BudgetName, set: Option<&Budget>) -> Value {
    json!({
        "level": name.level.name(),
        "id": limits::subject(name.level),
        "model": of_model(&name.models),
        "count": name.unit.name(),
        "per": name.period.name(),
        "kind": name.kind.name(),
        "limit": set.map(|budget| budget.limit),
        "warn_at": set.map(|budget| budget.thresholds.percents().collect::<Vec<_>>()),
    })
}

impl Prices {
    /// What the list looks like.
    pub fn version(&self) -> Version {
        Version::of(&self.public())
    }

    pub(super) fn public(&self) -> Value {
        let one = |(model, price): (&ModelName, Price)| {
            let [prompt, cached, completion] = price.parts();
            let price = json!({ "prompt": prompt, "cached": cached, "completion": completion });
            (model.as_str().to_owned(), price)
        };
        Value::Object(self.list().map(one).collect())
    }
}

fn of_model(models: &Models) -> Option<&str> {
    match models {
        Models::All => None,
        Models::One(name) => Some(name.as_str()),
    }
}

impl Rule {
    /// What it looks like.
    pub fn version(&self) -> Version {
        Version::of(&self.public())
    }

    pub(super) fn public(&self) -> Value {
        let number = |limit| match limit {
            Limit::Open => None,
            Limit::AtMost(most) => Some(most.get()),
        };
        let model = Some(limits::model(&self.scope.models)).filter(|model| !model.is_empty());
        json!({
            "level": self.scope.level.name(),
            "id": limits::subject(self.scope.level),
            "model": model,
            "requests_per_minute": number(self.limits.requests_per_minute),
            "tokens_per_minute": number(self.limits.tokens_per_minute),
            "at_once": number(self.limits.at_once),
            "prompt_tokens": number(self.limits.prompt_tokens),
            "output_tokens": number(self.limits.output_tokens),
        })
    }
}

const fn moment(expiry: Expiry) -> Option<i64> {
    match expiry {
        Expiry::Never => None,
        Expiry::At(moment) => Some(moment.get()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_back_and_nothing_else_is() {
        let one = Version::of(&json!({ "a": 1 }));
        assert_ne!(one, Version::of(&json!({ "a": 2 })));
        assert_eq!(Version::parse(&one.to_string()), Some(one));
        assert!(Expect::Version(one).check(one).is_ok() && Expect::Any.check(one).is_ok());
        let other = Version([0; 16]);
        assert_eq!(other.to_string().len(), Version::CHARS);
        assert!(matches!(Expect::Version(other).check(one), Err(StoreError::Stale)));
        for bad in ["", "0", &"A".repeat(32), &format!("+{}", "0".repeat(31)), &"0".repeat(33)] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }
}
