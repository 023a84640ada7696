//! `/v1/leaked-keys`: keys that were found where they should not be, told by GitHub's secret scanning or by a scanner of our own. What
//! works of them is revoked at once.
//!
//! Architecture invariant: no token is kept, logged or answered, nor what of an address may hold one; a report that comes again
//! changes nothing.

use axum::extract::{FromRequestParts, State};
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tenant::{Actor, Found, FoundAt, KeyId, MonoNanos, Reach, Reason, ScannerId, Store};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ArrayBuilder, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::answer::Answer;
use crate::asked::{Raw, listed};
use crate::asker::{Asker, Peer, refused};
use crate::document::Reporting;
use crate::house::{House, Shared, now};
use crate::problem::{Kind, Problem};
use crate::roles::Operation;

/// Bytes of a report.
pub const REPORT_BYTES_MAX: usize = 256 * 1024;
/// Tokens of a report.
pub const REPORT_TOKENS_MAX: usize = 500;
/// Reports in a second: of all scanners that sign together, and of each person.
pub const REPORTS_PER_SECOND_MAX: u32 = 10;
/// Characters of the name of a token's type.
const TYPE_CHARS_MAX: usize = 128;

const IDENTIFIER: HeaderName = HeaderName::from_static("github-public-key-identifier");
const SIGNATURE: HeaderName = HeaderName::from_static("github-public-key-signature");

/// A token that was found. What else a scanner says of it is not looked at.
#[derive(Deserialize, ToSchema)]
#[schema(as = FoundToken)]
pub(crate) struct FoundToken {
    /// The text that looks like a key.
    token: String,
    /// What the scanner calls such texts; it is answered as it came.
    #[schema(max_length = 128)]
    r#type: String,
    /// Where it was found; of this, host and path are kept at most.
    #[serde(default)]
    url: Option<String>,
    /// In what it was found, as a commit.
    #[serde(default)]
    #[expect(dead_code, reason = "a scanner says it, and nobody asks for it yet")]
    source: Option<String>,
}

/// What was found, as GitHub's secret scanning partner programme tells it.
#[derive(ToSchema)]
#[schema(as = LeakReport)]
pub(crate) struct Report(#[schema(inline)] Bounded);

/// The list itself.
struct Bounded;

impl PartialSchema for Bounded {
    fn schema() -> RefOr<Schema> {
        let list = ArrayBuilder::new().items(FoundToken::schema()).max_items(Some(REPORT_TOKENS_MAX));
        RefOr::T(list.build().into())
    }
}

impl ToSchema for Bounded {}

/// What became of a token, in the form in which GitHub takes it.
#[derive(Serialize, ToSchema)]
#[schema(as = LeakFeedback)]
pub(crate) struct Feedback {
    /// SHA-256 of the token, in hexadecimal digits.
    #[schema(min_length = 64, max_length = 64)]
    token_hash: String,
    /// As it came.
    token_type: String,
    label: Label,
}

/// Whether a token is one of ours.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LeakLabel)]
enum Label {
    /// It is, or was until it ended.
    TruePositive,
    /// No such key was ever made, or none within reach.
    FalsePositive,
}

/// The headers of a scanner that signs.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "only its shape is used; the headers are read as they come")]
pub(crate) struct Signed {
    /// Names the public key; in place of a person's key.
    #[param(rename = "github-public-key-identifier", max_length = 64, pattern = "^[0-9A-Za-z._-]+$")]
    identifier: Option<String>,
    /// ECDSA on P-256 with SHA-256 over the body as it came: base64 of the DER.
    #[param(rename = "github-public-key-signature", max_length = 128, pattern = "^[0-9A-Za-z+/=]+$")]
    signature: Option<String>,
}

/// Whose reports are counted together.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub(crate) enum Account {
    Scanners,
    Person(KeyId),
}

/// Who reports: a person, or who says to be a scanner, which the body has to prove.
pub(crate) enum Sender {
    Person(Asker),
    Scanner { id: ScannerId, signature: String, from: Option<Peer> },
}

impl FromRequestParts<Shared> for Sender {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, house: &Shared) -> Result<Self, Problem> {
        if !parts.headers.contains_key(IDENTIFIER) && !parts.headers.contains_key(SIGNATURE) {
            let asker = Asker::from_request_parts(parts, house).await?;
            asker.demand(Operation::ReportLeakedKeys)?;
            paced(house, Account::Person(asker.key))?;
            return Ok(Self::Person(asker));
        }
        let from = parts.extensions.get::<Peer>().copied();
        let id = one(&parts.headers, &IDENTIFIER).and_then(ScannerId::parse);
        let known = id.filter(|id| house.scanners.knows(*id));
        match (known, one(&parts.headers, &SIGNATURE)) {
            (Some(id), Some(signature)) => Ok(Self::Scanner { id, signature: signature.to_owned(), from }),
            (None, _) | (_, None) => Err(unbelieved(house, from)),
        }
    }
}

impl Sender {
    /// The store, in which what is revoked is this sender's doing, and what the sender reaches.
    fn proven(self, house: &House, body: &[u8]) -> Result<Proven, Problem> {
        match self {
            Self::Person(asker) => {
                let (store, own) = (house.store_of(&asker), Some(asker.key));
                Ok(Proven { store, reach: asker.reach, own })
            }
            Self::Scanner { id, signature, from } => {
                if !house.scanners.verify(id, &signature, body) {
                    return Err(unbelieved(house, from));
                }
                // After the signature: who has none uses nothing up of theirs who have.
                paced(house, Account::Scanners)?;
                let store = house.store.acting_as(Actor::Scanner(id));
                Ok(Proven { store, reach: Reach::Installation, own: None })
            }
        }
    }
}

/// Who reports, once that is proven.
struct Proven {
    store: Store,
    reach: Reach,
    /// The key by which the report came.
    own: Option<KeyId>,
}

/// Tell of keys that were found where they should not be. Those that work are revoked; the same report again changes nothing.
#[utoipa::path(post, path = "/v1/leaked-keys", operation_id = "report_leaked_keys", tag = "keys", params(Signed),
    request_body = Report,
    responses((status = 200, description = "What became of each, in their order", body = Vec<Feedback>), Reporting))]
pub(crate) async fn report(
    State(house): State<Shared>,
    sender: Sender,
    Raw(body): Raw,
) -> Result<Answer, Problem> {
    let by = sender.proven(&house, &body)?;
    let tokens: Vec<FoundToken> = listed(&body)?;
    check(&tokens)?;
    let mut works: Vec<(KeyId, Option<FoundAt>)> = Vec::new();
    let mut feedback = Vec::with_capacity(tokens.len());
    for token in tokens {
        let label = match by.store.find_leaked(&token.token, by.reach, now()).await? {
            Found::Nothing => Label::FalsePositive,
            Found::Ended => Label::TruePositive,
            Found::Works(key) => {
                works.push((key, token.url.as_deref().and_then(FoundAt::of)));
                Label::TruePositive
            }
        };
        let token_hash = hex(digest(&SHA256, token.token.as_bytes()).as_ref());
        feedback.push(Feedback { token_hash, token_type: token.r#type, label });
    }
    end(&by, works).await?;
    Answer::ok(&feedback)
}

/// Revokes keys that work, each once: the one by which the report came at last, since it changes nothing after its end.
async fn end(by: &Proven, mut works: Vec<(KeyId, Option<FoundAt>)>) -> Result<(), Problem> {
    works.sort_by_key(|(key, _)| (by.own == Some(*key), *key));
    works.dedup_by_key(|(key, _)| *key);
    for (key, found_at) in works {
        by.store.revoke_key_for(key, Some(&Reason::Leaked(found_at)), now()).await?;
        tracing::warn!(%key, "a key was found where it should not be, and is revoked");
    }
    Ok(())
}

fn check(tokens: &[FoundToken]) -> Result<(), Problem> {
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    if tokens.len() > REPORT_TOKENS_MAX {
        let detail = format!(
            "a report has at most {REPORT_TOKENS_MAX} tokens, not {}: send the rest in another",
            tokens.len()
        );
        return Err(
            Problem::new(Kind::Invalid, detail).numbers(count(tokens.len()), count(REPORT_TOKENS_MAX))
        );
    }
    let longest = tokens.iter().map(|token| token.r#type.chars().count()).max().unwrap_or_default();
    if longest > TYPE_CHARS_MAX {
        let detail = format!("a `type` has at most {TYPE_CHARS_MAX} characters, not {longest}");
        return Err(Problem::new(Kind::Invalid, detail).numbers(count(longest), count(TYPE_CHARS_MAX)));
    }
    Ok(())
}

fn paced(house: &House, account: Account) -> Result<(), Problem> {
    let now = MonoNanos::between(house.began, std::time::Instant::now());
    house.reports.count(account, now).map_err(|wait| {
        let detail = format!("at most {REPORTS_PER_SECOND_MAX} reports a second: send more tokens in each");
        let problem = Problem::new(Kind::TooManyReports, detail);
        problem.numbers(REPORTS_PER_SECOND_MAX.saturating_add(1), REPORTS_PER_SECOND_MAX).retry_after(wait)
    })
}

/// Who signs with no key that is known, or not this body, is refused as who has no key at all; and whoever looks after the server
/// is told, as often as an address may fail.
fn unbelieved(house: &House, from: Option<Peer>) -> Problem {
    let problem = refused(from, house);
    if problem.kind() == Kind::Unauthenticated {
        tracing::warn!(
            "a signed report of leaked keys is not believed: its key is not known here, or its signature wrong"
        );
    }
    problem
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
