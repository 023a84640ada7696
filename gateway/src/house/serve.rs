//! One call through the house: what its key may, what it takes, and then the flow.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use ring::rand::SecureRandom;
use tenant::{Grant, MonoNanos, Presence, Principal, Refusal, Reservation, UnixMillis};

use super::House;
use crate::answer::{BudgetDenied, Denied};
use crate::flow::{self, Bill, Client, Prepared};
use crate::link::Engine;
use crate::meter::Meter;
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
                let grant = match self.grant(&principal, &prepared).await {
                    Ok(grant) => grant,
                    Err(denied) => return Err((denied, Some(ledger))),
                };
                let standing = grant.standing();
                // Dropped where it is refused, the grant would cost the worst case.
                let reservation = match self.reserve(&principal, &prepared).await {
                    Ok(reservation) => reservation,
                    Err(denied) => {
                        grant.settle(0, MonoNanos::between(self.clock, Instant::now()));
                        return Err((denied, Some(ledger)));
                    }
                };
                client.met(standing, reservation.notices());
                let run = self.run_of(&principal, presence, &prepared, engine, (window, seed));
                let bill = Bill::new(grant, self.clock, reservation);
                flow::serve(run, prepared, (ledger, bill), client).await
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

    /// Takes what the request may cost from the limits that it meets. Waits only where the gateway is as far ahead of other
    /// gateways as it may be.
    async fn grant(&self, principal: &Principal, prepared: &Prepared) -> Result<Grant, Denied> {
        let chain = self.directory.chain(principal, &self.model_name).map_err(|_| Denied::Internal)?;
        let now = || MonoNanos::between(self.clock, Instant::now());
        let granted = self.limiter.admit_together(&chain, prepared.ask(), now).await;
        granted.map_err(|refusal| {
            if let Refusal::Ahead(_) = refusal {
                Meter::add(&self.meter.limits_unavailable);
            }
            Denied::Limit(refusal)
        })
    }

    /// Reserves what the request may cost in the budgets that bind it.
    async fn reserve(&self, principal: &Principal, prepared: &Prepared) -> Result<Reservation, Denied> {
        let worst = prepared.worst().ok_or(Denied::Internal)?;
        let charges = || self.directory.charges(principal, &self.model_name);
        let now = UnixMillis::from_system(SystemTime::now());
        let of = (principal.payer(), &self.model_name, worst);
        let reserved = self.budget_parts.reserve(of, charges, now).await;
        reserved.map_err(|refusal| self.unreserved(refusal.into()))
    }

    fn unreserved(&self, denied: BudgetDenied) -> Denied {
        if !matches!(denied, BudgetDenied::Over(_) | BudgetDenied::Elsewhere(_)) {
            Meter::add(&self.meter.budgets_unusable);
        }
        Denied::Budget(denied)
    }

    fn run_of(
        &self,
        principal: &Principal,
        presence: Presence,
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
            window,
            tag: principal.tag,
            limits: (self.policy.first_token_timeout_ms(), self.policy.request_timeout_ms()),
            seed,
            shape,
            cut: self.cut.subscribe(),
            presence,
            meter: Arc::clone(&self.meter),
        }
    }
}
