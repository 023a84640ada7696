//! What an event is called outside the store: its place, under a permutation that the store alone knows. So a tenant learns from its
//! own events nothing of how many changes others make.

use ring::digest::{SHA256, digest};
use ring::hmac;

use crate::store::StoreId;

/// Rounds of the permutation: four make one of a Feistel network that is not told from a random one (Luby and Rackoff).
const ROUNDS: [u8; 4] = [0, 1, 2, 3];

/// Names an event. It says nothing of the order; the order of a listing does.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct EventId(u128);

impl EventId {
    /// Digits of its text.
    pub const CHARS: usize = 32;

    /// Reads what [`EventId`] writes. Whether it is an event's is looked at where it is used.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_one = text.len() == Self::CHARS && text.bytes().all(is_hex);
        is_one.then(|| u128::from_str_radix(text, 16).ok())?.map(Self)
    }
}

impl core::fmt::Display for EventId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl core::fmt::Debug for EventId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "EventId({self})")
    }
}

/// Where an event stands in the order of all: by its change, and within that from 1.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Place {
    pub(super) revision: i64,
    pub(super) part: u32,
}

/// The permutation of one store.
pub(super) struct Seal(hmac::Key);

impl Seal {
    /// Of this store, whose id no tenant is told.
    pub(super) fn of(store: StoreId) -> Self {
        let text = [b"bulkhead event ids 1".as_slice(), store.0.as_bytes()].concat();
        Self(hmac::Key::new(hmac::HMAC_SHA256, digest(&SHA256, &text).as_ref()))
    }

    pub(super) fn close(&self, place: Place) -> EventId {
        let right = u64::from(place.part).wrapping_shl(32);
        let (left, right) =
            ROUNDS.into_iter().fold((place.revision.cast_unsigned(), right), |(left, right), round| {
                (right, left ^ self.round(round, right))
            });
        EventId(u128::from(left).wrapping_shl(64) | u128::from(right))
    }

    /// The place that was closed; none where this store closed none to it, but for one chance in 2^32.
    pub(super) fn open(&self, id: EventId) -> Option<Place> {
        let left = u64::try_from(id.0.wrapping_shr(64)).ok()?;
        let right = u64::try_from(id.0 & u128::from(u64::MAX)).ok()?;
        let (left, right) = ROUNDS
            .into_iter()
            .rev()
            .fold((left, right), |(left, right), round| (right ^ self.round(round, left), left));
        let part = u32::try_from(right.wrapping_shr(32)).ok()?;
        let revision = left.cast_signed();
        (right & u64::from(u32::MAX) == 0 && revision >= 0).then_some(Place { revision, part })
    }

    fn round(&self, round: u8, half: u64) -> u64 {
        let mut text = [round; 9];
        for (to, from) in text.iter_mut().skip(1).zip(half.to_be_bytes()) {
            *to = from;
        }
        let tag = hmac::sign(&self.0, &text);
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(tag.as_ref()) {
            *to = *from;
        }
        u64::from_be_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn seal(store: u128) -> Seal {
        Seal::of(StoreId(uuid::Uuid::from_u128(store)))
    }

    #[test]
    fn a_place_is_read_back_by_its_store_alone() {
        let (ours, other) = (seal(1), seal(2));
        let revisions = [0, 1, 2, 3, 1_000_000, i64::MAX];
        let places = revisions
            .into_iter()
            .flat_map(|revision| [0, 1, 2, u32::MAX].map(|part| Place { revision, part }));
        for place in places {
            let id = ours.close(place);
            assert_eq!((ours.open(id), other.open(id)), (Some(place), None));
            assert_eq!(EventId::parse(&id.to_string()), Some(id));
        }
    }

    #[test]
    fn ids_of_changes_in_a_row_have_nothing_in_common() {
        let seal = seal(1);
        let ids: Vec<_> = (1..=1_000).map(|revision| seal.close(Place { revision, part: 1 }).0).collect();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 1_000);
        // Of 128 bits about half differ between two neighbours, and no byte stays as it is.
        let differing: u32 = ids.windows(2).map(|pair| (pair[0] ^ pair[1]).count_ones()).sum();
        assert!((60 * 999..68 * 999).contains(&differing), "{differing}");
        for byte in 0..16 {
            let seen: HashSet<_> = ids.iter().map(|id| id.to_be_bytes()[byte]).collect();
            assert!(seen.len() > 200, "byte {byte} has {} values", seen.len());
        }
        assert!(!ids.is_sorted(), "they do not rise");
    }

    #[test]
    fn nothing_else_is_an_id() {
        for bad in [
            "",
            "1-1",
            "41-1",
            &"0".repeat(31),
            &"0".repeat(33),
            &"A".repeat(32),
            &format!("+{}", "0".repeat(31)),
        ] {
            assert_eq!(EventId::parse(bad), None, "{bad:?}");
        }
        let seal = seal(1);
        let opened = (0..1_000_u128).filter(|number| seal.open(EventId(*number)).is_some()).count();
        assert_eq!(opened, 0, "what nobody closed is not opened");
    }
}
