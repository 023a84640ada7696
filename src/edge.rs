//! Puts the gateway together: policy, keys, model text, audit log, ports.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::admin::{Api, ApiConfig, SCANNERS_BYTES_MAX, Scanners};
use ::audit::{AuditError, AuditLog, LogKey, Recovered};
use ::gateway::{BindError, Counting, Gateway, GatewayConfig, GatewayError, Parts};
use ::model::ModelText;
use policies::Policy;
use tenant::{
    Delivery, Directory, Follower, Keep, Ledger, Noting, RedisCount, Replayed, Store, TenantBounds,
};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use wire::WireKey;

use crate::cli::{Common, GatewayArgs, Listeners};
use crate::data::{DataDir, read_bounded};
use crate::exit::{Doing, Exit, Failure};
use crate::progress::Counted;
use crate::shutdown::Signals;
use crate::tenants::secret_variable;
use crate::{audit, auditkey, policy, present, tenants, wirekey};

/// How often it is looked whether keys changed. On PostgreSQL a change is told at once, and this is for what was not told; of a file
/// it is how late a revoked key is refused.
const KEYS_EVERY: Duration = Duration::from_millis(250);

/// How often usage is brought to the store.
const USAGE_EVERY: Duration = Duration::from_secs(1);
/// How often the store is told when secrets were last used.
const USES_EVERY: Duration = Duration::from_secs(60);
/// How long the last of it may take at the end.
const USAGE_LAST_MAX: Duration = Duration::from_secs(5);

/// What a gateway is put together from.
pub(crate) struct Edge<'a> {
    pub(crate) data: &'a DataDir,
    pub(crate) listeners: Listeners,
    pub(crate) model: &'a Path,
    pub(crate) engine_socket: PathBuf,
    pub(crate) wire_key: WireKey,
    pub(crate) policy: Option<&'a Path>,
}

/// A gateway that has its ports.
pub(crate) struct Bound {
    /// Where clients connect.
    pub(crate) listen: SocketAddr,
    /// Where status and metrics are.
    pub(crate) admin: SocketAddr,
    /// Where the Admin API is, if it is served.
    pub(crate) api: Option<SocketAddr>,
    gateway: Gateway,
    serving: Option<Api>,
    follower: Follower,
    delivery: Delivery,
    noting: Noting,
}

fn open_log(folder: &Path, key: LogKey) -> Result<(AuditLog, Recovered), AuditError> {
    let mut counted = Counted::start("leaves of the audit log read");
    AuditLog::open_reporting(folder, key, &mut |progress| counted.show(progress.leaves, progress.until))
}

/// Reads what the gateway needs and binds its ports.
pub(crate) async fn bind(edge: Edge<'_>) -> Result<Bound, Failure> {
    let policy = policy::load(edge.data, edge.policy)?;
    let scanners = edge.listeners.scanners.as_deref().map(scanners).transpose()?.unwrap_or_default();
    let store = tenants::open_later(edge.data).await?.bounded(of_tenant(&policy.policy));
    let directory = Arc::new(directory(edge.data, &store, &policy.policy).await?);
    let (model, folder, key) =
        (edge.model.to_owned(), edge.data.audit(), auditkey::load_or_create(edge.data)?);
    let (model, log) = spawn_blocking(move || (ModelText::load(&model), open_log(&folder, key)))
        .await
        .doing(Exit::Other, "read model and audit log")?;
    let model = model.doing(Exit::Model, format_args!("serve {}", edge.model.display()))?;
    let (log, recovered) = log.map_err(|error| audit::unusable(&error))?;
    let Recovered { leaves, unsigned, cut_bytes } = recovered;
    tracing::info!(leaves, unsigned, cut_bytes, "audit log open");
    let failures = u32::try_from(policy.policy.auth_failures_per_minute()).ok().and_then(NonZeroU32::new);
    let failures_per_minute = failures.unwrap_or(NonZeroU32::MIN);
    let write_time_max = policy.policy.write_timeout_ms();
    let keys_age_max = policy.policy.keys_age_max_ms();
    let config = GatewayConfig {
        listen: edge.listeners.listen,
        admin: edge.listeners.admin,
        engine_socket: edge.engine_socket,
        wire_key: edge.wire_key,
        policy,
    };
    let ledger = ledger(edge.data).await?;
    let (model, audit) = (Arc::new(model), Arc::new(log));
    let parts = Parts {
        directory: Arc::clone(&directory),
        model,
        audit,
        ledger: Arc::clone(&ledger),
        store: store.apart(),
        counting: counting()?,
    };
    let gateway = Gateway::bind(config, parts).await.map_err(|error| refused(&error))?;
    // Each with connections of its own: what the Admin API is asked, or usage, must not hold a revocation up.
    let delivery = Delivery::begin(ledger, store.apart(), USAGE_EVERY);
    let serving = match edge.listeners.api {
        Some(listen) => {
            let config = ApiConfig { listen, failures_per_minute, keys_age_max, write_time_max, scanners };
            Some(api(config, store.apart(), &directory).await?)
        }
        None => None,
    };
    let noting = directory.note_uses(store.apart(), USES_EVERY);
    let follower = directory.follow(store, KEYS_EVERY, Keep::At(edge.data.keys()));
    let (listen, admin) = (gateway.listen_addr(), gateway.admin_addr());
    let api = serving.as_ref().map(Api::address);
    Ok(Bound { listen, admin, api, gateway, serving, follower, delivery, noting })
}

/// How many of each one tenant may have.
fn of_tenant(policy: &Policy) -> TenantBounds {
    TenantBounds {
        keys: policy.keys_per_tenant(),
        projects: policy.projects_per_tenant(),
        limits: policy.limits_per_tenant(),
        budgets: policy.budgets_per_tenant(),
    }
}

/// Whose signed reports of leaked keys are believed.
fn scanners(path: &Path) -> Result<Scanners, Failure> {
    let reading = format!("read the public keys of scanners in {}", path.display());
    let bytes = read_bounded(path, SCANNERS_BYTES_MAX).doing(Exit::Config, &reading)?;
    Scanners::parse(&bytes)
        .map_err(|error| Failure::new(Exit::Config, format_args!("{} is refused: {error}", path.display())))
}

/// Names the Redis server where gateways count limits together; without it each counts for itself. A variable, not an
/// argument: arguments are seen by every process of the machine, and this may hold a password.
pub(crate) const LIMITS_URL: &str = "BULKHEAD_LIMITS_URL";

fn counting() -> Result<Counting, Failure> {
    let Some(address) = secret_variable(LIMITS_URL)? else { return Ok(Counting::Alone) };
    let count = RedisCount::new(&address).doing(Exit::Usage, format_args!("use {LIMITS_URL}"))?;
    Ok(Counting::Together(Box::new(count)))
}

async fn api(config: ApiConfig, store: Store, directory: &Arc<Directory>) -> Result<Api, Failure> {
    let listen = config.listen;
    Api::bind(config, store, Arc::clone(directory)).await.map_err(|error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            let what = "stop it, or take another by --api";
            Failure::new(Exit::PortTaken, format_args!("another process listens on {listen}: {what}"))
        } else {
            Failure::new(Exit::Other, format_args!("cannot listen on {listen}: {error}"))
        }
    })
}

/// All keys: from the store, or, while that is away, from the copy that was kept of it, if that is not too old.
async fn directory(data: &DataDir, store: &Store, policy: &Policy) -> Result<Directory, Failure> {
    let error = match Directory::open(store).await {
        Ok(directory) => return Ok(directory),
        Err(error) if error.is_away() => error,
        // What the store itself says is not to be covered up by what it said before.
        Err(error) => return Err(Failure::new(Exit::Store, format_args!("cannot read the keys: {error}"))),
    };
    match Directory::recall(store, &data.keys(), policy.keys_age_max_ms()) {
        Ok(directory) => {
            let (age_s, of) = (directory.health(Instant::now()).age.as_secs(), directory.store());
            tracing::error!(%error, age_s, store = %of, "the store of the keys is away: starting with the copy that was kept");
            Ok(directory)
        }
        Err(recall) => {
            Err(Failure::new(Exit::Store, format_args!("cannot read the keys: {error}; and {recall}")))
        }
    }
}

/// The journal of reservations and usage, which no other process may have open.
async fn ledger(data: &DataDir) -> Result<Arc<Ledger>, Failure> {
    let folder = data.ledger();
    let opened = spawn_blocking(move || Ledger::open(&folder, tenants::now()));
    let opened = opened.await.doing(Exit::Other, "read the ledger")?;
    let (ledger, replayed) =
        opened.doing(Exit::Store, format_args!("use the ledger in {}", data.ledger().display()))?;
    let Replayed { records, cut_bytes, settled } = replayed;
    tracing::info!(records, cut_bytes, settled, "ledger open");
    Ok(Arc::new(ledger))
}

fn refused(error: &BindError) -> Failure {
    match error {
        BindError::Listen { address, source } if source.kind() == io::ErrorKind::AddrInUse => Failure::new(
            Exit::PortTaken,
            format_args!(
                "another process listens on {address}: stop it, or take another by --listen or --admin"
            ),
        ),
        BindError::Listen { .. } => Failure::new(Exit::Other, error),
        BindError::ModelName(_) => Failure::new(Exit::Model, error),
        BindError::Audit(cause) => audit::unusable(cause),
    }
}

impl Bound {
    /// Serves until `drained` is sent or dropped, and then until the running requests have ended.
    pub(crate) async fn run(self, drained: oneshot::Receiver<()>) -> Result<(), Failure> {
        let _follower = self.follower;
        let (ended, end) = oneshot::channel::<()>();
        let api = self.serving.map(|api| {
            tokio::spawn(api.run(async {
                // Dropped says the same as sent.
                let _told = end.await;
            }))
        });
        let shutdown = async {
            let _told = drained.await;
            drop(ended);
        };
        let served: Result<(), GatewayError> = self.gateway.run(shutdown).await;
        if let Some(api) = api {
            api.await.doing(Exit::Other, "end the Admin API")?;
        }
        // What a store that is away does not take now stays in the journal, and is brought after the next start.
        if timeout(USAGE_LAST_MAX, async { tokio::join!(self.delivery.finish(), self.noting.finish()) })
            .await
            .is_err()
        {
            tracing::warn!("the store did not take the last usage in time; it is kept for the next start");
        }
        served.doing(Exit::Other, "go on serving")
    }
}

/// `bulkhead gateway`: the gateway alone.
pub(crate) async fn run(common: &Common, args: &GatewayArgs) -> Result<(), Failure> {
    let data = DataDir::open(common.data.as_deref())?;
    let mut signals = Signals::catch()?;
    let _lock = data.lock()?;
    let bound = bind(Edge {
        data: &data,
        listeners: args.listeners.clone(),
        model: &args.model,
        engine_socket: args.engine_socket.clone(),
        wire_key: wirekey::read(&args.wire_key_file)?,
        policy: args.policy.as_deref(),
    })
    .await?;
    present::line(&format!("base URL: http://{}/v1", bound.listen))?;
    present::line(&format!("admin: http://{}", bound.admin))?;
    present::api(bound.api)?;
    let (drain, drained) = oneshot::channel();
    let mut serving = std::pin::pin!(bound.run(drained));
    tokio::select! {
        served = &mut serving => return served,
        () = signals.next() => {}
    }
    drop(drain);
    serving.await
}
