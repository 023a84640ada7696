//! Whom an auditor trusts, as a file: the log, its witnesses, and how many of these must have cosigned.

use std::path::Path;

use ::audit::{NoteKey, Trust};
use serde::Deserialize;

use crate::data::read_bounded;
use crate::exit::{Doing, Exit, Failure};

/// Witnesses of a policy at most.
const WITNESSES_MAX: usize = 64;
/// Bytes of a policy's file at most.
const FILE_BYTES_MAX: u64 = 32 * 1_024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    log: String,
    #[serde(default)]
    witnesses: Vec<String>,
    #[serde(default)]
    quorum: usize,
}

/// The trust that a file says.
pub(crate) fn read(path: &Path) -> Result<Trust, Failure> {
    let bytes = read_bounded(path, FILE_BYTES_MAX)
        .doing(Exit::Undecided, format_args!("read the policy {}", path.display()))?;
    parse(std::str::from_utf8(&bytes).unwrap_or("\0"))
        .map_err(|why| Failure::new(Exit::Undecided, format_args!("the policy {}: {why}", path.display())))
}

fn parse(text: &str) -> Result<Trust, String> {
    let policy: Policy = toml::from_str(text).map_err(|error| error.to_string())?;
    let (quorum, listed) = (policy.quorum, policy.witnesses.len());
    if listed > WITNESSES_MAX {
        return Err(format!("it lists {listed} witnesses, and {WITNESSES_MAX} is the most that it may"));
    }
    if quorum > listed {
        return Err(format!(
            "quorum is {quorum}, and it lists {listed} witnesses: no log could be cosigned by enough"
        ));
    }
    if quorum == 0 && listed > 0 {
        return Err(format!(
            "it lists {listed} witnesses and a quorum of 0: say by `quorum` how many must have cosigned, 1 to {listed}"
        ));
    }
    let log = NoteKey::parse(&policy.log).map_err(|error| format!("log: {error}"))?;
    let mut witnesses: Vec<NoteKey> = Vec::new();
    for (number, text) in (1_usize..).zip(&policy.witnesses) {
        let witness =
            NoteKey::parse_witness(text).map_err(|error| format!("witness {number} of {listed}: {error}"))?;
        if witnesses.iter().any(|other| other.bytes() == witness.bytes()) {
            return Err(format!(
                "witness {number} of {listed} has the key of one before it, and would count twice"
            ));
        }
        witnesses.push(witness);
    }
    Ok(Trust { witnesses, quorum, ..Trust::in_log(log) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::audit::LogKey;

    fn refused(text: &str, part: &str) {
        let why = parse(text).unwrap_err();
        assert!(why.contains(part), "{why}");
    }

    #[test]
    fn a_policy_that_cannot_be_meant_is_refused_with_its_numbers() {
        let log = LogKey::generate("log.example").unwrap().public();
        let [one, two] = ["w/1", "w/2"].map(|name| LogKey::generate_witness(name).unwrap().public());
        let both = format!("log = \"{log}\"\nwitnesses = [\"{one}\", \"{two}\"]\n");
        let trust = parse(&format!("{both}quorum = 2")).unwrap();
        assert!(trust.log == log && trust.witnesses == [one.clone(), two] && trust.quorum == 2);
        assert_eq!(parse(&format!("log = \"{log}\"")).unwrap().quorum, 0);

        refused(&format!("{both}quorum = 3"), "quorum is 3, and it lists 2");
        refused(&both, "2 witnesses and a quorum of 0");
        refused(&format!("{both}quorum = 1\nquorums = 1"), "unknown field");
        refused(&format!("log = \"{log}\"\nquorum = 1"), "quorum is 1, and it lists 0");
        refused(&format!("{both}quorum = -1"), "quorum");
        refused("witnesses = []", "log");
        refused(&format!("log = \"{one}\""), "kind 4");
        refused(&format!("log = \"{log}\"\nwitnesses = [\"{log}\"]\nquorum = 1"), "witness 1 of 1");
        refused(&format!("log = \"{log}\"\nwitnesses = [\"{one}\", \"{one}\"]\nquorum = 2"), "count twice");
        let many = vec![format!("\"{one}\""); 65].join(",");
        refused(&format!("log = \"{log}\"\nwitnesses = [{many}]\nquorum = 1"), "65");
    }
}
