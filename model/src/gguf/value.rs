//! Metadata values: numbers of ten widths kept in five, texts, and arrays of these.

use std::io::Read;
use std::mem::size_of;

use super::GgufError;
use super::source::Source;

/// Longest string value in bytes. Chat templates reach 20 KB, tokens a few hundred.
pub const STRING_BYTES_MAX: u64 = 1024 * 1024;
/// Most elements of one array. The largest vocabularies in use have 262,144 tokens, and twice as many merges.
pub const ARRAY_LEN_MAX: u64 = 2 * 1024 * 1024;
/// Deepest nesting of arrays: an array of arrays of scalars.
pub const ARRAY_DEPTH_MAX: u32 = 2;

/// A metadata value. Whole numbers are widened; the width they had in the file is not kept.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `u8`, `u16`, `u32` or `u64`.
    Unsigned(u64),
    /// `i8`, `i16`, `i32` or `i64`.
    Signed(i64),
    /// `f32`.
    Float32(f32),
    /// `f64`.
    Float64(f64),
    /// A boolean.
    Flag(bool),
    /// A UTF-8 string.
    Text(String),
    /// An array of one type.
    Array(Array),
}

/// An array of values of one type.
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    /// Of unsigned numbers.
    Unsigned(Vec<u64>),
    /// Of signed numbers.
    Signed(Vec<i64>),
    /// Of `f32`.
    Float32(Vec<f32>),
    /// Of `f64`.
    Float64(Vec<f64>),
    /// Of booleans.
    Flag(Vec<bool>),
    /// Of UTF-8 strings.
    Text(Vec<String>),
    /// Of arrays.
    Nested(Vec<Array>),
}

/// The format's type numbers.
#[derive(Clone, Copy)]
enum Type {
    Unsigned(Width),
    Signed(Width),
    Float32,
    Float64,
    Flag,
    Text,
    Array,
}

/// Bytes of a whole number in the file.
#[derive(Clone, Copy)]
enum Width {
    One,
    Two,
    Four,
    Eight,
}

impl Type {
    fn read<R: Read>(source: &mut Source<'_, R>) -> Result<Type, GgufError> {
        let at = source.at();
        Ok(match source.u32()? {
            0 => Type::Unsigned(Width::One),
            1 => Type::Signed(Width::One),
            2 => Type::Unsigned(Width::Two),
            3 => Type::Signed(Width::Two),
            4 => Type::Unsigned(Width::Four),
            5 => Type::Signed(Width::Four),
            6 => Type::Float32,
            7 => Type::Flag,
            8 => Type::Text,
            9 => Type::Array,
            10 => Type::Unsigned(Width::Eight),
            11 => Type::Signed(Width::Eight),
            12 => Type::Float64,
            number => return Err(GgufError::Meaningless { at, number }),
        })
    }

    /// Fewest bytes that one element takes in the file: what a claimed count is checked against before allocating.
    fn bytes_min(self) -> u64 {
        match self {
            Type::Flag | Type::Unsigned(Width::One) | Type::Signed(Width::One) => 1,
            Type::Unsigned(Width::Two) | Type::Signed(Width::Two) => 2,
            Type::Float32 | Type::Unsigned(Width::Four) | Type::Signed(Width::Four) => 4,
            Type::Float64 | Type::Text | Type::Unsigned(Width::Eight) | Type::Signed(Width::Eight) => 8,
            Type::Array => 12,
        }
    }
}

impl Value {
    /// Reads a type number and a value of that type.
    pub(super) fn read<R: Read>(source: &mut Source<'_, R>) -> Result<Value, GgufError> {
        Ok(match Type::read(source)? {
            Type::Unsigned(width) => Value::Unsigned(unsigned(source, width)?),
            Type::Signed(width) => Value::Signed(signed(source, width)?),
            Type::Float32 => Value::Float32(f32::from_le_bytes(source.array()?)),
            Type::Float64 => Value::Float64(f64::from_le_bytes(source.array()?)),
            Type::Flag => Value::Flag(flag(source)?),
            Type::Text => Value::Text(text(source)?),
            Type::Array => Value::Array(Array::read(source, 1)?),
        })
    }

    /// The number, if it is a whole number of at least 0.
    #[must_use]
    pub fn as_unsigned(&self) -> Option<u64> {
        match self {
            Value::Unsigned(number) => Some(*number),
            Value::Signed(number) => u64::try_from(*number).ok(),
            Value::Float32(_) | Value::Float64(_) | Value::Flag(_) | Value::Text(_) | Value::Array(_) => None,
        }
    }
}

impl Array {
    fn read<R: Read>(source: &mut Source<'_, R>, depth: u32) -> Result<Array, GgufError> {
        if depth > ARRAY_DEPTH_MAX {
            return Err(GgufError::TooMany {
                what: "nested arrays",
                claimed: depth.into(),
                bound: ARRAY_DEPTH_MAX.into(),
            });
        }
        let kind = Type::read(source)?;
        let count = source.count("elements of an array", ARRAY_LEN_MAX)?;
        source.expect_left(count.saturating_mul(kind.bytes_min()))?;
        Ok(match kind {
            Type::Unsigned(width) => {
                Array::Unsigned(elements(source, count, |source| unsigned(source, width))?)
            }
            Type::Signed(width) => Array::Signed(elements(source, count, |source| signed(source, width))?),
            Type::Float32 => {
                Array::Float32(elements(source, count, |source| source.array().map(f32::from_le_bytes))?)
            }
            Type::Float64 => {
                Array::Float64(elements(source, count, |source| source.array().map(f64::from_le_bytes))?)
            }
            Type::Flag => Array::Flag(elements(source, count, flag)?),
            Type::Text => Array::Text(elements(source, count, text)?),
            Type::Array => {
                let deeper = depth.saturating_add(1);
                Array::Nested(elements(source, count, |source| Array::read(source, deeper))?)
            }
        })
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Array::Unsigned(items) => items.len(),
            Array::Signed(items) => items.len(),
            Array::Float32(items) => items.len(),
            Array::Float64(items) => items.len(),
            Array::Flag(items) => items.len(),
            Array::Text(items) => items.len(),
            Array::Nested(items) => items.len(),
        }
    }

    /// True when the array has no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// `count` elements, charged before they are allocated.
fn elements<R: Read, T>(
    source: &mut Source<'_, R>,
    count: u64,
    mut element: impl FnMut(&mut Source<'_, R>) -> Result<T, GgufError>,
) -> Result<Vec<T>, GgufError> {
    source.hold(count, u64::try_from(size_of::<T>()).unwrap_or(u64::MAX))?;
    let mut items = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    for _ in 0..count {
        items.push(element(source)?);
    }
    Ok(items)
}

fn unsigned<R: Read>(source: &mut Source<'_, R>, width: Width) -> Result<u64, GgufError> {
    match width {
        Width::One => source.array().map(|bytes| u8::from_le_bytes(bytes).into()),
        Width::Two => source.array().map(|bytes| u16::from_le_bytes(bytes).into()),
        Width::Four => source.u32().map(u64::from),
        Width::Eight => source.u64(),
    }
}

fn signed<R: Read>(source: &mut Source<'_, R>, width: Width) -> Result<i64, GgufError> {
    match width {
        Width::One => source.array().map(|bytes| i8::from_le_bytes(bytes).into()),
        Width::Two => source.array().map(|bytes| i16::from_le_bytes(bytes).into()),
        Width::Four => source.array().map(|bytes| i32::from_le_bytes(bytes).into()),
        Width::Eight => source.array().map(i64::from_le_bytes),
    }
}

fn flag<R: Read>(source: &mut Source<'_, R>) -> Result<bool, GgufError> {
    let at = source.at();
    match source.array::<1>()? {
        [0] => Ok(false),
        [1] => Ok(true),
        [number] => Err(GgufError::Meaningless { at, number: number.into() }),
    }
}

fn text<R: Read>(source: &mut Source<'_, R>) -> Result<String, GgufError> {
    source.string("bytes of a string", STRING_BYTES_MAX)
}
