//! `bulkhead budget parts` and `release`.

use serde_json::{Value, json};
use tenant::{Models, PartRecord, Period, Released, Unit, UtcHour};

use super::limits::{level_id, model_cell};
use super::money::units;
use crate::exit::Failure;
use crate::present::{self, Form};

const COLUMNS: [&str; 10] =
    ["LEVEL", "MODEL", "COUNTS", "PER", "FROM", "GATEWAY", "PART", "SPENT", "LEFT", "TOLD"];

pub(super) fn shown(parts: &[PartRecord], form: Form) -> Result<(), Failure> {
    match form {
        Form::Json => present::json(&parts.iter().map(json_of).collect()),
        Form::Table => present::table(&COLUMNS, &parts.iter().map(row_of).collect::<Vec<_>>()),
    }
}

pub(super) fn released(released: &[Released], form: Form) -> Result<(), Failure> {
    match form {
        Form::Json => present::json(&released.iter().map(released_json).collect()),
        Form::Table => {
            for Released { part, freed } in released {
                let freed = amount(part.unit, *freed);
                present::line(&format!(
                    "{freed} {} per {} of {} are free again",
                    part.unit.name(),
                    part.period.name(),
                    part.level
                ))?;
            }
            present::line(&format!("{} parts had something left", released.len()))
        }
    }
}

fn released_json(released: &Released) -> Value {
    let mut part = json_of(&released.part);
    if let Some(fields) = part.as_object_mut() {
        fields.insert("freed".to_owned(), released.freed.into());
    }
    part
}

fn json_of(part: &PartRecord) -> Value {
    let model = match &part.models {
        Models::All => None,
        Models::One(name) => Some(name.as_str()),
    };
    json!({
        "level": part.level.name(),
        "id": level_id(part.level),
        "model": model,
        "count": part.unit.name(),
        "per": part.period.name(),
        "from": from(part),
        "gateway": part.gateway,
        // Tokens, or micro-units of money.
        "part": part.amount,
        "spent": part.spent,
        "left": part.amount.saturating_sub(part.used),
        "told_ms": part.seen.get(),
    })
}

fn row_of(part: &PartRecord) -> Vec<String> {
    let amount = |number| amount(part.unit, number);
    vec![
        part.level.to_string(),
        model_cell(&part.models),
        part.unit.name().to_owned(),
        part.period.name().to_owned(),
        from(part).unwrap_or_default(),
        part.gateway.clone(),
        amount(part.amount),
        amount(part.spent),
        amount(part.amount.saturating_sub(part.used)),
        UtcHour::of(part.seen).to_string(),
    ]
}

/// The first hour of its period; none of one that is for ever.
fn from(part: &PartRecord) -> Option<String> {
    match part.period {
        Period::Day | Period::Month => Some(UtcHour::new(part.starts.saturating_mul(24)).to_string()),
        Period::Total => None,
    }
}

fn amount(unit: Unit, number: u64) -> String {
    match unit {
        Unit::Tokens => number.to_string(),
        Unit::MicroMoney => units(number),
    }
}
