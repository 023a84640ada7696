//! What requests may spend, and what they cost: the budgets and prices of a snapshot.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::error::StoreError;
use crate::ledger::{Budget, BudgetName, Prices, Pricing};
use crate::level::{Level, ModelName};
use crate::store::{BudgetEntry, PriceEntry, row};

/// Budgets by whom they bind, and the price list. Immutable; a clone is cheap.
#[derive(Clone, Default)]
pub(crate) struct Charges {
    budgets: Arc<HashMap<Level, Arc<[Budget]>>>,
    prices: Arc<Prices>,
}

impl Charges {
    /// These with what changed since.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when more models have a price than may.
    pub(crate) fn with(
        &self,
        budgets: Vec<BudgetEntry>,
        prices: Vec<PriceEntry>,
    ) -> Result<Self, StoreError> {
        Ok(Self { budgets: self.budgets_with(budgets), prices: self.prices_with(prices)? })
    }

    fn budgets_with(&self, changed: Vec<BudgetEntry>) -> Arc<HashMap<Level, Arc<[Budget]>>> {
        if changed.is_empty() {
            return Arc::clone(&self.budgets);
        }
        let mut by_level: HashMap<Level, HashMap<BudgetName, BudgetEntry>> = HashMap::new();
        for entry in changed {
            let name = match &entry {
                BudgetEntry::Set(budget) => budget.name(),
                BudgetEntry::Lifted(name) => name.clone(),
            };
            by_level.entry(name.level).or_default().insert(name, entry);
        }
        let mut all = HashMap::clone(&self.budgets);
        for (level, changed) in by_level {
            let of = all.remove(&level);
            let before = of.iter().flat_map(|budgets| budgets.iter());
            let kept = before.filter(|budget| !changed.contains_key(&budget.name())).cloned();
            let set = changed.values().filter_map(|entry| match entry {
                BudgetEntry::Set(budget) => Some(budget.clone()),
                BudgetEntry::Lifted(_) => None,
            });
            let budgets: Arc<[Budget]> = kept.chain(set).collect();
            if !budgets.is_empty() {
                all.insert(level, budgets);
            }
        }
        Arc::new(all)
    }

    fn prices_with(&self, changed: Vec<PriceEntry>) -> Result<Arc<Prices>, StoreError> {
        if changed.is_empty() {
            return Ok(Arc::clone(&self.prices));
        }
        let before = self.prices.list().map(|(model, price)| (model.clone(), Some(price)));
        let merged: BTreeMap<_, _> = before.chain(changed).collect();
        let priced = merged.into_iter().filter_map(|(model, price)| Some((model, price?)));
        Prices::new(priced).map(Arc::new).map_err(|_| row::damaged("prices", "model"))
    }

    /// The budgets of a level.
    pub(crate) fn budgets_of(&self, level: Level) -> impl Iterator<Item = &Budget> {
        self.budgets.get(&level).into_iter().flat_map(|budgets| budgets.iter())
    }

    /// What a model costs.
    pub(crate) fn pricing(&self, model: &ModelName) -> Pricing {
        self.prices.of(model)
    }

    pub(super) fn budgets(&self) -> impl Iterator<Item = &Budget> {
        self.budgets.values().flat_map(|budgets| budgets.iter())
    }

    pub(super) fn prices(&self) -> &Prices {
        &self.prices
    }
}
