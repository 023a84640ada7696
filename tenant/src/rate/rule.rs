//! What may be asked, by whom, and which rules a request meets.

use core::fmt;
use core::num::NonZeroU32;
use std::sync::Arc;

use crate::level::{Level, Models};
use crate::store::TenantId;

/// Rules that one request can meet: its key, its project and its tenant, each for all models and for its own.
pub const RULES_MAX: usize = 6;

/// One limit of a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Limit {
    /// This rule sets none. The other rules of the chain still bind.
    Open,
    /// At most this many. What may never be used at all is not a matter of limits.
    AtMost(NonZeroU32),
}

/// The limits of one rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Requests per minute. A whole minute's worth may be used at once; then one more each 60 s / limit.
    pub requests_per_minute: Limit,
    /// Tokens per minute, prompt and output together, likewise.
    pub tokens_per_minute: Limit,
    /// Requests in flight.
    pub at_once: Limit,
    /// Tokens of one request's prompt.
    pub prompt_tokens: Limit,
    /// Tokens that one request may ask to be written.
    pub output_tokens: Limit,
}

impl Limits {
    /// Sets no limit of its own.
    pub const OPEN: Self = Self {
        requests_per_minute: Limit::Open,
        tokens_per_minute: Limit::Open,
        at_once: Limit::Open,
        prompt_tokens: Limit::Open,
        output_tokens: Limit::Open,
    };
}

/// What a rule counts together.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Scope {
    /// Whom it binds.
    pub level: Level,
    /// Which requests of theirs.
    pub models: Models,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.level, self.models)
    }
}

/// The limits of one scope.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rule {
    /// What is counted together.
    pub scope: Scope,
    /// How much of it there may be.
    pub limits: Limits,
}

/// All rules that a request meets, in the order of their scopes: key, project, tenant, and all models before one.
/// A clone shares them.
///
/// # Invariants
/// At most [`RULES_MAX`] rules, each scope once, of one tenant, at most one project, one key and one model.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Chain {
    tenant: TenantId,
    rules: Arc<[Rule]>,
}

/// These rules cannot all be met by one request.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadChain {
    /// More than a request can meet.
    #[error("{rules} rules; one request meets at most {RULES_MAX}")]
    TooMany {
        /// Rules that were given.
        rules: usize,
    },
    /// Two rules have the same scope.
    #[error("two rules for {scope}")]
    Twice {
        /// The scope of both.
        scope: Scope,
    },
    /// Two rules of one kind of level, for two of its kind.
    #[error("rules for {one} and for {other}: a request has one {} only", one.name())]
    TwoOfAKind {
        /// Whom one binds.
        one: Level,
        /// Whom the other binds.
        other: Level,
    },
    /// Rules for two models.
    #[error("rules for {one} and for {other}: a request names one model only")]
    TwoModels {
        /// The one.
        one: Models,
        /// The other.
        other: Models,
    },
    /// A rule of another tenant.
    #[error("a rule for {other}, of which this request is not")]
    OtherTenant {
        /// Whom it binds.
        other: Level,
    },
}

impl Chain {
    /// The rules for a request of `tenant`, in any order. That keys and projects are this tenant's is the caller's to
    /// know.
    ///
    /// # Errors
    /// [`BadChain`] says which rules do not go together.
    pub fn new(tenant: TenantId, mut rules: Vec<Rule>) -> Result<Self, BadChain> {
        if rules.len() > RULES_MAX {
            return Err(BadChain::TooMany { rules: rules.len() });
        }
        rules.sort_by(|a, b| a.scope.cmp(&b.scope));
        for rule in &rules {
            let own = match rule.scope.level {
                Level::Key(_) | Level::Project(_) => true,
                Level::Tenant(of) => of == tenant,
            };
            if !own {
                return Err(BadChain::OtherTenant { other: rule.scope.level });
            }
            for other in &rules {
                together(&rule.scope, &other.scope)?;
            }
        }
        let mut pairs = rules.iter().zip(rules.iter().skip(1));
        if let Some((one, _)) = pairs.find(|(one, next)| one.scope == next.scope) {
            return Err(BadChain::Twice { scope: one.scope.clone() });
        }
        Ok(Self { tenant, rules: rules.into() })
    }

    /// Whose request it is.
    pub const fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }
}

fn together(one: &Scope, other: &Scope) -> Result<(), BadChain> {
    if one.level.name() == other.level.name() && one.level != other.level {
        return Err(BadChain::TwoOfAKind { one: one.level, other: other.level });
    }
    match (&one.models, &other.models) {
        (Models::One(a), Models::One(b)) if a != b => {
            Err(BadChain::TwoModels { one: one.models.clone(), other: other.models.clone() })
        }
        (Models::All | Models::One(_), Models::All | Models::One(_)) => Ok(()),
    }
}

/// What a request asks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ask {
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens that may be written for it, at most; over all its choices.
    pub output_tokens_max: u32,
}

impl Ask {
    /// The tokens that it can cost at most; below 2^33.
    pub fn worst_tokens(self) -> u64 {
        u64::from(self.prompt_tokens).saturating_add(u64::from(self.output_tokens_max))
    }
}
