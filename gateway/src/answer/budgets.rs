//! What budgets refuse, and how that is said.

use tenant::{BudgetRefusal, Level, OverBudget};

/// Why a request is not reserved.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum BudgetDenied {
    /// It may use more than is left.
    Over(Box<OverBudget>),
    /// Other gateways hold what it lacks, and are told to give it back.
    Elsewhere(Box<OverBudget>),
    /// What this gateway holds of a budget is too little, and the store does not say whether there is more.
    StoreAway {
        /// The budget.
        over: Box<OverBudget>,
        /// What is left of what this gateway holds.
        left_here: u64,
    },
    /// Its budget is in money, and the model has no price. The operator's to mend.
    Unpriced(Level),
    /// Its budgets cannot be counted together. The operator's to mend.
    Unfit,
    /// Nothing can be reserved now: the ledger is full, or its disk fails.
    Unavailable,
}

impl From<BudgetRefusal> for BudgetDenied {
    fn from(refusal: BudgetRefusal) -> Self {
        match refusal {
            BudgetRefusal::OverBudget(over) => Self::Over(over),
            BudgetRefusal::Elsewhere(over) => Self::Elsewhere(over),
            BudgetRefusal::StoreAway { over, left_here } => Self::StoreAway { over, left_here },
            BudgetRefusal::Unpriced { level } => Self::Unpriced(level),
            BudgetRefusal::TooManyBudgets | BudgetRefusal::TooLarge => Self::Unfit,
            BudgetRefusal::ReservationsFull { .. }
            | BudgetRefusal::UsageFull { .. }
            | BudgetRefusal::SumsFull { .. }
            | BudgetRefusal::TenantsFull { .. }
            | BudgetRefusal::Short(_)
            | BudgetRefusal::Journal(_) => Self::Unavailable,
        }
    }
}

impl BudgetDenied {
    pub(super) const fn status(&self) -> u16 {
        match self {
            Self::Over(_) => 429,
            Self::Elsewhere(_)
            | Self::StoreAway { .. }
            | Self::Unpriced(_)
            | Self::Unfit
            | Self::Unavailable => 503,
        }
    }

    /// As `OpenAI` names it, where it has a name for it.
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::Over(_) => "insufficient_quota",
            Self::Elsewhere(_) => "budget_held_elsewhere",
            Self::StoreAway { .. } => "budget_store_unavailable",
            Self::Unpriced(_) => "model_without_price",
            Self::Unfit => "budgets_unusable",
            Self::Unavailable => "budgets_unavailable",
        }
    }

    /// Whether a next try may do without anybody's doing.
    pub(crate) const fn may_pass_soon(&self) -> bool {
        match self {
            Self::Elsewhere(_) | Self::StoreAway { .. } | Self::Unavailable => true,
            Self::Over(_) | Self::Unpriced(_) | Self::Unfit => false,
        }
    }

    /// The level, what is counted and for how long, in the words of `bulkhead budget`.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Over(over) | Self::Elsewhere(over) | Self::StoreAway { over, .. } => {
                format!("{}.budget.{}.{}", over.level.name(), over.unit.name(), over.period.name())
            }
            Self::Unpriced(level) => format!("{}.budget.money", level.name()),
            Self::Unfit | Self::Unavailable => self.code().to_owned(),
        }
    }

    /// As `OpenAI` begins it, and then the budget's own words: whose, asked, left, and when it begins anew.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Over(over) => {
                format!("You exceeded your current quota: {over}. Ask for less, or for a higher budget.")
            }
            Self::Elsewhere(over) => {
                let OverBudget { level, unit, period, asked, left, limit, .. } = &**over;
                format!(
                    "This request may need {asked} {unit} of the budget of {limit} ({period}) of {level}, of which {left} are left, but \
                     other gateways of this service hold some of that and are giving it back. Try again shortly."
                )
            }
            Self::StoreAway { over, left_here } => {
                let OverBudget { level, unit, period, asked, limit, .. } = &**over;
                format!(
                    "This request may need {asked} {unit} of the budget of {limit} ({period}) of {level}; this gateway holds {left_here} \
                     of it, and the database that hands out more does not answer. Try again shortly, or ask for at most {left_here}."
                )
            }
            Self::Unpriced(level) => format!(
                "This request cannot be charged: the {} has a budget in money, and this model has no price. Ask whoever runs this service.",
                level.name()
            ),
            Self::Unfit => {
                "The budgets of this API key cannot be counted together. Ask whoever runs this service."
                    .into()
            }
            Self::Unavailable => {
                "This request cannot be counted against budgets at this moment. Try again shortly.".into()
            }
        }
    }
}
