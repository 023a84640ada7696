//! What sums are kept for, and which of them a request counts in.

use crate::ledger::budget::{Budget, Payer, Period, Unit};
use crate::level::{Level, ModelName, Models};

/// What a sum is kept for, apart from its window.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) models: Models,
    pub(crate) unit: Unit,
    pub(crate) period: Period,
}

/// The lines that bind a request. Given who pays and which model, a line is one of 3 levels x 2 kinds of
/// models x 2 units x 3 periods, and so one bit of 36.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Binds(u64);

/// Lines that may bind one request.
pub(crate) const BINDS_MAX: u32 = 36;

impl Binds {
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Reads what [`Binds::bits`] gave.
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        (bits.checked_shr(BINDS_MAX) == Some(0)).then_some(Self(bits))
    }

    /// With the line of `budget`, which must bind.
    #[must_use]
    pub(crate) fn and(self, budget: &Budget) -> Self {
        let level: u32 = match budget.level {
            Level::Key(_) => 0,
            Level::Project(_) => 12,
            Level::Tenant(_) => 24,
        };
        let models = match budget.models {
            Models::All => 0,
            Models::One(_) => 6,
        };
        let unit = match budget.unit {
            Unit::Tokens => 0,
            Unit::MicroMoney => 3,
        };
        let period = match budget.period {
            Period::Day => 0,
            Period::Month => 1,
            Period::Total => 2,
        };
        let bit = [models, unit, period].into_iter().fold(level, u32::saturating_add);
        Self(self.0 | 1_u64.checked_shl(bit).unwrap_or(0))
    }

    /// The lines, of a request of `payer` for `model`.
    pub(crate) fn lines(self, payer: Payer, model: &ModelName) -> impl Iterator<Item = Line> {
        let is_set = move |bit: &u32| self.0.checked_shr(*bit).is_some_and(|rest| rest & 1 == 1);
        (0..BINDS_MAX).filter(is_set).map(move |bit| Line {
            level: match bit.div_euclid(12) {
                0 => Level::Key(payer.key),
                1 => Level::Project(payer.project),
                _ => Level::Tenant(payer.tenant),
            },
            models: match bit.div_euclid(6).rem_euclid(2) {
                0 => Models::All,
                _ => Models::One(model.clone()),
            },
            unit: match bit.div_euclid(3).rem_euclid(2) {
                0 => Unit::Tokens,
                _ => Unit::MicroMoney,
            },
            period: match bit.rem_euclid(3) {
                0 => Period::Day,
                1 => Period::Month,
                _ => Period::Total,
            },
        })
    }
}

impl Budget {
    pub(crate) fn line(&self) -> Line {
        Line { level: self.level, models: self.models.clone(), unit: self.unit, period: self.period }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::key::KeyId;
    use crate::ledger::budget::{BudgetKind, Thresholds};
    use crate::level::ProjectId;
    use crate::store::TenantId;

    #[test]
    fn each_line_of_a_request_has_a_bit_of_its_own() {
        let payer = Payer {
            tenant: TenantId(Uuid::from_u128(1)),
            project: ProjectId(Uuid::from_u128(2)),
            key: KeyId::parse("aaaaaaaaaaaa").unwrap(),
        };
        let model = ModelName::new("m").unwrap();
        let all = Binds::from_bits((1 << BINDS_MAX) - 1).unwrap();
        let mut again = Binds::default();
        for line in all.lines(payer, &model) {
            let Line { level, models, unit, period } = line.clone();
            let budget = Budget {
                level,
                models,
                unit,
                period,
                limit: 1,
                kind: BudgetKind::Hard,
                thresholds: Thresholds::NONE,
            };
            assert!(budget.binds(&payer, &model));
            assert_eq!(Binds::default().and(&budget).lines(payer, &model).collect::<Vec<_>>(), [line]);
            again = again.and(&budget);
        }
        assert_eq!(again, all);
        assert_eq!(Binds::from_bits(1 << BINDS_MAX), None);
    }
}
