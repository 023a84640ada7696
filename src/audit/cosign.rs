//! `bulkhead audit cosign`: asks witnesses, and keeps what they say.

use std::time::Duration;

use ::audit::{ANSWER_BYTES_MAX, NoteKey, Submission};

use crate::auditkey;
use crate::cli::CosignArgs;
use crate::data::{DataDir, write_private};
use crate::exit::{Doing, Exit, Failure};
use crate::present;

/// The longest that a witness may take for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Witnesses that are asked at most.
const WITNESSES_MAX: usize = 64;
/// The type of an answer that says which size the witness knows.
const SIZE: &str = "text/x.tlog.size";
/// Letters of a witness's refusal that are shown.
const REFUSAL_LETTERS_MAX: usize = 200;

pub(crate) fn run(data: &DataDir, args: &CosignArgs) -> Result<(), Failure> {
    let (urls, keys) = (args.witness.len(), args.witness_key.len());
    if urls != keys || urls > WITNESSES_MAX {
        return Err(Failure::new(
            Exit::Usage,
            format_args!(
                "{urls} witnesses and {keys} keys of witnesses are given: each needs one, and {WITNESSES_MAX} is the most that are asked"
            ),
        ));
    }
    let quorum = args.quorum.map_or(urls, std::num::NonZeroUsize::get);
    if quorum > urls {
        return Err(Failure::new(
            Exit::Usage,
            format_args!("--quorum is {quorum}, and {urls} witnesses are given"),
        ));
    }
    let log = args.folder.clone().unwrap_or_else(|| data.audit());
    let key = args.key.clone().unwrap_or_else(|| data.audit_public_key());
    let key = auditkey::read_public(&key)?;
    let mut submission = Submission::read(&log, &key)
        .doing(Exit::Store, format_args!("read the checkpoint of {}", log.display()))?;
    let mut witnesses: Vec<NoteKey> = Vec::new();
    for path in &args.witness_key {
        let witness = auditkey::read_witness(path)?;
        if witnesses.iter().any(|other| other.bytes() == witness.bytes()) {
            return Err(Failure::new(
                Exit::Usage,
                format_args!("the key {} is given twice, and would count twice", path.display()),
            ));
        }
        witnesses.push(witness);
    }
    let (mut have, mut failures) = (0_usize, Vec::new());
    for (url, witness) in args.witness.iter().zip(&witnesses) {
        match ask(&mut submission, url, witness) {
            Ok(()) => have = have.saturating_add(1),
            Err(why) => {
                tracing::warn!(witness = %url, %why, "a witness has not cosigned");
                failures.push(format!("{url}: {why}"));
            }
        }
    }
    if have < quorum {
        return Err(Failure::new(
            Exit::Other,
            format_args!(
                "{have} of {urls} witnesses have cosigned, {quorum} must: nothing was written; {}",
                failures.join("; ")
            ),
        ));
    }
    let out = args.out.clone().unwrap_or_else(|| log.join("cosigned"));
    write_private(&out, &submission.cosigned())
        .doing(Exit::Store, format_args!("write {}", out.display()))?;
    present::line(&format!(
        "{} leaves are cosigned by {have} of {urls} witnesses: {}",
        submission.size(),
        out.display()
    ))
}

/// Asks one witness, once more where it says what it knows.
fn ask(submission: &mut Submission, url: &str, witness: &NoteKey) -> Result<(), String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(ANSWER_MAX))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .build()
        .into();
    let url = format!("{}/add-checkpoint", url.trim_end_matches('/'));
    let mut old = 0;
    for is_last in [false, true] {
        let body = submission.request(old).map_err(|error| error.to_string())?;
        let (status, kind, answer) = post(&agent, &url, &body).map_err(|error| error.to_string())?;
        if status == 200 {
            return submission.take(&answer, witness).map(|_| ()).map_err(|error| error.to_string());
        }
        let text = String::from_utf8_lossy(&answer);
        if status != 409 || kind != SIZE || is_last {
            let shown: String =
                text.chars().filter(|letter| !letter.is_control()).take(REFUSAL_LETTERS_MAX).collect();
            return Err(format!("it answers {status}: {shown}"));
        }
        old = text.trim_end().parse().map_err(|_| "it answers 409 without a size".to_owned())?;
    }
    Err("it does not cosign".to_owned())
}

fn post(agent: &ureq::Agent, url: &str, body: &[u8]) -> Result<(u16, String, Vec<u8>), ureq::Error> {
    let mut answer = agent.post(url).header("content-type", "text/plain").send(body)?;
    let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let (kind, status) = (kind.to_owned(), answer.status().as_u16());
    let most = u64::try_from(ANSWER_BYTES_MAX).unwrap_or(u64::MAX);
    let bytes = answer.body_mut().with_config().limit(most).read_to_vec()?;
    Ok((status, kind, bytes))
}
