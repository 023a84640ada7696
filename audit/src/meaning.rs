//! What leaves say must be able to have happened: the rules that tie a request's records to each other and to its engine.

use std::collections::{HashMap, HashSet};

use crate::hex::{Hex, Word};
use crate::leaf::Leaf;
use crate::outcome::Outcome;
use crate::record::Record;
use crate::request::{Admitted, Ended, Proof, Refused};

/// Requests that may be under way at one place of a log.
const OPEN_MAX: usize = 1 << 22;
/// The status of a success.
const OK: u16 = 200;

/// What cannot have happened.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Nonsense {
    /// It names a leaf for the policy that says none.
    #[error("leaf {0}, which it names for the policy in force, does not say one")]
    Policy(u64),
    /// It names an engine's life that no leaf before it has.
    #[error("no leaf before it has its engine")]
    Engine,
    /// It was let in with a window that its engine does not hold (P4).
    #[error("its window of {window} tokens is more than its engine holds, {capacity}")]
    Window {
        /// Tokens.
        window: u32,
        /// Tokens.
        capacity: u32,
    },
    /// It was let in with more than its window (P4).
    #[error("{asked} tokens were let into a window of {window}")]
    OverWindow {
        /// Prompt and output.
        asked: u64,
        /// Tokens.
        window: u32,
    },
    /// A sequence without anything to read or to write.
    #[error("it was let in with no prompt, or with nothing to generate")]
    Nothing,
    /// The same sequence was let in before.
    #[error("its sequence was let in before, and did not end")]
    Twice,
    /// A sequence ended that was not let in, or had ended before, or is of another tenant.
    #[error("its sequence was not let in for this tenant, or had ended before")]
    NotLetIn,
    /// Gateway and engine counted different prompts.
    #[error("the gateway counted {edge} tokens, the engine {engine}")]
    Counts {
        /// The gateway's.
        edge: u32,
        /// The engine's.
        engine: u32,
    },
    /// It read what it had not written, and what was not its own tenant's (P3).
    #[error("it attended to {attended} positions, and wrote {written} and had {cached} of its own")]
    Attended {
        /// Positions.
        attended: u32,
        /// Tokens.
        written: u32,
        /// Tokens.
        cached: u32,
    },
    /// More was sent than was asked for.
    #[error("{completion} tokens were sent, and {allowed} were allowed")]
    Completion {
        /// Tokens.
        completion: u32,
        /// Tokens.
        allowed: u32,
    },
    /// A success without its proof, or with another status (P5).
    #[error("it completed without a proof or with status {0}")]
    Unproved(u16),
    /// A refusal with the status of a success (P5).
    #[error("a refusal has the status of a success")]
    RefusedWell,
    /// Tokens were sent that nothing proves the prompt of (P5).
    #[error("tokens were sent without a proof")]
    Sent,
    /// More is under way than any gateway has.
    #[error("more than {OPEN_MAX} sequences are under way")]
    TooMany,
}

/// What is known at a place of the log.
#[derive(Default)]
pub(crate) struct Meaning {
    policies: HashSet<u64>,
    /// Tokens that each engine's life holds.
    engines: HashMap<u64, u32>,
    /// Sequences that were let in and have not ended.
    open: HashMap<([u8; 16], u16), Open>,
}

struct Open {
    tenant: Option<Hex<16>>,
    edge_tokens: u32,
    max_tokens: u32,
}

impl Meaning {
    /// Sequences that were let in and have not ended: under way, or cut off by a crash.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Takes the leaf with this index.
    pub(crate) fn take(&mut self, index: u64, leaf: &Leaf) -> Result<(), Nonsense> {
        match &leaf.event {
            Record::Boot(_) => {
                self.policies.insert(index);
                Ok(())
            }
            Record::EngineSeen(engine) => {
                // A life whose pool shrank is seen with less in a later session, beside requests that were counted before.
                let capacity = self.engines.entry(engine.epoch.0).or_insert(engine.capacity);
                *capacity = engine.capacity.max(*capacity);
                Ok(())
            }
            Record::Admitted(admitted) => self.admitted(leaf, admitted),
            Record::Ended(ended) => self.ended(leaf, ended),
            Record::Refused(refused) => check_refused(refused),
            Record::Alarm(_) | Record::Seal(_) => Ok(()),
        }
    }

    fn admitted(&mut self, leaf: &Leaf, admitted: &Admitted) -> Result<(), Nonsense> {
        let Admitted { edge_tokens, max_tokens, window, epoch: Word(epoch), policy, .. } = *admitted;
        if !self.policies.contains(&policy) {
            return Err(Nonsense::Policy(policy));
        }
        let capacity = *self.engines.get(&epoch).ok_or(Nonsense::Engine)?;
        if window > capacity {
            return Err(Nonsense::Window { window, capacity });
        }
        if edge_tokens == 0 || max_tokens == 0 {
            return Err(Nonsense::Nothing);
        }
        let asked = u64::from(edge_tokens).saturating_add(max_tokens.into());
        if asked > window.into() {
            return Err(Nonsense::OverWindow { asked, window });
        }
        if self.open.len() >= OPEN_MAX {
            return Err(Nonsense::TooMany);
        }
        let tenant = leaf.link.map(|link| link.tenant);
        let Hex(request) = admitted.request;
        let before = self.open.insert((request, admitted.sequence), Open { tenant, edge_tokens, max_tokens });
        if before.is_some() { Err(Nonsense::Twice) } else { Ok(()) }
    }

    fn ended(&mut self, leaf: &Leaf, ended: &Ended) -> Result<(), Nonsense> {
        let Hex(request) = ended.request;
        let open = self.open.remove(&(request, ended.sequence)).ok_or(Nonsense::NotLetIn)?;
        if open.tenant != leaf.link.map(|link| link.tenant) {
            return Err(Nonsense::NotLetIn);
        }
        match ended.proof {
            Proof::Absent if ended.completion > 0 => return Err(Nonsense::Sent),
            Proof::Absent => {}
            Proof::Accepted { engine_tokens, cached, written, attended, .. } => {
                if engine_tokens != open.edge_tokens {
                    return Err(Nonsense::Counts { edge: open.edge_tokens, engine: engine_tokens });
                }
                let own = u64::from(written).saturating_add(cached.into());
                if u64::from(attended) > own || own != u64::from(engine_tokens) {
                    return Err(Nonsense::Attended { attended, written, cached });
                }
            }
        }
        if ended.completion > open.max_tokens {
            return Err(Nonsense::Completion { completion: ended.completion, allowed: open.max_tokens });
        }
        let is_proved = ended.proof != Proof::Absent && ended.status == OK;
        match ended.outcome {
            Outcome::Completed { .. } if !is_proved => Err(Nonsense::Unproved(ended.status)),
            Outcome::Rejected { .. } if ended.status == OK => Err(Nonsense::RefusedWell),
            Outcome::Completed { .. }
            | Outcome::Rejected { .. }
            | Outcome::Cancelled
            | Outcome::Failed { .. } => Ok(()),
        }
    }
}

fn check_refused(refused: &Refused) -> Result<(), Nonsense> {
    match refused.outcome {
        Outcome::Completed { .. } => Err(Nonsense::Unproved(refused.status)),
        Outcome::Rejected { .. } | Outcome::Cancelled | Outcome::Failed { .. } => {
            if refused.status == OK {
                Err(Nonsense::RefusedWell)
            } else {
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
