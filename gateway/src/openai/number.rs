//! Numbers within bounds.
//!
//! A whole number may come as `2` or as `2.0`: some languages have but one kind of number.

use core::ops::RangeInclusive;

use super::error::{BadCode, BadRequest};
use super::field::wrong_type;
use super::json::Json;

/// Floats from here on are shown with an exponent.
const PLAIN_BELOW: f64 = 1e21;

/// A whole number within `bounds`.
pub(super) fn integer(value: Json, path: &str, bounds: RangeInclusive<i128>) -> Result<i128, BadRequest> {
    let number = match value {
        Json::Int(number) => i128::from(number),
        Json::Big(number) => i128::from(number),
        Json::Float(number) => match whole(number) {
            Some(number) => number,
            None => {
                let what = format!("expected an integer, got {}", shown(number));
                return Err(BadRequest::at(BadCode::InvalidType, path, what));
            }
        },
        other => return Err(wrong_type(path, "an integer", &other)),
    };
    let (least, most) = (*bounds.start(), *bounds.end());
    if number < least {
        let what = format!("{number} is under the least, {least}");
        return Err(BadRequest::at(BadCode::IntegerBelowMin, path, what));
    }
    if number > most {
        let what = format!("{number} is over the most, {most}");
        return Err(BadRequest::at(BadCode::IntegerAboveMax, path, what));
    }
    Ok(number)
}

/// A whole number of at most 32 bits, within `bounds`.
pub(super) fn small(value: Json, path: &str, bounds: RangeInclusive<u32>) -> Result<u32, BadRequest> {
    let wide = i128::from(*bounds.start())..=i128::from(*bounds.end());
    let number = integer(value, path, wide)?;
    // Within the bounds, so it fits; the fallback is a bound too.
    Ok(u32::try_from(number).unwrap_or(*bounds.end()))
}

/// A number within `bounds`.
pub(super) fn decimal(value: Json, path: &str, bounds: RangeInclusive<f64>) -> Result<f32, BadRequest> {
    let number = match value {
        Json::Int(number) => widen(i128::from(number)),
        Json::Big(number) => widen(i128::from(number)),
        Json::Float(number) => number,
        other => return Err(wrong_type(path, "a number", &other)),
    };
    let (least, most) = (*bounds.start(), *bounds.end());
    if number < least {
        let what = format!("{} is under the least, {least}", shown(number));
        return Err(BadRequest::at(BadCode::DecimalBelowMin, path, what));
    }
    if number > most {
        let what = format!("{} is over the most, {most}", shown(number));
        return Err(BadRequest::at(BadCode::DecimalAboveMax, path, what));
    }
    Ok(narrow(number))
}

/// A seed: any whole number of 64 bits, with a sign or without; the negative ones are taken by their bits.
pub(super) fn seed(value: Json, path: &str) -> Result<u64, BadRequest> {
    let number = integer(value, path, i128::from(i64::MIN)..=i128::from(u64::MAX))?;
    // Within the bounds, so one of the two fits.
    let negative = i64::try_from(number).map_or(0, i64::cast_unsigned);
    Ok(u64::try_from(number).unwrap_or(negative))
}

/// The integer that `number` is, if it is one. Above 2^53 it is the float's own value, which a bound then refuses or a
/// seed takes.
#[expect(clippy::as_conversions, reason = "a float without a fraction; `as` saturates where an i128 ends")]
fn whole(number: f64) -> Option<i128> {
    (number.fract() == 0.0).then_some(number as i128)
}

#[expect(
    clippy::as_conversions,
    reason = "to the nearest float; every bound is far below where floats are inexact"
)]
const fn widen(number: i128) -> f64 {
    number as f64
}

#[expect(clippy::as_conversions, reason = "to the nearest f32; all callers bound it by 100 or less")]
const fn narrow(number: f64) -> f32 {
    number as f32
}

fn shown(number: f64) -> String {
    if number.abs() < PLAIN_BELOW { format!("{number}") } else { format!("{number:e}") }
}
