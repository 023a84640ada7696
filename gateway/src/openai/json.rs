//! A body as a tree of values, read strictly: no key twice, no number that a float cannot hold, bounded in depth and count.
//!
//! Architecture invariant: knows no field.

use core::cell::{Cell, RefCell};
use core::fmt;
use std::collections::BTreeMap;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::error::{BadCode, BadRequest, shown};

/// Values that a body may hold, objects, arrays and all: eight prompts of 65,536 token ids. It bounds what a body of
/// `[1,1,1,...` grows to in memory, about 16 MiB.
pub(super) const VALUES_MAX: usize = 524_288;

/// One value. No `Debug`: it may be a prompt.
pub(super) enum Json {
    Null,
    Bool(bool),
    /// A whole number that a signed 64-bit integer holds.
    Int(i64),
    /// A whole number above `i64::MAX`.
    Big(u64),
    /// Any other number; always finite.
    Float(f64),
    Text(String),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// The type's name, as messages say it.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Big(_) => "an integer",
            Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

/// Reads one value and nothing after it.
pub(super) fn read(body: &[u8], depth_max: usize) -> Result<Json, BadRequest> {
    let invalid = |what: String| BadRequest::whole(BadCode::InvalidJson, what);
    let text = core::str::from_utf8(body)
        .map_err(|error| invalid(format!("The body is not UTF-8 at byte {}.", error.valid_up_to())))?;
    let reading =
        Reading { values: Cell::new(0), depth_max, refused: RefCell::new(None), path: RefCell::default() };
    let mut source = serde_json::Deserializer::from_str(text);
    let value = Seed { reading: &reading, depth: 0 }
        .deserialize(&mut source)
        .and_then(|value| source.end().map(|()| value));
    value.map_err(|error| {
        let refused = reading.refused.take().map(|refused| refused.told(&reading.path.take()));
        // The parser's own words name a kind of fault and a place; they quote nothing.
        refused.unwrap_or_else(|| invalid(format!("The body is not valid JSON: {error}.")))
    })
}

/// What is kept while one body is read.
struct Reading {
    values: Cell<usize>,
    depth_max: usize,
    refused: RefCell<Option<Refused>>,
    /// Keys and places from the refused value outwards.
    path: RefCell<Vec<String>>,
}

/// What we refuse and JSON as such does not.
enum Refused {
    TooDeep { depth_max: usize },
    TooMany,
    Twice,
}

impl Refused {
    fn told(self, path: &[String]) -> BadRequest {
        let path: String = path.iter().rev().map(String::as_str).collect();
        let param = path.strip_prefix('.').unwrap_or(&path);
        match self {
            Self::TooDeep { depth_max } => BadRequest::whole(
                BadCode::JsonTooDeep,
                format!("The body nests deeper than the {depth_max} levels of arrays and objects allowed."),
            ),
            Self::TooMany => BadRequest::whole(
                BadCode::JsonTooManyValues,
                format!("The body holds more than the {VALUES_MAX} values allowed."),
            ),
            Self::Twice => BadRequest::at(BadCode::DuplicateParameter, param, "it is given more than once"),
        }
    }
}

impl Reading {
    fn refuse<E: serde::de::Error>(&self, refused: Refused) -> E {
        *self.refused.borrow_mut() = Some(refused);
        E::custom("refused")
    }

    /// Adds a step to the path of a refusal on its way out.
    fn within(&self, step: impl FnOnce() -> String) {
        if matches!(*self.refused.borrow(), Some(Refused::Twice)) {
            self.path.borrow_mut().push(step());
        }
    }
}

#[derive(Clone, Copy)]
struct Seed<'r> {
    reading: &'r Reading,
    /// Arrays and objects around this value.
    depth: usize,
}

impl Seed<'_> {
    /// The seed of what an array or object holds; refused before the parser goes deeper.
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        let depth = self.depth.saturating_add(1);
        if depth > self.reading.depth_max {
            return Err(self.reading.refuse(Refused::TooDeep { depth_max: self.reading.depth_max }));
        }
        Ok(Self { depth, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Json, D::Error> {
        let values = self.reading.values.get().saturating_add(1);
        self.reading.values.set(values);
        if values > VALUES_MAX {
            return Err(self.reading.refuse(Refused::TooMany));
        }
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Big(value), Json::Int))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Json, E> {
        // The parser refuses what overflows; this holds should it ever not.
        if value.is_finite() { Ok(Json::Float(value)) } else { Err(E::custom("number out of range")) }
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut source: A) -> Result<Json, A::Error> {
        let inner = self.deeper()?;
        let mut array = Vec::new();
        loop {
            match source.next_element_seed(inner) {
                Ok(Some(value)) => array.push(value),
                Ok(None) => return Ok(Json::Array(array)),
                Err(error) => {
                    self.reading.within(|| format!("[{}]", array.len()));
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut source: A) -> Result<Json, A::Error> {
        let inner = self.deeper()?;
        let mut object = BTreeMap::new();
        while let Some(key) = source.next_key::<String>()? {
            let step = || format!(".{}", shown(&key));
            if object.contains_key(&key) {
                let error = self.reading.refuse(Refused::Twice);
                self.reading.within(step);
                return Err(error);
            }
            let value = source.next_value_seed(inner).inspect_err(|_| self.reading.within(step))?;
            object.insert(key, value);
        }
        Ok(Json::Object(object))
    }
}
