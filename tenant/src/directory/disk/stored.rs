//! The items of a copy.

use std::io;
use std::sync::Arc;

use isolation::tag::TenantTag;
use policies::WindowCap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::RecallError;
use crate::directory::snapshot::{Entry, Terms};
use crate::key::KeyId;
use crate::limits::{Concurrency, Expiry};
use crate::purpose::Purpose;
use crate::rate::{Limits, Rule};
use crate::share::MemoryCap;
use crate::store::limits;
use crate::store::row::{self, StoredPurpose};
use crate::store::{Digested, Revision, StoreId, TenantEntry, TenantState};

#[derive(Deserialize, Serialize)]
pub(super) struct Head {
    pub(super) revision: StoredRevision,
    pub(super) tenants: u32,
    pub(super) terms: u32,
    pub(super) keys: u32,
    pub(super) rules: u32,
}

#[derive(Deserialize, Serialize)]
pub(super) struct StoredRevision {
    store: [u8; 16],
    number: i64,
    token: Option<i64>,
}

impl StoredRevision {
    pub(super) fn of(revision: Revision) -> Self {
        let Revision { number, token, store } = revision;
        Self { store: *store.0.as_bytes(), number, token }
    }

    pub(super) fn read(self) -> Revision {
        let Self { store, number, token } = self;
        Revision { number, token, store: StoreId(Uuid::from_bytes(store)) }
    }
}

#[derive(Deserialize, Serialize)]
pub(super) struct StoredTenant {
    pub(super) id: [u8; 16],
    pub(super) tag: u64,
    pub(super) suspended_ms: Option<i64>,
    pub(super) floor: u32,
    pub(super) cap: Option<u32>,
    pub(super) weight: u32,
}

#[derive(Deserialize, Serialize)]
pub(super) struct StoredTerms {
    pub(super) kind: String,
    pub(super) tenant: Option<[u8; 16]>,
    pub(super) project: Option<[u8; 16]>,
    pub(super) role: Option<String>,
    /// JSON.
    pub(super) scopes: String,
    pub(super) window_cap: Option<u32>,
    pub(super) concurrency: Option<u32>,
}

#[derive(Deserialize, Serialize)]
pub(super) struct StoredKey {
    pub(super) id: [u8; 12],
    /// Their place in the file.
    pub(super) terms: u32,
    pub(super) expires_ms: Option<i64>,
    pub(super) secrets: [Option<StoredSecret>; 2],
}

#[derive(Deserialize, Serialize)]
pub(super) struct StoredSecret {
    pub(super) pepper_version: u32,
    pub(super) digest: [u8; 32],
    pub(super) ends_ms: Option<i64>,
}

#[derive(Deserialize, Serialize)]
pub(super) struct StoredRule {
    level: String,
    subject: String,
    model: String,
    /// In the order of [`Limits`].
    limits: [Option<i64>; 5],
}

impl StoredRule {
    pub(super) fn of(Rule { scope, limits: of }: &Rule) -> Self {
        let limits =
            [of.requests_per_minute, of.tokens_per_minute, of.at_once, of.prompt_tokens, of.output_tokens];
        Self {
            level: scope.level.name().to_owned(),
            subject: limits::subject(scope.level),
            model: limits::model(&scope.models).to_owned(),
            limits: limits.map(limits::stored),
        }
    }

    pub(super) fn read(self) -> Result<Rule, RecallError> {
        let [requests, tokens, at_once, prompt, output] = self.limits;
        let limits = Limits {
            requests_per_minute: limits::limit(requests, "requests_per_minute")?,
            tokens_per_minute: limits::limit(tokens, "tokens_per_minute")?,
            at_once: limits::limit(at_once, "at_once")?,
            prompt_tokens: limits::limit(prompt, "prompt_tokens")?,
            output_tokens: limits::limit(output, "output_tokens")?,
        };
        Ok(Rule { scope: limits::scope(&self.level, &self.subject, &self.model)?, limits })
    }
}

impl StoredTenant {
    pub(super) fn of(tenant: &TenantEntry) -> Self {
        let TenantEntry { id, tag, state, share } = tenant;
        Self {
            id: *id.bytes(),
            tag: tag.get(),
            suspended_ms: match state {
                TenantState::Active => None,
                TenantState::Suspended(since) => Some(since.get()),
            },
            floor: share.floor,
            cap: match share.cap {
                MemoryCap::Pool => None,
                MemoryCap::Tokens(tokens) => Some(tokens.get()),
            },
            weight: share.weight.get(),
        }
    }

    pub(super) fn read(self) -> Result<TenantEntry, RecallError> {
        let (floor, cap) = (i64::from(self.floor), self.cap.map(i64::from));
        Ok(TenantEntry {
            id: row::tenant_id(&self.id, "tenants", "id")?,
            tag: TenantTag::new(self.tag),
            state: row::state(self.suspended_ms)?,
            share: row::share(Some(floor), cap, Some(i64::from(self.weight)))?,
        })
    }
}

impl StoredTerms {
    pub(super) fn of(Terms { purpose, limits }: &Terms) -> io::Result<Self> {
        let (project, role, scopes) = match purpose {
            Purpose::Service { project, scopes, .. } => {
                (Some(*project.bytes()), None, serde_json::to_string(scopes)?)
            }
            Purpose::Person { role, .. } => (None, Some(role.name().to_owned()), "{}".to_owned()),
            Purpose::Auditor { .. } => (None, None, "{}".to_owned()),
        };
        Ok(Self {
            kind: purpose.kind().name().to_owned(),
            tenant: purpose.tenant().map(|tenant| *tenant.bytes()),
            project,
            role,
            scopes,
            window_cap: match limits.window_cap {
                WindowCap::Inherit => None,
                WindowCap::Tokens(tokens) => Some(tokens.get()),
            },
            concurrency: match limits.concurrency {
                Concurrency::Inherit => None,
                Concurrency::AtMost(most) => Some(most.get()),
            },
        })
    }

    pub(super) fn read(self) -> Result<Terms, RecallError> {
        let purpose = StoredPurpose {
            kind: &self.kind,
            tenant: self.tenant.as_ref().map(<[u8; 16]>::as_slice),
            project: self.project.as_ref().map(<[u8; 16]>::as_slice),
            role: self.role.as_deref(),
            scopes: &self.scopes,
        };
        let limits = row::limits(self.window_cap.map(i64::from), self.concurrency.map(i64::from))?;
        Ok(Terms { purpose: purpose.read()?, limits })
    }
}

impl StoredKey {
    pub(super) fn of(entry: &Entry, terms: u32) -> Self {
        let secret = |secret: Digested| StoredSecret {
            pepper_version: secret.pepper_version,
            digest: secret.digest,
            ends_ms: stored(secret.ends),
        };
        let secrets = entry.secrets.map(|one| one.map(secret));
        Self { id: *entry.id.bytes(), terms, expires_ms: stored(entry.expires), secrets }
    }

    pub(super) fn read(self, terms: &[Arc<Terms>]) -> Result<Entry, RecallError> {
        let secret = |one: Option<StoredSecret>| {
            one.map(|StoredSecret { pepper_version, digest, ends_ms }| {
                let ends = row::expiry(ends_ms, "secrets", "ends_ms")?;
                Ok::<_, RecallError>(Digested { pepper_version, digest, ends })
            })
            .transpose()
        };
        let [first, second] = self.secrets;
        let place = usize::try_from(self.terms).unwrap_or(usize::MAX);
        let id = core::str::from_utf8(&self.id).ok().and_then(KeyId::parse);
        Ok(Entry {
            id: id.ok_or(RecallError::Damaged)?,
            secrets: [secret(first)?, secret(second)?],
            expires: row::expiry(self.expires_ms, "api_keys", "expires_ms")?,
            terms: Arc::clone(terms.get(place).ok_or(RecallError::Damaged)?),
        })
    }
}

fn stored(expiry: Expiry) -> Option<i64> {
    match expiry {
        Expiry::Never => None,
        Expiry::At(moment) => Some(moment.get()),
    }
}
