//! One call through the house: what its key may, what it takes, and then the flow.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use ring::rand::SecureRandom;
use tenant::{Grant, ModelName, MonoNanos, Presence, Principal};

use super::House;
use crate::answer::Denied;
use crate::flow::{self, Client, Prepared};
use crate::link::Engine;
use crate::openai::{Endpoint, Shape};
use crate::record::Ledger;

/// Bodies larger than this are parsed and counted off the async workers.
const INLINE_BYTES_MAX: usize = 16 * 1024;
/// Such bodies at once.
pub(super) const LARGE_AT_ONCE: usize = 4;
impl House {
    /// Serves one call to its end; a denial before the head is returned with the account, for the edge to answer.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        (endpoint, body): (Endpoint, Bytes),
        principal: Principal,
        ledger: Ledger,
        client: &mut dyn Client,
    ) -> Result<(), (Denied, Option<Ledger>)> {
        let guard = self.inflight.enter(&principal, self.policy.concurrency_per_key());
        let _guard = match guard {
            Ok(guard) => guard,
            Err(too_many) => return Err((Denied::Concurrency { limit: too_many.limit }, Some(ledger))),
        };
        let presence = match self.directory.enter(&principal) {
            Ok(presence) => presence,
            Err(_) => return Err((Denied::NotAuthenticated, Some(ledger))),
        };
        match self.admit(endpoint, body, &principal).await {
            Ok((engine, window, prepared, seed)) => {
                let grant = match self.grant(&principal, &prepared) {
                    Ok(grant) => grant,
                    Err(denied) => return Err((denied, Some(ledger))),
                };
                client.met(grant.standing());
                let run = self.run_of(&principal, (presence, grant), &prepared, engine, (window, seed));
                flow::serve(run, prepared, ledger, client).await
            }
            Err(denied) => Err((denied, Some(ledger))),
        }
    }

    async fn admit(
        self: &Arc<Self>,
        endpoint: Endpoint,
        body: Bytes,
        principal: &Principal,
    ) -> Result<(Engine, u32, Prepared, u64), Denied> {
        if self.is_draining() {
            return Err(Denied::Draining);
        }
        let engine = self.link.engine().ok_or(Denied::NoEngine)?;
        let window = self.window(principal, &engine);
        let (mut nonce, mut seed) = ([0; 16], [0; 8]);
        self.random
            .fill(&mut nonce)
            .and_then(|()| self.random.fill(&mut seed))
            .map_err(|_| Denied::Internal)?;
        let prepared = if body.len() <= INLINE_BYTES_MAX {
            flow::prepare(endpoint, &body, &self.policy, &self.model, (window, nonce))?
        } else {
            let _turn = self.large.acquire().await.map_err(|_| Denied::Internal)?;
            let house = Arc::clone(self);
            let work = move || flow::prepare(endpoint, &body, &house.policy, &house.model, (window, nonce));
            tokio::task::spawn_blocking(work).await.map_err(|_| Denied::Internal)??
        };
        Ok((engine, window, prepared.within(principal.scopes())?, u64::from_le_bytes(seed)))
    }

    /// Takes what the request may cost from the limits that it meets.
    fn grant(&self, principal: &Principal, prepared: &Prepared) -> Result<Grant, Denied> {
        // The model is ours, so its name is one.
        let model = ModelName::new(&prepared.call.model).ok_or(Denied::NoSuchModel)?;
        let chain = self.directory.chain(principal, &model).map_err(|_| Denied::Internal)?;
        let now = MonoNanos::between(self.clock, Instant::now());
        self.limiter.admit(&chain, prepared.ask(), now).map_err(Denied::Limit)
    }

    fn run_of(
        &self,
        principal: &Principal,
        (presence, grant): (Presence, Grant),
        prepared: &Prepared,
        engine: Engine,
        (window, seed): (u32, u64),
    ) -> flow::Run {
        let call = &prepared.call;
        let prefix = match call.endpoint {
            Endpoint::Chat => "chatcmpl",
            Endpoint::Completions => "cmpl",
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let digest = engine.hello.model_digest.iter().take(5).map(|byte| format!("{byte:02x}"));
        let shape = Shape {
            endpoint: call.endpoint,
            id: format!("{prefix}-{}", uuid::Uuid::now_v7().simple()),
            created: now.map_or(0, |since| since.as_secs()),
            model: self.model.name.clone(),
            fingerprint: format!("fp_{}", digest.collect::<String>()),
            stream: call.stream,
        };
        flow::Run {
            link: self.link.clone(),
            engine,
            model: Arc::clone(&self.model),
            policy: self.version.bytes(),
            window,
            tag: principal.tag,
            limits: (self.policy.first_token_timeout_ms(), self.policy.request_timeout_ms()),
            seed,
            shape,
            cut: self.cut.subscribe(),
            presence,
            grant: (grant, self.clock),
        }
    }
}
