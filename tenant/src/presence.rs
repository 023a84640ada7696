//! Which keys have requests running, so that those of a key that is revoked can be cut.

use std::sync::Arc;

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use tokio::sync::watch;

use crate::key::KeyId;

/// The keys that have requests running. A clone is another handle on the same.
///
/// # Invariants
/// A key stands in the map exactly while something of it is present: the map is bounded by the requests that run.
#[derive(Clone, Default)]
pub(crate) struct Present {
    keys: Arc<DashMap<KeyId, Cuts>>,
}

struct Cuts {
    cut: Arc<watch::Sender<bool>>,
    present: usize,
}

/// One request's presence; it ends when this is dropped.
#[must_use = "the request is present only while this lives"]
pub struct Presence {
    key: KeyId,
    of: Present,
    cut: Arc<watch::Sender<bool>>,
}

impl Present {
    pub(crate) fn enter(&self, key: KeyId) -> Presence {
        let fresh = || Cuts { cut: Arc::new(watch::Sender::new(false)), present: 0 };
        let mut cuts = self.keys.entry(key).or_insert_with(fresh);
        cuts.present = cuts.present.saturating_add(1);
        Presence { key, of: self.clone(), cut: Arc::clone(&cuts.cut) }
    }

    /// Cuts all that is present of a key. What comes later is not cut: it was let in by who knows better.
    pub(crate) fn cut(&self, key: KeyId) {
        if let Some((_, cuts)) = self.keys.remove(&key) {
            cuts.cut.send_replace(true);
        }
    }

    /// The keys that are present.
    pub(crate) fn keys(&self) -> Vec<KeyId> {
        self.keys.iter().map(|entry| *entry.key()).collect()
    }
}

impl Presence {
    /// Whether the key does not work any more.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        *self.cut.borrow()
    }

    /// Returns when the key does not work any more.
    pub async fn cut(&self) {
        let mut cut = self.cut.subscribe();
        // Fails only without a sender, and here is one.
        drop(cut.wait_for(|cut| *cut).await);
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let Entry::Occupied(mut cuts) = self.of.keys.entry(self.key) else { return };
        // Other cuts are those of who came after this one was cut.
        if !Arc::ptr_eq(&cuts.get().cut, &self.cut) {
            return;
        }
        match cuts.get().present.saturating_sub(1) {
            0 => drop(cuts.remove()),
            rest => cuts.get_mut().present = rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_now::is_ready;

    use super::*;

    fn key(id: &str) -> KeyId {
        KeyId::parse(id).unwrap()
    }

    /// Whether a future is done at its first poll.
    mod futures_now {
        use std::future::Future;
        use std::pin::pin;
        use std::task::{Context, Waker};

        pub(super) fn is_ready(future: impl Future) -> bool {
            pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
        }
    }

    #[test]
    fn a_cut_reaches_all_that_is_present_of_the_key_and_nothing_else() {
        let present = Present::default();
        let (a, b) = (key("aaaaaaaaaaaa"), key("bbbbbbbbbbbb"));
        let (one, two, other) = (present.enter(a), present.enter(a), present.enter(b));
        assert!(!is_ready(one.cut()));
        present.cut(a);
        assert!(is_ready(one.cut()) && is_ready(two.cut()) && !is_ready(other.cut()));
        let later = present.enter(a);
        drop((one, two));
        assert!(!is_ready(later.cut()), "who comes later is not cut");
        assert_eq!(present.keys().len(), 2, "and those before it take nothing of it with them");
        present.cut(a);
        assert!(is_ready(later.cut()));
        drop((later, other));
        assert_eq!(present.keys(), []);
    }
}
