//! The messages of a chat.

use model::{Message, Role};

use super::error::{BadCode, BadRequest, shown};
use super::field::{Fields, list, not_empty, text, wrong_type};
use super::json::Json;

/// What a client sends back of an answer of ours or of OpenAI's: empty, it means nothing.
const EMPTY_ONLY: [&str; 5] = ["annotations", "audio", "function_call", "refusal", "tool_calls"];

/// Reads `messages`: at least one, at most `most`.
pub(super) fn messages(value: Json, path: &str, most: usize) -> Result<Vec<Message>, BadRequest> {
    let list = not_empty(list(value, path, most)?, path)?;
    list.into_iter().enumerate().map(|(index, value)| message(value, &format!("{path}[{index}]"))).collect()
}

fn message(value: Json, path: &str) -> Result<Message, BadRequest> {
    let mut fields = Fields::of(value, path)?;
    let role = fields.require("role", role)?;
    for name in EMPTY_ONLY {
        match fields.take(name) {
            None => {}
            Some(Json::Array(list)) if list.is_empty() => {}
            Some(_) => return Err(BadRequest::unsupported(&fields.path(name))),
        }
    }
    let content = fields.require("content", content)?;
    // A name is no part of any prompt that our templates write; neither is the id of a tool call.
    fields.read("name", text)?;
    if role == Role::Tool {
        fields.read("tool_call_id", text)?;
    }
    fields.finish()?;
    Ok(Message { role, content })
}

fn role(value: Json, path: &str) -> Result<Role, BadRequest> {
    match text(value, path)?.as_str() {
        "system" => Ok(Role::System),
        "developer" => Ok(Role::Developer),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "tool" => Ok(Role::Tool),
        "function" => Err(unsupported_value(path, "role", "function")),
        _ => Err(BadRequest::at(
            BadCode::InvalidValue,
            path,
            "the role is none of 'system', 'developer', 'user', 'assistant' and 'tool'",
        )),
    }
}

/// A string, or parts of text, which are joined with nothing between them.
fn content(value: Json, path: &str) -> Result<String, BadRequest> {
    match value {
        Json::Text(text) => Ok(text),
        Json::Array(parts) => {
            let parts = not_empty(parts, path)?;
            parts
                .into_iter()
                .enumerate()
                .map(|(index, value)| part(value, &format!("{path}[{index}]")))
                .collect()
        }
        other => Err(wrong_type(path, "a string or an array of parts", &other)),
    }
}

fn part(value: Json, path: &str) -> Result<String, BadRequest> {
    let mut fields = Fields::of(value, path)?;
    let at = fields.path("type");
    let kind = fields.require("type", text)?;
    if kind != "text" {
        return Err(unsupported_value(&at, "part type", &kind));
    }
    let words = fields.require("text", text)?;
    fields.finish()?;
    Ok(words)
}

fn unsupported_value(path: &str, what: &str, value: &str) -> BadRequest {
    BadRequest::at(BadCode::UnsupportedValue, path, format!("the {what} '{}' is not offered", shown(value)))
}
