//! The Jinja that chat templates expect: Hugging Face's settings, Python's string methods, and nothing of the system.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Kwargs;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value, filters};
use minijinja_contrib::pycompat;

use super::error::Raised;
use super::mark::trim_within;

/// An environment without any template, file, clock or random number.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    // As `transformers` compiles chat templates: trim_blocks and lstrip_blocks, undefined prints as nothing, no escaping.
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(method);
    environment.add_function("raise_exception", raise_exception);
    environment.add_filter("trim", trim);
    environment.add_filter("tojson", to_json);
    environment
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raised by the template").with_source(Raised(message)))
}

fn method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let trim: Option<fn(&str) -> &str> = match method {
        "strip" => Some(str::trim),
        "lstrip" => Some(str::trim_start),
        "rstrip" => Some(str::trim_end),
        _ => None,
    };
    match (trim, value.as_str(), args) {
        (Some(trim), Some(text), []) => Ok(Value::from(trim_within(text, trim))),
        _ => pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn trim(text: String) -> String {
    trim_within(&text, str::trim)
}

/// Python's `json.dumps(value, ensure_ascii=False)`: unlike the filter of this name, without escapes for HTML.
fn to_json(value: &Value, indent: Option<Value>, args: Kwargs) -> Result<Value, Error> {
    let escaped = filters::tojson(value, indent, args)?;
    let escaped = escaped.as_str().unwrap_or("");
    let mut text = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let plain = [("u003c", '<'), ("u003e", '>'), ("u0026", '&'), ("u0027", '\'')]
            .iter()
            .find_map(|(code, plain)| after.strip_prefix(code).map(|after| (*plain, after)));
        if let Some((plain, after)) = plain {
            text.push(plain);
            rest = after;
        } else {
            // Any other escape: the backslash and what it escapes, which may be a backslash.
            let mut letters = after.chars();
            text.push('\\');
            text.extend(letters.next());
            rest = letters.as_str();
        }
    }
    text.push_str(rest);
    Ok(Value::from_safe_string(text))
}
