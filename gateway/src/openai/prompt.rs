//! The prompts of a legacy completion: text or token ids, one or several.

use policies::Policy;

use super::call::Prompt;
use super::error::BadRequest;
use super::field::{at_most, not_empty, wrong_type};
use super::json::Json;
use super::number::small;

const EXPECTED: &str = "a string, an array of strings, an array of token ids or an array of such arrays";

/// Reads `prompt`: at least one prompt, none of them without anything in it when it is token ids.
pub(super) fn prompts(value: Json, path: &str, policy: &Policy) -> Result<Vec<Prompt>, BadRequest> {
    let list = match value {
        Json::Text(text) => return Ok(vec![Prompt::Text(text)]),
        Json::Array(list) => not_empty(list, path)?,
        other => return Err(wrong_type(path, EXPECTED, &other)),
    };
    match list.first() {
        Some(Json::Text(_) | Json::Array(_)) => {
            at_most(list.len(), path, policy.prompts_per_request_max())?;
            let entry = |(index, value)| one_of_many(value, &format!("{path}[{index}]"));
            list.into_iter().enumerate().map(entry).collect()
        }
        _ => Ok(vec![tokens(list, path)?]),
    }
}

fn one_of_many(value: Json, path: &str) -> Result<Prompt, BadRequest> {
    match value {
        Json::Text(text) => Ok(Prompt::Text(text)),
        Json::Array(list) => tokens(not_empty(list, path)?, path),
        other => Err(wrong_type(path, "a string or an array of token ids", &other)),
    }
}

fn tokens(list: Vec<Json>, path: &str) -> Result<Prompt, BadRequest> {
    let id = |(index, value)| match value {
        Json::Int(id) if u32::try_from(id).is_ok() => Ok(u32::try_from(id).unwrap_or(0)),
        // Only what is wrong pays for a path: a prompt may have half a million ids.
        other => small(other, &format!("{path}[{index}]"), 0..=u32::MAX),
    };
    list.into_iter().enumerate().map(id).collect::<Result<_, _>>().map(Prompt::Tokens)
}
