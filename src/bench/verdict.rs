//! What an audit means: a leak, nothing at all, or that no leak was seen by an audit that would have seen one.

use std::fmt;

use super::procedure::{Audit, Level, Reply};

/// What all audits together say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// The control was seen, and another tenant saw nothing.
    Pass,
    /// Another tenant can tell what the victim has asked.
    Leak {
        /// How often the victim had sent its prompt.
        warm_ups: u32,
        /// How it shows.
        seen: Seen,
    },
    /// Not even the victim's own tenant could tell, so that the audit is blind and says nothing.
    Void {
        /// The number of warm-ups at which the control was missed.
        warm_ups: u32,
    },
}

/// How a leak shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Seen {
    /// Answers to the victim's prompts came sooner.
    Sooner,
    /// The server said that it took tokens from a cache.
    CachedTokens,
}

/// Judges audits at the significance `alpha`. A leak is a leak, whether the control was seen or not.
pub(crate) fn judge(audits: &[Audit], alpha: f64) -> Verdict {
    let crossed = audits.iter().filter(|audit| audit.level == Level::CrossTenant);
    let leak = crossed
        .filter_map(|audit| {
            let seen = if cached_samples(&audit.hits) > 0 || cached_samples(&audit.misses) > 0 {
                Seen::CachedTokens
            } else if rejects(audit, alpha) {
                Seen::Sooner
            } else {
                return None;
            };
            Some(Verdict::Leak { warm_ups: audit.warm_ups, seen })
        })
        .next();
    if let Some(leak) = leak {
        return leak;
    }
    let mut seen_somewhere = false;
    for control in audits.iter().filter(|audit| audit.level == Level::SameTenant) {
        if !rejects(control, alpha) {
            return Verdict::Void { warm_ups: control.warm_ups };
        }
        seen_somewhere = true;
    }
    if seen_somewhere { Verdict::Pass } else { Verdict::Void { warm_ups: 0 } }
}

/// Whether "hits are not sooner than misses" is rejected.
pub(crate) fn rejects(audit: &Audit, alpha: f64) -> bool {
    audit.compared.p() < alpha
}

/// Answers for which the server says that a cache had some of the prompt.
pub(crate) fn cached_samples(replies: &[Reply]) -> usize {
    replies.iter().filter(|reply| reply.cached.is_some_and(|cached| cached > 0)).count()
}

impl Verdict {
    /// As a program reads it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Leak { .. } => "leak",
            Self::Void { .. } => "void",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str(
                "pass: hits of the victim's own tenant were seen, and another tenant's answers told it nothing",
            ),
            Self::Leak { warm_ups, seen: Seen::Sooner } => write!(
                f,
                "leak: another tenant got answers to the victim's prompts sooner than to new ones (warm-ups: {warm_ups})"
            ),
            Self::Leak { warm_ups, seen: Seen::CachedTokens } => write!(
                f,
                "leak: another tenant was served tokens from a cache that was not its own (warm-ups: {warm_ups})"
            ),
            Self::Void { warm_ups } => write!(
                f,
                "void: not even another key of the victim's tenant got answers sooner, so that this audit would see no leak either (warm-ups: {warm_ups}); ask for longer prompts or more samples, and see that the pool holds a few prompts"
            ),
        }
    }
}
