//! Requests that are done once, however often they are sent.

use http::{HeaderMap, Method};
use ring::digest::{Context, SHA256};
use tenant::{Before, Once, Store};

use crate::answer::Answer;
use crate::asked::idempotency_key;
use crate::asker::Asker;
use crate::fault::{Fault, seeded};
use crate::house::{House, now};
use crate::problem::{Kind, Problem};

/// Whether an answer may be kept and given again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Keep {
    Answer,
    /// It holds a secret: it is given once.
    Nothing,
}

/// What is asked, as far as it decides whether it is the same again.
pub(crate) struct Request<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
}

impl House {
    /// Makes one change, by the store that `change` is given; once only, where the request has a name.
    pub(crate) async fn once(
        &self,
        asker: &Asker,
        request: Request<'_>,
        keep: Keep,
        change: impl AsyncFnOnce(Store) -> Result<Answer, Problem>,
    ) -> Result<Answer, Problem> {
        let store = self.store_of(asker);
        let name = idempotency_key(request.headers)?.filter(|_| !seeded(Fault::DoneAgain));
        let Some(name) = name else { return change(store).await };
        let digest = digest(&request);
        let once = || Once {
            account: asker.reach,
            actor: asker.key,
            name: name.clone(),
            request: digest,
            now: now(),
        };
        if let Some(before) = self.store.done_before(&once()).await? {
            return again(before);
        }
        let answer = match change(store.once(once())).await {
            Err(problem) if problem.kind() == Kind::DoneBefore => {
                // Another was faster.
                return again(self.store.done_before(&once()).await?.ok_or(problem)?);
            }
            answered => answered?,
        };
        if keep == Keep::Answer || seeded(Fault::SecretKept) {
            let kept = self.store.keep_answer(&once(), answer.status.as_u16(), &answer.body).await;
            if let Err(error) = kept {
                // It is done, and will not be done again: only its answer cannot be given again.
                tracing::warn!(%error, "an answer is not kept");
            }
        }
        Ok(answer)
    }
}

fn digest(request: &Request<'_>) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    // A zero byte is in neither of them.
    for part in [Method::POST.as_str().as_bytes(), &[0], request.path.as_bytes(), &[0], request.body] {
        context.update(part);
    }
    let mut digest = [0; 32];
    for (to, from) in digest.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    digest
}

fn again(before: Before) -> Result<Answer, Problem> {
    if !before.is_same {
        let why = "something else was asked under this Idempotency-Key: take another";
        return Err(Problem::new(Kind::NameReused, why));
    }
    match before.answer {
        Some((status, body)) => Ok(Answer::replayed(status, body)),
        None => {
            let why = "it was done, and its answer is not kept: a secret is shown once. `id` says what was made or changed";
            Err(Problem::new(Kind::DoneBefore, why).of(before.subject))
        }
    }
}
