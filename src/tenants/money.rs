//! Money as people write it: units with up to six decimals, and nothing rounded.

/// Decimals of a unit.
const DECIMALS: usize = 6;

/// Micro-units of what `text` says in units: `12`, `12.5`, `0.000001`.
pub(super) fn micro_units(text: &str) -> Result<u64, String> {
    let bad =
        || format!("`{text}` is no amount: units with up to {DECIMALS} decimals are needed, as in 12.50");
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > DECIMALS {
        return Err(bad());
    }
    format!("{whole}{decimals:0<DECIMALS$}").parse().map_err(|_| bad())
}

/// Units of `micro` micro-units, with the decimals that it needs, two at least.
pub(super) fn units(micro: u64) -> String {
    let text = format!("{micro:0>width$}", width = DECIMALS.saturating_add(1));
    let (whole, decimals) = text.split_at(text.len().saturating_sub(DECIMALS));
    let kept = decimals.trim_end_matches('0').len().max(2);
    format!("{whole}.{}", decimals.get(..kept).unwrap_or(decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_written_as_it_is_read() {
        for (text, micro, written) in [
            ("0", 0, "0.00"),
            ("12", 12_000_000, "12.00"),
            ("12.5", 12_500_000, "12.50"),
            ("0.000001", 1, "0.000001"),
            ("0.075", 75_000, "0.075"),
            ("18446744073709.551615", u64::MAX, "18446744073709.551615"),
        ] {
            assert_eq!(micro_units(text), Ok(micro), "{text}");
            assert_eq!(units(micro), written);
            assert_eq!(micro_units(&units(micro)), Ok(micro));
        }
        for bad in
            ["", ".", "1.", ".5", "-1", "1e3", "1,5", "1.0000001", "18446744073709.551616", "0x1", " 1"]
        {
            assert!(micro_units(bad).is_err(), "{bad}");
        }
    }
}
