//! Fields that change nothing here, and fields that we know and do not offer.
//!
//! A field that describes the caller is checked for its type and left aside. A field that asks for another answer than
//! ours is refused by name, unless its value asks for just what we do anyway.

use super::error::{BadCode, BadRequest};
use super::field::{Fields, flag, list, text, wrong_type};
use super::json::{Json, VALUES_MAX};

/// Strings that describe the caller or the account, not the answer.
const ASIDE: [&str; 5] =
    ["prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier", "user"];

/// The rest of a chat's fields.
pub(super) fn of_chat(fields: &mut Fields) -> Result<(), BadRequest> {
    for name in ASIDE {
        fields.read(name, text)?;
    }
    fields.read("metadata", object)?;
    // Without tools there are no calls to run side by side.
    fields.read("parallel_tool_calls", flag)?;
    if fields.read("store", flag)? == Some(true) {
        return Err(unsupported(fields, "store", "only false is offered"));
    }
    for name in ["tools", "functions"] {
        let given = fields.read(name, |value, path| list(value, path, VALUES_MAX))?;
        if given.is_some_and(|list| !list.is_empty()) {
            return Err(BadRequest::unsupported(name));
        }
    }
    only(fields, "tool_choice", &["none", "auto"])?;
    only(fields, "function_call", &["none", "auto"])?;
    only(fields, "reasoning_effort", &["none"])?;
    only(fields, "verbosity", &["medium"])?;
    if let Some(format) = fields.take("response_format") {
        response_format(format)?;
    }
    if let Some(modalities) = fields.take("modalities") {
        let list = list(modalities, "modalities", VALUES_MAX)?;
        if !list.iter().all(|entry| matches!(entry, Json::Text(name) if name == "text")) {
            return Err(unsupported(fields, "modalities", "only 'text' is offered"));
        }
    }
    absent(fields, &["audio", "prediction", "web_search_options"])
}

/// The rest of a legacy completion's fields.
pub(super) fn of_completion(fields: &mut Fields) -> Result<(), BadRequest> {
    fields.read("user", text)?;
    if fields.read("echo", flag)? == Some(true) {
        return Err(unsupported(fields, "echo", "only false is offered"));
    }
    match fields.take("best_of") {
        None | Some(Json::Int(1)) => {}
        Some(value @ (Json::Int(_) | Json::Big(_) | Json::Float(_))) => {
            let one = super::number::small(value, "best_of", 1..=u32::MAX)?;
            if one != 1 {
                return Err(unsupported(fields, "best_of", "only 1 is offered"));
            }
        }
        Some(other) => return Err(wrong_type("best_of", "an integer", &other)),
    }
    match fields.read("suffix", text)? {
        Some(suffix) if !suffix.is_empty() => Err(BadRequest::unsupported("suffix")),
        Some(_) | None => Ok(()),
    }
}

fn object(value: Json, path: &str) -> Result<(), BadRequest> {
    if matches!(value, Json::Object(_)) { Ok(()) } else { Err(wrong_type(path, "an object", &value)) }
}

/// `name` may be absent or one of `offered`; anything else is a thing that we do not do.
fn only(fields: &mut Fields, name: &str, offered: &[&str]) -> Result<(), BadRequest> {
    match fields.take(name) {
        None => Ok(()),
        Some(Json::Text(value)) if offered.contains(&value.as_str()) => Ok(()),
        Some(Json::Text(_) | Json::Object(_)) => {
            Err(unsupported(fields, name, &format!("only '{}' is offered", offered.join("' or '"))))
        }
        Some(other) => Err(wrong_type(name, "a string", &other)),
    }
}

fn response_format(value: Json) -> Result<(), BadRequest> {
    const NAME: &str = "response_format";
    let mut fields = Fields::of(value, NAME)?;
    match fields.require("type", text)?.as_str() {
        "text" => fields.finish(),
        "json_object" | "json_schema" => {
            Err(BadRequest::at(BadCode::UnsupportedValue, NAME, "only the type 'text' is offered"))
        }
        _ => Err(BadRequest::at(BadCode::InvalidValue, NAME, "the type is unknown; 'text' is offered")),
    }
}

fn absent(fields: &mut Fields, names: &[&str]) -> Result<(), BadRequest> {
    match names.iter().find(|name| fields.take(name).is_some()) {
        Some(name) => Err(BadRequest::unsupported(name)),
        None => Ok(()),
    }
}

fn unsupported(fields: &Fields, name: &str, what: &str) -> BadRequest {
    BadRequest::at(BadCode::UnsupportedValue, &fields.path(name), what)
}
