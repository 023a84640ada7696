//! Who changes a store.

use core::fmt;

use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::key::KeyId;
use crate::store::change::Change;
use crate::store::{Store, row};

/// Characters of the name of a scanner's public key.
pub const SCANNER_ID_CHARS_MAX: usize = 64;

/// Who changes a store.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Actor {
    /// Somebody at the command line, who has the store's files or its address.
    CommandLine,
    /// The holder of this key.
    Key(KeyId),
    /// Whoever signs with the private part of this public key: a scanner of secrets that reports what it finds.
    Scanner(ScannerId),
    /// A program of ours, by itself.
    System,
}

/// Names a scanner's public key: 1 to [`SCANNER_ID_CHARS_MAX`] letters, digits, `.`, `_` and `-`.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct ScannerId {
    /// Zero bytes behind the characters, none of which is one.
    padded: [u8; SCANNER_ID_CHARS_MAX],
}

impl ScannerId {
    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        let is_one = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let is_name = (1..=SCANNER_ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_one);
        is_name.then_some(())?;
        let mut padded = [0; SCANNER_ID_CHARS_MAX];
        for (to, from) in padded.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        Some(Self { padded })
    }
}

impl fmt::Display for ScannerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its maker takes ASCII alone.
        f.write_str(core::str::from_utf8(&self.padded).unwrap_or_default().trim_end_matches('\0'))
    }
}

impl fmt::Debug for ScannerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScannerId({self})")
    }
}

impl Actor {
    const COMMAND_LINE: &'static str = "command_line";
    const SYSTEM: &'static str = "system";
    const SCANNER: &'static str = "scanner:";

    /// As it stands in the store: a word, a key's id, or a scanner's name behind a word.
    pub(super) fn stored(&self) -> String {
        match self {
            Self::CommandLine => Self::COMMAND_LINE.to_owned(),
            Self::Key(id) => id.to_string(),
            Self::Scanner(id) => format!("{}{id}", Self::SCANNER),
            Self::System => Self::SYSTEM.to_owned(),
        }
    }

    pub(super) fn read(stored: &str) -> Result<Self, StoreError> {
        let damaged = || row::damaged("events", "actor");
        match stored {
            // Its 12 characters are no id: `_` is no digit.
            Self::COMMAND_LINE => Ok(Self::CommandLine),
            Self::SYSTEM => Ok(Self::System),
            other => match other.strip_prefix(Self::SCANNER) {
                Some(name) => ScannerId::parse(name).map(Self::Scanner).ok_or_else(damaged),
                None => KeyId::parse(other).map(Self::Key).ok_or_else(damaged),
            },
        }
    }
}

impl Store {
    /// Another handle on the same store, whose changes are this actor's.
    #[must_use]
    pub fn acting_as(&self, actor: Actor) -> Self {
        Self { actor, ..self.clone() }
    }

    /// Refuses a change by a key that was revoked, or whose tenant was suspended, after its request was let in.
    pub(super) async fn demand_actor(&self, change: &mut Change) -> Result<(), StoreError> {
        let Actor::Key(id) = self.actor else { return Ok(()) };
        let working: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM api_keys k LEFT JOIN tenants t ON t.id = k.tenant
             WHERE k.id = $1 AND k.revoked_ms IS NULL AND t.suspended_ms IS NULL",
        )
        .bind(id.as_str())
        .fetch_one(change.on())
        .await?;
        if working == 1 || seeded(Fault::ActorUnchecked) { Ok(()) } else { Err(StoreError::ActorEnded) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_actor_is_read_back_and_nothing_else_is() {
        let longest = "a".repeat(SCANNER_ID_CHARS_MAX);
        for actor in [
            Actor::CommandLine,
            Actor::System,
            Actor::Key(KeyId::parse("aaaaaaaaaaaa").unwrap()),
            Actor::Scanner(ScannerId::parse("x").unwrap()),
            Actor::Scanner(ScannerId::parse(&longest).unwrap()),
        ] {
            assert_eq!(Actor::read(&actor.stored()).unwrap(), actor);
        }
        assert_eq!(format!("{:?}", ScannerId::parse("a-b_c.9").unwrap()), "ScannerId(a-b_c.9)");
        for bad in ["", "a b", "a:b", "a\0", "\u{e9}", &"a".repeat(SCANNER_ID_CHARS_MAX + 1)] {
            assert_eq!(ScannerId::parse(bad), None, "{bad:?}");
            assert!(Actor::read(&format!("scanner:{bad}")).is_err(), "{bad:?}");
        }
    }
}
