//! All keys that work, in a shape that is cheap to read, to change in part, and to hold a million of.
//!
//! Keys lie in [`SHARDS`] shards by their id, sorted. A change copies the shards that it touches, a few hundred keys each, and
//! shares all others with the snapshot before it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::charges::Charges;
use crate::error::StoreError;
use crate::key::KeyId;
use crate::level::{Level, ModelName, Models};
use crate::limits::{Expiry, KeyLimits};
use crate::purpose::Purpose;
use crate::rate::{Limits, Rule};
use crate::share::{MemoryShare, TenantShare};
use crate::store::{Delta, Digested, KEYS_MAX, KeyEntry, Revision, TenantEntry, TenantId, TenantState};

/// Of a million keys, 244 lie in each.
const SHARDS: usize = 4_096;

/// All keys that are not revoked, as one moment saw them. Immutable.
pub(crate) struct Snapshot {
    revision: Revision,
    shards: Vec<Arc<[Entry]>>,
    tenants: Arc<HashMap<TenantId, TenantEntry>>,
    /// Limits, by whom they bind; none of them is open.
    rules: Arc<HashMap<Level, Arc<[Rule]>>>,
    charges: Charges,
    /// Of tenants that have one; by tag.
    shares: Arc<[TenantShare]>,
    keys: usize,
}

/// One key.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) id: KeyId,
    /// The older one first; the second is none while the key is not rotated.
    pub(crate) secrets: [Option<Digested>; 2],
    pub(crate) expires: Expiry,
    /// Shared by all keys that have the same.
    pub(crate) terms: Arc<Terms>,
}

/// What a key is for, and what it may take.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Terms {
    pub(crate) purpose: Purpose,
    pub(crate) limits: KeyLimits,
}

impl Snapshot {
    /// No keys, before the first revision.
    pub(crate) fn empty() -> Self {
        let none: Arc<[Entry]> = Arc::new([]);
        Self {
            revision: Revision::NONE,
            shards: vec![none; SHARDS],
            tenants: Arc::default(),
            rules: Arc::default(),
            charges: Charges::default(),
            shares: Arc::new([]),
            keys: 0,
        }
    }

    /// All there is, from nowhere else.
    pub(super) fn whole(
        revision: Revision,
        tenants: Vec<TenantEntry>,
        keys: Vec<Entry>,
        rules: Vec<Rule>,
        charges: Charges,
    ) -> Self {
        let empty = Self::empty();
        let (tenants, shares) = empty.tenants_with(tenants);
        let mut lists = vec![Vec::new(); SHARDS];
        let count = keys.len();
        for entry in keys {
            if let Some(list) = lists.get_mut(shard_of(entry.id)) {
                list.push(entry);
            }
        }
        let sorted = |mut list: Vec<Entry>| {
            list.sort_unstable_by_key(|entry| entry.id);
            list.into()
        };
        let shards = lists.into_iter().map(sorted).collect();
        let rules = empty.rules_with(rules);
        Self { revision, shards, tenants, rules, charges, shares, keys: count }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.shards.iter().flat_map(|shard| shard.iter())
    }

    pub(super) fn tenants(&self) -> impl Iterator<Item = &TenantEntry> {
        self.tenants.values()
    }

    /// This snapshot with what changed since, or what there is in place of it.
    ///
    /// # Errors
    /// [`StoreError::Full`] when there would be more keys than [`KEYS_MAX`].
    pub(crate) fn with(&self, delta: Delta) -> Result<Self, StoreError> {
        if delta.is_whole && self.revision != Revision::NONE {
            return Self::empty().with(delta);
        }
        let Delta { revision, tenants, keys, rules, budgets, prices, is_whole: _ } = delta;
        let rules = self.rules_with(rules);
        let charges = self.charges.with(budgets, prices)?;
        let (tenants, shares) = self.tenants_with(tenants);
        let mut shards = self.shards.clone();
        let mut known = HashSet::new();
        for (place, keys) in by_shard(keys) {
            let Some(shard) = shards.get_mut(place) else { continue };
            *shard = merged(shard, keys, &mut known);
        }
        let keys = shards.iter().map(|shard| shard.len()).sum();
        if u32::try_from(keys).map_or(true, |keys| keys > KEYS_MAX) {
            return Err(StoreError::Full { limit: KEYS_MAX });
        }
        Ok(Self { revision, shards, tenants, rules, charges, shares, keys })
    }

    fn rules_with(&self, changed: Vec<Rule>) -> Arc<HashMap<Level, Arc<[Rule]>>> {
        if changed.is_empty() {
            return Arc::clone(&self.rules);
        }
        let mut all = HashMap::clone(&self.rules);
        for rule in changed {
            let of = all.remove(&rule.scope.level);
            let others = of.iter().flat_map(|rules| rules.iter()).filter(|other| other.scope != rule.scope);
            let kept = Some(&rule).filter(|rule| rule.limits != Limits::OPEN);
            let rules: Arc<[Rule]> = others.chain(kept).cloned().collect();
            if !rules.is_empty() {
                all.insert(rule.scope.level, rules);
            }
        }
        Arc::new(all)
    }

    /// The limits that bind requests of a level for a model.
    pub(crate) fn rules_of<'a>(
        &'a self,
        level: Level,
        model: &'a ModelName,
    ) -> impl Iterator<Item = &'a Rule> {
        let rules = self.rules.get(&level).into_iter().flat_map(|rules| rules.iter());
        rules.filter(move |rule| match &rule.scope.models {
            Models::All => true,
            Models::One(name) => name == model,
        })
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.values().flat_map(|rules| rules.iter())
    }

    pub(crate) fn charges(&self) -> &Charges {
        &self.charges
    }

    fn tenants_with(
        &self,
        changed: Vec<TenantEntry>,
    ) -> (Arc<HashMap<TenantId, TenantEntry>>, Arc<[TenantShare]>) {
        if changed.is_empty() {
            return (Arc::clone(&self.tenants), Arc::clone(&self.shares));
        }
        let mut tenants = HashMap::clone(&self.tenants);
        tenants.extend(changed.into_iter().map(|tenant| (tenant.id, tenant)));
        let shared = tenants.values().filter(|tenant| tenant.share != MemoryShare::default());
        let mut shares: Vec<_> =
            shared.map(|tenant| TenantShare { tag: tenant.tag, share: tenant.share }).collect();
        shares.sort_unstable_by_key(|share| share.tag);
        (Arc::new(tenants), shares.into())
    }

    pub(crate) fn find(&self, id: KeyId) -> Option<&Entry> {
        let shard = self.shards.get(shard_of(id))?;
        let place = shard.binary_search_by(|entry| entry.id.cmp(&id)).ok()?;
        shard.get(place)
    }

    /// Whether a secret that works here works no more, or less long, when `key` is as it is there.
    pub(super) fn loses_secrets(&self, key: &KeyEntry) -> bool {
        let known = self.find(key.id).into_iter().flat_map(|entry| entry.secrets.iter().flatten());
        let stays = |secret: &Digested| {
            key.secrets.iter().any(|new| new.digest == secret.digest && !new.ends.is_before(secret.ends))
        };
        known.into_iter().any(|secret| !stays(secret))
    }

    /// Whether the key is one that is not revoked, of no tenant that is suspended.
    pub(crate) fn works(&self, id: KeyId) -> bool {
        self.find(id).is_some_and(|entry| match entry.terms.purpose.tenant() {
            Some(tenant) => self.tenant(tenant).is_some_and(|tenant| tenant.state == TenantState::Active),
            None => true,
        })
    }

    pub(crate) fn tenant(&self, id: TenantId) -> Option<&TenantEntry> {
        self.tenants.get(&id)
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn shares(&self) -> Arc<[TenantShare]> {
        Arc::clone(&self.shares)
    }

    pub(crate) fn keys(&self) -> usize {
        self.keys
    }
}

fn shard_of(id: KeyId) -> usize {
    let hash = usize::try_from(crc32fast::hash(id.bytes())).unwrap_or_default();
    hash.checked_rem(SHARDS).unwrap_or_default()
}

fn by_shard(keys: Vec<KeyEntry>) -> HashMap<usize, Vec<KeyEntry>> {
    let mut shards: HashMap<usize, Vec<KeyEntry>> = HashMap::new();
    for key in keys {
        shards.entry(shard_of(key.id)).or_default().push(key);
    }
    shards
}

/// The shard with `changed` in place of what it had under their ids. Terms that are alike are kept once.
fn merged(shard: &[Entry], changed: Vec<KeyEntry>, known: &mut HashSet<Arc<Terms>>) -> Arc<[Entry]> {
    let gone: HashSet<KeyId> = changed.iter().map(|key| key.id).collect();
    let mut all: Vec<Entry> = shard.iter().filter(|entry| !gone.contains(&entry.id)).cloned().collect();
    for KeyEntry { id, purpose, limits, expires, secrets, .. } in
        changed.into_iter().filter(|key| key.revoked.is_none())
    {
        let terms = Terms { purpose, limits };
        let terms = match known.get(&terms) {
            Some(terms) => Arc::clone(terms),
            None => {
                let terms = Arc::new(terms);
                known.insert(Arc::clone(&terms));
                terms
            }
        };
        let mut secrets = secrets.into_iter();
        all.push(Entry { id, secrets: [secrets.next(), secrets.next()], expires, terms });
    }
    all.sort_unstable_by_key(|entry| entry.id);
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_takes_little_memory() {
        // Terms are shared; of a key that shares none, they are as much again.
        let alone = size_of::<Entry>() + size_of::<Terms>() + 2 * size_of::<usize>();
        assert!(size_of::<Entry>() <= 160, "{}", size_of::<Entry>());
        assert!(alone <= 300, "{alone}");
    }
}
