//! Asks a running server how it is: `bulkhead status`, and what `up` waits for.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use crate::cli::StatusArgs;
use crate::exit::{Doing, Exit, Failure};
use crate::present::{self, Form};

/// The longest that a server's answer may take: it is next door and has it at hand.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

pub(crate) fn run(args: &StatusArgs) -> Result<(), Failure> {
    let (code, body) = get(args.admin, "/status").map_err(|error| {
        Failure::new(
            Exit::Other,
            format_args!("no server answers on {}: {error}; --admin names its admin listener", args.admin),
        )
    })?;
    if code != 200 {
        return Err(Failure::new(Exit::Other, format_args!("{} answers {code} to /status", args.admin)));
    }
    let status: Value = serde_json::from_str(&body).doing(Exit::Other, "understand the server's answer")?;
    match Form::of(args.json) {
        Form::Json => present::json(&status),
        Form::Table => present::table(&["WHAT", "NOW"], &rows("", &status)),
    }
}

/// Whether the server would answer a request now.
pub(crate) fn is_ready(admin: SocketAddr) -> bool {
    get(admin, "/readyz").is_ok_and(|(code, _)| code == 200)
}

fn get(admin: SocketAddr, path: &str) -> Result<(u16, String), ureq::Error> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(ANSWER_MAX))
        .http_status_as_error(false)
        .proxy(None)
        .build()
        .into();
    let mut answer = agent.get(format!("http://{admin}{path}")).call()?;
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string()?;
    Ok((answer.status().as_u16(), body))
}

/// Each leaf of the document on a row of its own, named by its path.
fn rows(path: &str, value: &Value) -> Vec<Vec<String>> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                rows(&path, value)
            })
            .collect(),
        Value::String(text) => vec![vec![path.to_owned(), present::printable(text)]],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            vec![vec![path.to_owned(), present::printable(&value.to_string())]]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leaf_has_a_row() {
        let status = serde_json::json!({ "a": { "b": 1, "c": "x" }, "d": null });
        let expected = [["a.b", "1"], ["a.c", "x"], ["d", "null"]];
        assert_eq!(rows("", &status), expected.map(|row| row.map(str::to_owned).to_vec()));
    }
}
