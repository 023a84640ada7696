//! A gateway: what all its requests share, how it is bound, how it runs and how it drains.

mod serve;

use std::future::Future;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use audit::{AuditLog, Hex, PolicySource, Record};
use model::ModelText;
use policies::{InForce, Policy, SharedLimitsAway, Source, Version};
use ring::rand::SystemRandom;
use tenant::{
    BadModelName, Bounds, BudgetParts, Caller, Directory, Failures, Inflight, Limiter, ModelName, MonoNanos,
    NotAuthenticated, Principal, RedisCount, Sharing, Store, UnixMillis,
};
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wire::{Alarm, WireKey};

use crate::answer::{Denied, Forbidden};
use crate::edge::{Listener, Role};
use crate::engines::{Recorder, record_alarms, record_engines};
use crate::link::{ALARMS_MAX, Engine, Link, reach};
use crate::meter::Meter;
use crate::openai::{Endpoint, ModelEntry, model_json, models_json};
use crate::record::{Asker, Ledger};
use serve::LARGE_AT_ONCE;

/// After the drain: how long cut requests have to send their error events.
const CUT_MAX: Duration = Duration::from_secs(2);
/// After that, as long as alarms: how long the store has to take back what is not used of budgets.
const PARTS_BACK_MAX: Duration = Duration::from_secs(5);
/// After that: how long the engine's alarms that wait have to reach the disk.
const ALARMS_SETTLE_MAX: Duration = Duration::from_secs(5);

/// Where a gateway listens and whom it asks.
pub struct GatewayConfig {
    /// For clients.
    pub listen: SocketAddr,
    /// For the operator.
    pub admin: SocketAddr,
    /// The engine's socket; it need not be there yet.
    pub engine_socket: PathBuf,
    /// Shared with the engine.
    pub wire_key: WireKey,
    /// The limits in force.
    pub policy: InForce,
}

/// What a gateway is made of.
pub struct Parts {
    /// Who may ask.
    pub directory: Arc<Directory>,
    /// The model's text side.
    pub model: Arc<ModelText>,
    /// Where each request is recorded.
    pub audit: Arc<AuditLog>,
    /// Where each request is reserved and charged.
    pub ledger: Arc<tenant::Ledger>,
    /// Hands out parts of budgets.
    pub store: Store,
    /// Whether limits are counted together with other gateways.
    pub counting: Counting,
}

/// Who counts limits.
#[derive(Debug)]
pub enum Counting {
    /// This gateway for itself.
    Alone,
    /// All that use this server, together.
    Together(Box<RedisCount>),
}

/// Why a gateway does not start.
#[derive(Debug, Error)]
pub enum BindError {
    /// An address cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why; [`std::io::ErrorKind::AddrInUse`] when another process has it.
        source: std::io::Error,
    },
    /// The model's name is none that keys, limits and prices could name.
    #[error("the model cannot be served by its name: {0}; rename its file")]
    ModelName(#[from] BadModelName),
    /// The start cannot be recorded.
    #[error("the audit log takes no record: {0}")]
    Audit(#[from] audit::AuditError),
}

/// Why a gateway ended before it was told to.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// A task of its own ended.
    #[error("a task of the gateway ended by itself")]
    Task(#[from] tokio::task::JoinError),
}

/// What all requests share.
pub(crate) struct House {
    pub(crate) policy: Policy,
    pub(crate) version: Version,
    pub(crate) policy_source: &'static str,
    pub(crate) link: Link,
    pub(crate) directory: Arc<Directory>,
    pub(crate) model: Arc<ModelText>,
    model_name: ModelName,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) budgets: Arc<tenant::Ledger>,
    pub(crate) budget_parts: BudgetParts,
    pub(crate) meter: Arc<Meter>,
    inflight: Inflight,
    pub(crate) limiter: Limiter,
    failures: Failures,
    /// Where the clock of limits and failures began.
    clock: Instant,
    large: Semaphore,
    random: SystemRandom,
    started: u64,
    draining: watch::Sender<bool>,
    cut: watch::Sender<bool>,
}

/// A gateway that is bound and not yet running.
pub struct Gateway {
    house: Arc<House>,
    public: Listener,
    admin: Listener,
    /// From the link to the audit log.
    alarms: (mpsc::Sender<Alarm>, mpsc::Receiver<Alarm>),
    counting: Counting,
}

impl Gateway {
    /// Binds both addresses and records the start.
    ///
    /// # Errors
    /// See [`BindError`].
    pub async fn bind(config: GatewayConfig, parts: Parts) -> Result<Self, BindError> {
        let bind = async |address| {
            Listener::bind(address).await.map_err(|source| BindError::Listen { address, source })
        };
        let (public, admin) = (bind(config.listen).await?, bind(config.admin).await?);
        let model_name = ModelName::try_from(parts.model.name.clone())?;
        let InForce { policy, version, source } = config.policy;
        let (policy_source, recorded) = match source {
            Source::File => ("file", PolicySource::File),
            Source::LastKnownGood { .. } => ("last-known-good", PolicySource::LastKnownGood),
            Source::Shipped => ("shipped", PolicySource::Shipped),
        };
        let now = SystemTime::now();
        let boot = audit::Boot { version: own_version(), policy: Hex(version.bytes()), source: recorded };
        // On disk before anybody is answered.
        let recorded = parts.audit.append(&Record::Boot(boot), now)?.await?;
        let started = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let link = Link::new(config.engine_socket, config.wire_key, Arc::clone(&parts.directory));
        let limiter = match &parts.counting {
            Counting::Alone => Limiter::default(),
            Counting::Together(_) => {
                let alone = policy.shared_limits_away() == SharedLimitsAway::Open;
                Limiter::together(Bounds::default(), alone)
            }
        };
        let (ledger, known) = (Arc::clone(&parts.ledger), Arc::clone(&parts.directory));
        let budget_parts = BudgetParts::begin(ledger, parts.store, known);
        let house = House {
            link,
            policy,
            version,
            policy_source,
            directory: parts.directory,
            model: parts.model,
            model_name,
            recorder: Arc::new(Recorder::new(parts.audit, recorded.index)),
            budget_parts,
            budgets: parts.ledger,
            meter: Arc::default(),
            inflight: Inflight::new(),
            limiter,
            failures: Failures::default(),
            clock: Instant::now(),
            large: Semaphore::new(LARGE_AT_ONCE),
            random: SystemRandom::new(),
            started,
            draining: watch::Sender::new(false),
            cut: watch::Sender::new(false),
        };
        let (house, counting) = (Arc::new(house), parts.counting);
        Ok(Self { house, public, admin, alarms: mpsc::channel(ALARMS_MAX), counting })
    }

    /// Where clients connect.
    #[must_use]
    pub fn listen_addr(&self) -> SocketAddr {
        self.public.address()
    }

    /// Where the operator connects.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Serves until `shutdown` is ready, then drains: `/readyz` says no, nobody new is accepted, running requests finish within
    /// the policy's `drain_ms` or end in an error event. However it ends, those of the engine's alarms that it had read and found a
    /// place for are on disk after it, within 5 s; if that was too short, the log says so. Not among them are those that stood
    /// unread in the engine's socket: an engine that lives on tells the next gateway what it keeps of them.
    ///
    /// # Errors
    /// When a task of its own ended by itself.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), GatewayError> {
        let house = self.house;
        // Before the link runs: the first engine would be missed by who looks later.
        let seen = tokio::spawn(record_engines(Arc::clone(&house), house.link.seen()));
        let (tell, told) = self.alarms;
        let link = tokio::spawn(house.link.clone().run(tell, Arc::clone(&house.meter)));
        let sharing = match self.counting {
            Counting::Alone => None,
            Counting::Together(count) => Some(Sharing::begin(house.limiter.clone(), *count, house.clock)),
        };
        let recorder = Arc::clone(&house.recorder);
        let append = move |record: &Record| recorder.log().append(record, SystemTime::now());
        let alarms = tokio::spawn(record_alarms(append, told));
        let (stop_public, stop_admin) = (watch::Sender::new(false), watch::Sender::new(false));
        let serve = |listener: Listener, role, stop: &watch::Sender<bool>| {
            tokio::spawn(listener.serve(Arc::clone(&house), role).run(stop.subscribe()))
        };
        let mut public = serve(self.public, Role::Public, &stop_public);
        let admin = serve(self.admin, Role::Admin, &stop_admin);
        let ended = tokio::select! {
            () = shutdown => Ok(()),
            ended = &mut public => ended,
        };
        house.draining.send_replace(true);
        stop_public.send_replace(true);
        if !public.is_finished() && timeout(house.policy.drain_ms(), &mut public).await.is_err() {
            house.cut.send_replace(true);
            if timeout(CUT_MAX, &mut public).await.is_err() {
                tracing::warn!("connections were cut at the end of the drain");
                public.abort();
            }
        }
        if let Some(sharing) = sharing {
            // Places in flight are free at once for other gateways.
            sharing.finish().await;
        }
        stop_admin.send_replace(true);
        for task in [admin, seen] {
            task.abort();
        }
        // What a store that is away does not take back stays this gateway's, and is there after the next start.
        let given_back = timeout(PARTS_BACK_MAX, house.budget_parts.finish());
        let ((), given_back) = tokio::join!(settle(link, alarms), given_back);
        if given_back.is_err() {
            tracing::warn!(
                "the store did not take parts of budgets back in time; they are kept for the next start"
            );
        }
        Ok(ended?)
    }
}

/// Ends the link, so that no alarm comes any more, and waits until those that came are on disk.
async fn settle(link: JoinHandle<()>, mut alarms: JoinHandle<()>) {
    link.abort();
    // With it goes the one end of the channel, and with that the recorder, once it has come through.
    let _aborted = link.await;
    if timeout(ALARMS_SETTLE_MAX, &mut alarms).await.is_err() {
        tracing::error!("alarms of the engine are not recorded: the audit log did not take them in time");
        alarms.abort();
    }
}

impl House {
    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Whether the store confirmed what is known of keys too long ago.
    pub(crate) fn keys_are_stale(&self) -> bool {
        self.directory.health(Instant::now()).age > self.policy.keys_age_max_ms()
    }

    /// `from` is where the connection comes from; none where that is not known.
    pub(crate) fn authenticate(&self, presented: &str, from: Option<IpAddr>) -> Result<Principal, Denied> {
        // A key that was revoked meanwhile would work: nobody is let in (fail closed).
        if self.keys_are_stale() {
            return Err(Denied::KeysStale);
        }
        let now = UnixMillis::from_system(SystemTime::now());
        match self.directory.authenticate(presented, now) {
            Ok(Caller::Service(principal)) => Ok(principal),
            Err(NotAuthenticated::Suspended) => Err(Denied::Forbidden(Forbidden::Suspended)),
            // A person's key asks no models, and is not known here.
            Ok(Caller::Person(_) | Caller::Auditor(_)) | Err(NotAuthenticated::Invalid) => {
                Meter::add(&self.meter.not_authenticated);
                Err(self.failed(from))
            }
        }
    }

    /// What a failed authentication is answered with.
    fn failed(&self, from: Option<IpAddr>) -> Denied {
        let most = u32::try_from(self.policy.auth_failures_per_minute()).ok().and_then(NonZeroU32::new);
        let from = from.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        let now = MonoNanos::between(self.clock, Instant::now());
        match self.failures.count(from, most.unwrap_or(NonZeroU32::MIN), now) {
            Ok(()) => Denied::NotAuthenticated,
            Err(failures) => Denied::TooManyFailures(failures),
        }
    }

    pub(crate) fn ledger(
        &self,
        principal: &Principal,
        moment: ([u8; 16], Instant),
        endpoint: Endpoint,
    ) -> Option<Ledger> {
        let endpoint = match endpoint {
            Endpoint::Chat => audit::Endpoint::Chat,
            Endpoint::Completions => audit::Endpoint::Completion,
        };
        let (recorder, meter) = (Arc::clone(&self.recorder), Arc::clone(&self.meter));
        Some(Ledger::open(recorder, meter, moment, Asker::of(principal)?, endpoint))
    }

    /// The window that this caller truly has: the least of the model's, the engine's, the policy's, the key's, and what its
    /// tenant may hold of the engine's memory.
    fn window(&self, principal: &Principal, engine: &Engine) -> u32 {
        let model = u32::try_from(self.model.context).unwrap_or(u32::MAX);
        let window = self.policy.window_cap().narrow(engine.window.min(model));
        let pool = (engine.hello.capacity, engine.hello.page_tokens);
        let reach = reach(&self.directory.shares(), principal.tag, pool);
        principal.limits.window_cap.narrow(window.min(reach))
    }

    /// The bodies of `GET /v1/models` and `GET /v1/models/{id}`.
    pub(crate) fn models(&self, principal: &Principal, name: Option<&str>) -> Result<Vec<u8>, Denied> {
        let engine = self.link.engine().ok_or(Denied::NoEngine)?;
        let window = self.window(principal, &engine);
        let entry = ModelEntry { id: self.model.name.clone(), created: self.started, window };
        let is_allowed = principal.scopes().allows_model(&entry.id);
        match name {
            None if is_allowed => Ok(models_json(&[entry])),
            None => Ok(models_json(&[])),
            Some(name) if name != entry.id => Err(Denied::NoSuchModel),
            Some(_) if is_allowed => Ok(model_json(&entry)),
            Some(_) => Err(Denied::Forbidden(Forbidden::Model)),
        }
    }
}

fn own_version() -> [u16; 3] {
    let mut parts = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().unwrap_or(0));
    [0; 3].map(|_| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests;
