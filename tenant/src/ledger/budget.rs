//! What a budget is, and which requests it binds.

use core::fmt;

use crate::key::KeyId;
use crate::ledger::price::{Price, Pricing, Used, WorstCase};
use crate::level::{Level, ModelName, Models, ProjectId};
use crate::store::TenantId;

/// Thresholds that a budget may have.
pub const THRESHOLDS_MAX: usize = 4;
/// Budgets that may be held against one request.
pub const REQUEST_BUDGETS_MAX: usize = 64;

/// How much a key, a project or a tenant may use in a period.
///
/// Two budgets of the same level, models, unit and period share one sum. A sum counts from the first request
/// on that such a budget binds; a changed limit changes no sum.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Budget {
    /// Whom it binds.
    pub level: Level,
    /// Which requests it counts.
    pub models: Models,
    /// What it counts.
    pub unit: Unit,
    /// For how long.
    pub period: Period,
    /// Tokens, or micro-units of money.
    pub limit: u64,
    /// Whether it refuses.
    pub kind: BudgetKind,
    /// When it warns; a soft one warns at 100 % also.
    pub thresholds: Thresholds,
}

/// What tells a budget from others.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct BudgetName {
    /// Whom it binds.
    pub level: Level,
    /// Which requests it counts.
    pub models: Models,
    /// What it counts.
    pub unit: Unit,
    /// For how long.
    pub period: Period,
    /// Whether it refuses.
    pub kind: BudgetKind,
}

impl BudgetName {
    /// The budget of this name.
    #[must_use]
    pub fn budget(self, limit: u64, thresholds: Thresholds) -> Budget {
        let Self { level, models, unit, period, kind } = self;
        Budget { level, models, unit, period, limit, kind, thresholds }
    }
}

/// What a budget counts.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Unit {
    /// Prompt and completion tokens; a cached one counts as any other.
    Tokens,
    /// Micro-units of money.
    MicroMoney,
}

impl Unit {
    /// What stores, listings and the command line call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::MicroMoney => "money",
        }
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Tokens, Self::MicroMoney].into_iter().find(|unit| unit.name() == name)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tokens => "tokens",
            Self::MicroMoney => "micro-units of money",
        })
    }
}

/// How long a budget counts before it begins anew. Windows are those of the UTC calendar.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Period {
    /// From midnight to midnight.
    Day,
    /// From the first of a month to the first of the next.
    Month,
    /// For ever.
    Total,
}

impl Period {
    /// What stores, listings and the command line call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
            Self::Total => "total",
        }
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Day, Self::Month, Self::Total].into_iter().find(|period| period.name() == name)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a budget refuses.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum BudgetKind {
    /// Nothing is reserved beyond it.
    Hard,
    /// It warns, and refuses nothing but a model without a price where it counts money.
    Soft,
}

impl BudgetKind {
    /// What stores, listings and the command line call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
        }
    }

    /// Reads a name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Hard, Self::Soft].into_iter().find(|kind| kind.name() == name)
    }
}

/// Percents of a budget's limit at which it warns: up to [`THRESHOLDS_MAX`], each from 1 to 100 and above the
/// one before.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Thresholds([u8; THRESHOLDS_MAX]);

/// Thresholds that cannot be.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("thresholds are up to {THRESHOLDS_MAX} percents from 1 to 100, each above the one before")]
pub struct BadThresholds;

impl Thresholds {
    /// None: a soft budget still warns at 100 %.
    pub const NONE: Self = Self([0; THRESHOLDS_MAX]);

    /// Checks `percents`.
    ///
    /// # Errors
    /// [`BadThresholds`].
    pub fn new(percents: &[u8]) -> Result<Self, BadThresholds> {
        let mut held = [0; THRESHOLDS_MAX];
        let mut before = 0;
        if percents.len() > THRESHOLDS_MAX {
            return Err(BadThresholds);
        }
        for (place, percent) in held.iter_mut().zip(percents) {
            if *percent <= before || *percent > 100 {
                return Err(BadThresholds);
            }
            *place = *percent;
            before = *percent;
        }
        Ok(Self(held))
    }

    /// The percents, rising.
    pub fn percents(&self) -> impl Iterator<Item = u8> {
        self.0.into_iter().take_while(|percent| *percent > 0)
    }
}

impl Budget {
    /// What tells it from others.
    pub fn name(&self) -> BudgetName {
        let Self { level, unit, period, kind, .. } = *self;
        BudgetName { level, models: self.models.clone(), unit, period, kind }
    }

    /// Whether it counts what `payer` asks of `model`.
    pub fn binds(&self, payer: &Payer, model: &ModelName) -> bool {
        let level = match self.level {
            Level::Key(key) => key == payer.key,
            Level::Project(project) => project == payer.project,
            Level::Tenant(tenant) => tenant == payer.tenant,
        };
        level
            && match &self.models {
                Models::All => true,
                Models::One(one) => one == model,
            }
    }

    /// The percents at which it warns, rising; what is passed when `spent` is spent.
    pub(crate) fn passed(&self, spent: u64) -> impl Iterator<Item = u8> {
        let implied = match self.kind {
            BudgetKind::Soft if self.thresholds.percents().last() != Some(100) => Some(100),
            BudgetKind::Soft | BudgetKind::Hard => None,
        };
        let limit = u128::from(self.limit);
        self.thresholds.percents().chain(implied).filter(move |percent| {
            // Nothing spent passes nothing, not even of a limit of 0.
            let threshold = limit.saturating_mul(u128::from(*percent)).div_ceil(100).max(1);
            u128::from(spent) >= threshold
        })
    }
}

/// Who pays for a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Payer {
    /// The tenant.
    pub tenant: TenantId,
    /// Its project.
    pub project: ProjectId,
    /// The key that asks.
    pub key: KeyId,
}

/// What `worst` takes of a budget of `unit`; nothing of money where there is no price, which must have been
/// refused before.
pub(crate) fn asked(unit: Unit, worst: WorstCase, pricing: Pricing) -> u64 {
    match (unit, pricing) {
        (Unit::Tokens, _) => worst.tokens(),
        (Unit::MicroMoney, Pricing::Priced(price)) => price.worst_cost(worst),
        (Unit::MicroMoney, Pricing::Unpriced) => 0,
    }
}

/// What `used` takes of a budget of `unit`.
pub(crate) fn spent(unit: Unit, used: Used, pricing: Pricing) -> u64 {
    match unit {
        Unit::Tokens => used.tokens(),
        Unit::MicroMoney => cost(used, pricing),
    }
}

/// What `used` costs; 0 where there is no price.
pub(crate) fn cost(used: Used, pricing: Pricing) -> u64 {
    match pricing {
        Pricing::Priced(price) => Price::cost(price, used),
        Pricing::Unpriced => 0,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_budget_binds_its_own_level_and_model_only() {
        let payer = Payer {
            tenant: TenantId(Uuid::from_u128(1)),
            project: ProjectId(Uuid::from_u128(1)),
            key: KeyId::parse("aaaaaaaaaaaa").unwrap(),
        };
        let (model, other) = (ModelName::new("m").unwrap(), ModelName::new("n").unwrap());
        let of = |level, models| Budget {
            level,
            models,
            unit: Unit::Tokens,
            period: Period::Total,
            limit: 1,
            kind: BudgetKind::Hard,
            thresholds: Thresholds::NONE,
        };
        let one = Models::One(model.clone());
        assert!(of(Level::Key(payer.key), one.clone()).binds(&payer, &model));
        assert!(!of(Level::Key(payer.key), one).binds(&payer, &other));
        let foreign = [
            Level::Key(KeyId::parse("bbbbbbbbbbbb").unwrap()),
            Level::Project(ProjectId(Uuid::from_u128(2))),
            Level::Tenant(TenantId(Uuid::from_u128(2))),
        ];
        for level in foreign {
            assert!(!of(level, Models::All).binds(&payer, &model), "{level}");
        }
    }

    #[test]
    fn thresholds_are_bounded_and_rise() {
        for bad in [&[0][..], &[101], &[80, 80], &[80, 50], &[1, 2, 3, 4, 5]] {
            assert_eq!(Thresholds::new(bad), Err(BadThresholds), "{bad:?}");
        }
        let mut budget = Budget {
            level: Level::Tenant(TenantId(Uuid::nil())),
            models: Models::All,
            unit: Unit::Tokens,
            period: Period::Day,
            limit: 9,
            kind: BudgetKind::Hard,
            thresholds: Thresholds::new(&[50, 80]).unwrap(),
        };
        let passed = |budget: &Budget, spent| budget.passed(spent).collect::<Vec<_>>();
        assert_eq!(passed(&budget, 4), [0_u8; 0]);
        assert_eq!(passed(&budget, 5), [50], "half of 9 is passed with 5");
        assert_eq!(passed(&budget, 9), [50, 80]);
        budget.kind = BudgetKind::Soft;
        assert_eq!(passed(&budget, 9), [50, 80, 100]);
        budget.limit = 0;
        assert_eq!(passed(&budget, 0), [0_u8; 0]);
        assert_eq!(passed(&budget, 1), [50, 80, 100]);
    }
}
