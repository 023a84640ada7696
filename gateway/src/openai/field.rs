//! Takes an object apart, field by field, and knows in the end what nobody took.

use std::collections::BTreeMap;

use super::error::{BadCode, BadRequest, shown};
use super::json::Json;

/// The fields of one object that are still to be read.
pub(super) struct Fields {
    /// Path of the object with a full stop at its end; empty for the body itself.
    prefix: String,
    left: BTreeMap<String, Json>,
}

impl Fields {
    /// The fields of `value`, which stands at `path`.
    pub(super) fn of(value: Json, path: &str) -> Result<Self, BadRequest> {
        match value {
            Json::Object(left) => Ok(Self { prefix: format!("{path}."), left }),
            other => Err(wrong_type(path, "an object", &other)),
        }
    }

    /// The fields of the body.
    pub(super) fn of_body(value: Json) -> Result<Self, BadRequest> {
        match value {
            Json::Object(left) => Ok(Self { prefix: String::new(), left }),
            other => Err(BadRequest::whole(
                BadCode::InvalidType,
                format!("The body must be a JSON object, not {}.", other.kind()),
            )),
        }
    }

    /// The path of `name` in the whole body.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The value of `name`, null if it says so.
    pub(super) fn take_raw(&mut self, name: &str) -> Option<Json> {
        self.left.remove(name)
    }

    /// The value of `name` where null means the same as nothing at all, as for all of OpenAI's optional fields.
    pub(super) fn take(&mut self, name: &str) -> Option<Json> {
        self.take_raw(name).filter(|value| !matches!(value, Json::Null))
    }

    /// Reads `name` by `read`, which is given the value and its path.
    pub(super) fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Json, &str) -> Result<T, BadRequest>,
    ) -> Result<Option<T>, BadRequest> {
        let path = self.path(name);
        self.take(name).map(|value| read(value, &path)).transpose()
    }

    /// Reads `name`, which must be there.
    pub(super) fn require<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Json, &str) -> Result<T, BadRequest>,
    ) -> Result<T, BadRequest> {
        let path = self.path(name);
        let value = self.take_raw(name).ok_or_else(|| BadRequest::missing(&path))?;
        read(value, &path)
    }

    /// Refuses the first field, in the order of names, that nobody took.
    pub(super) fn finish(self) -> Result<(), BadRequest> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(name) => Err(BadRequest::unknown(&self.path(&shown(name)))),
        }
    }
}

/// What is said of a value of the wrong type.
pub(super) fn wrong_type(path: &str, expected: &str, value: &Json) -> BadRequest {
    BadRequest::at(BadCode::InvalidType, path, format!("expected {expected}, got {}", value.kind()))
}

/// A string.
pub(super) fn text(value: Json, path: &str) -> Result<String, BadRequest> {
    match value {
        Json::Text(text) => Ok(text),
        other => Err(wrong_type(path, "a string", &other)),
    }
}

/// True or false.
pub(super) fn flag(value: Json, path: &str) -> Result<bool, BadRequest> {
    match value {
        Json::Bool(flag) => Ok(flag),
        other => Err(wrong_type(path, "a boolean", &other)),
    }
}

/// A list of at most `most` values.
pub(super) fn list(value: Json, path: &str, most: usize) -> Result<Vec<Json>, BadRequest> {
    let Json::Array(list) = value else { return Err(wrong_type(path, "an array", &value)) };
    at_most(list.len(), path, most)?;
    Ok(list)
}

/// Refuses a list of more than `most` entries.
pub(super) fn at_most(count: usize, path: &str, most: usize) -> Result<(), BadRequest> {
    if count <= most {
        return Ok(());
    }
    let what = format!("it has {count} entries, and at most {most} are allowed");
    Err(BadRequest::at(BadCode::ArrayAboveMaxLength, path, what))
}

/// Refuses a list without entries.
pub(super) fn not_empty(list: Vec<Json>, path: &str) -> Result<Vec<Json>, BadRequest> {
    if list.is_empty() {
        return Err(BadRequest::at(BadCode::EmptyArray, path, "it is empty, and at least 1 entry is needed"));
    }
    Ok(list)
}
