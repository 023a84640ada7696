//! What a caller is told of a request that was refused.

use serde::Serialize;

use super::{event_bytes, json_bytes};

/// Bytes of a caller's own field name that a message repeats at most; longer ones are described by their length.
const NAME_BYTES_MAX: usize = 64;

/// Why a body makes no call. All of them are status 400 and type `invalid_request_error`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum BadCode {
    /// The body is no JSON, or is none that we read: not UTF-8, cut off, or with something after it.
    InvalidJson,
    /// Arrays and objects nest deeper than the policy lets them.
    JsonTooDeep,
    /// More values than a body may hold.
    JsonTooManyValues,
    /// An object says one key twice.
    DuplicateParameter,
    /// A field that must be there is not.
    MissingParameter,
    /// A field that nobody knows.
    UnknownParameter,
    /// A field that is known and not offered here.
    UnsupportedParameter,
    /// A value that is known and not offered here.
    UnsupportedValue,
    /// A value of another type than the field takes.
    InvalidType,
    /// A value of the right type that means nothing here.
    InvalidValue,
    /// A whole number under its least.
    IntegerBelowMin,
    /// A whole number over its most.
    IntegerAboveMax,
    /// A number under its least.
    DecimalBelowMin,
    /// A number over its most.
    DecimalAboveMax,
    /// A list that must not be empty.
    EmptyArray,
    /// A list with more entries than allowed.
    ArrayAboveMaxLength,
    /// A string that must not be empty.
    EmptyString,
    /// A string with more bytes than allowed.
    StringAboveMaxLength,
}

impl BadCode {
    /// `code` of the error object; where OpenAI has a word for it, that word.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidJson => "invalid_json",
            Self::JsonTooDeep => "json_too_deep",
            Self::JsonTooManyValues => "json_too_many_values",
            Self::DuplicateParameter => "duplicate_parameter",
            Self::MissingParameter => "missing_required_parameter",
            Self::UnknownParameter => "unknown_parameter",
            Self::UnsupportedParameter => "unsupported_parameter",
            Self::UnsupportedValue => "unsupported_value",
            Self::InvalidType => "invalid_type",
            Self::InvalidValue => "invalid_value",
            Self::IntegerBelowMin => "integer_below_min_value",
            Self::IntegerAboveMax => "integer_above_max_value",
            Self::DecimalBelowMin => "decimal_below_min_value",
            Self::DecimalAboveMax => "decimal_above_max_value",
            Self::EmptyArray => "empty_array",
            Self::ArrayAboveMaxLength => "array_above_max_length",
            Self::EmptyString => "empty_string",
            Self::StringAboveMaxLength => "string_above_max_length",
        }
    }
}

/// A body that makes no call.
///
/// # Invariants
/// `message` and `param` hold names of fields, types and numbers; never a string value, so never prompt content. A name
/// of the caller's own making is repeated only when it is short and plain.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct BadRequest {
    /// What kind of wrong.
    pub(crate) code: BadCode,
    /// Path of the field, such as `messages[2].role`; none when the body as a whole is wrong.
    pub(crate) param: Option<String>,
    /// For a person to read: what came, and what is allowed.
    pub(crate) message: String,
}

impl BadRequest {
    /// The error object of this refusal.
    pub(crate) fn body(&self) -> ErrorBody<'_> {
        ErrorBody {
            message: &self.message,
            kind: "invalid_request_error",
            param: self.param.as_deref(),
            code: Some(self.code.as_str()),
        }
    }

    /// A refusal of the field at `param`; the message begins with its path.
    pub(super) fn at(code: BadCode, param: &str, what: impl AsRef<str>) -> Self {
        let message = format!("Invalid '{param}': {}.", what.as_ref());
        Self { code, param: Some(param.to_owned()), message }
    }

    /// A refusal of the body as a whole.
    pub(super) fn whole(code: BadCode, message: impl Into<String>) -> Self {
        Self { code, param: None, message: message.into() }
    }

    /// A field that nobody knows.
    pub(super) fn unknown(param: &str) -> Self {
        let message = format!("Unknown parameter: '{param}'.");
        Self { code: BadCode::UnknownParameter, param: Some(param.to_owned()), message }
    }

    /// A field that must be there and is not.
    pub(super) fn missing(param: &str) -> Self {
        let message = format!("Missing required parameter: '{param}'.");
        Self { code: BadCode::MissingParameter, param: Some(param.to_owned()), message }
    }

    /// A field that we know and do not offer.
    pub(super) fn unsupported(param: &str) -> Self {
        let message = format!("Unsupported parameter: '{param}' is not offered by this server.");
        Self { code: BadCode::UnsupportedParameter, param: Some(param.to_owned()), message }
    }
}

/// `name` when it is short and plain; else only how long it is, since a caller may put anything into a name.
pub(super) fn shown(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(plain) {
        return name.to_owned();
    }
    format!("<a name of {} bytes>", name.len())
}

/// OpenAI's error object, without its wrapper.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct ErrorBody<'a> {
    /// For a person to read.
    pub(crate) message: &'a str,
    /// Its class, such as `invalid_request_error` or `server_error`.
    #[serde(rename = "type")]
    pub(crate) kind: &'a str,
    /// Path of the field that is wrong.
    pub(crate) param: Option<&'a str>,
    /// For a program to read.
    pub(crate) code: Option<&'a str>,
}

#[derive(Serialize)]
struct Wrapped<'a> {
    error: &'a ErrorBody<'a>,
}

/// The body of a refusal: `{"error":{...}}`.
pub(crate) fn error_json(error: &ErrorBody<'_>) -> Vec<u8> {
    json_bytes(&Wrapped { error })
}

/// The event that ends a stream which did not complete; no [`DONE`](super::DONE) may follow it.
pub(crate) fn error_event(error: &ErrorBody<'_>) -> Vec<u8> {
    event_bytes(&Wrapped { error })
}
