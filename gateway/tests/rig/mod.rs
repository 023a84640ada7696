//! A gateway between a raw HTTP client and an engine of our own making.

mod liar;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use audit::AuditLog;
use gateway::{Gateway, GatewayConfig, Parts};
use model::ModelText;
use tenant::{
    Concurrency, Directory, Expiry, KeyId, KeyLimits, KeySpec, Mode, Name, Pepper, Project, ProjectId,
    Purpose, Scopes, Store, TenantId, UnixMillis,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use wire::WireKey;

use liar::engine;
#[allow(unused_imports, reason = "each test target uses its part of it")]
pub use liar::{Liar, Lie, Peer, answer, boot_key, hello, hello_in, stated, stated_as, status};

/// What the engine generates: as if it were another tenant's.
pub const MARKER: &str = "hexagonal";
pub const EPOCH: u64 = 4711;
/// Longest wait for anything; reached only when something is broken.
const WAIT_MAX: Duration = Duration::from_secs(20);

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

pub struct Rig {
    listen: std::net::SocketAddr,
    admin: std::net::SocketAddr,
    /// Of two tenants.
    keys: [String; 2],
    pub store: Store,
    _follower: tenant::Follower,
    _delivery: tenant::Delivery,
    cancelled: watch::Receiver<u32>,
    folder: tempfile::TempDir,
    log: audit::NoteKey,
    _shutdown: tokio::sync::oneshot::Sender<()>,
}

fn test_model() -> PathBuf {
    let path = std::env::var_os("BULKHEAD_TEST_MODEL");
    PathBuf::from(path.expect("BULKHEAD_TEST_MODEL must name the demo model's file; ./check sets it"))
}

impl Rig {
    pub async fn start(lie: Lie) -> Self {
        let (said, cancelled) = watch::channel(0);
        let marker = ids(MARKER);
        Self::with(Liar { lie, marker, said }, cancelled).await
    }

    /// A gateway before this engine, which counts the cancels that it hears.
    pub async fn with(peer: impl Peer, cancelled: watch::Receiver<u32>) -> Self {
        Self::of(peer, cancelled, None).await
    }

    /// An honest engine, and a gateway that sees its store once; with this line in its policy.
    pub async fn unfollowed(policy: &str) -> Self {
        let (said, cancelled) = watch::channel(0);
        Self::of(Liar { lie: Lie::None, marker: ids(MARKER), said }, cancelled, Some(policy)).await
    }

    async fn of(peer: impl Peer, cancelled: watch::Receiver<u32>, unfollowed: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let model = Arc::new(ModelText::load(&test_model()).unwrap());
        engine(&at("engine.sock"), peer);

        let store = Store::open(&at("tenants.db"), Pepper::load_or_create(&at("pepper.key")).unwrap()).await;
        let (store, now) = (store.unwrap(), UnixMillis::from_system(SystemTime::now()));
        let keys = [key_of(&store, "acme", now).await, key_of(&store, "other", now).await];
        let directory = Arc::new(Directory::open(&store).await.unwrap());
        let key = audit::LogKey::generate("test.example/log").unwrap();
        let log = key.public();
        let (audit, _) = AuditLog::open(&at("audit"), key).unwrap();
        let (ledger, _) = tenant::Ledger::open(&at("ledger"), now).unwrap();
        let ledger = Arc::new(ledger);
        let delivery = tenant::Delivery::begin(Arc::clone(&ledger), store.clone(), Duration::from_millis(20));
        let file = unfollowed.map(|line| {
            std::fs::write(at("limits.toml"), format!("{line}\n")).unwrap();
            at("limits.toml")
        });
        let policy = policies::PolicyStore::open(&at("policy")).unwrap().load(file.as_deref()).unwrap();
        let config = GatewayConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            admin: "127.0.0.1:0".parse().unwrap(),
            engine_socket: at("engine.sock"),
            wire_key: WireKey::new([7; 32]),
            policy,
        };
        let every =
            if unfollowed.is_some() { Duration::from_secs(86_400) } else { Duration::from_millis(10) };
        let follower = directory.follow(store.clone(), every, tenant::Keep::Nowhere);
        let gateway = Gateway::bind(
            config,
            Parts {
                directory,
                model,
                audit: Arc::new(audit),
                ledger,
                store: store.clone(),
                counting: gateway::Counting::Alone,
            },
        )
        .await
        .unwrap();
        let (listen, admin) = (gateway.listen_addr(), gateway.admin_addr());
        let (shutdown, told) = tokio::sync::oneshot::channel::<()>();
        tokio::spawn(gateway.run(async {
            let _dropped = told.await;
        }));
        let rig = Self {
            listen,
            admin,
            keys,
            store,
            _follower: follower,
            _delivery: delivery,
            cancelled,
            folder,
            log,
            _shutdown: shutdown,
        };
        rig.ready().await;
        rig
    }

    async fn ready(&self) {
        let ready = async {
            while get(self.admin, "/readyz").await.status != 200 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, ready).await.expect("the gateway gets ready");
    }

    /// Sends it, and reads the answer to its end.
    pub async fn exchange(&self, text: &str) -> Answer {
        exchange(self.listen, text).await
    }

    pub async fn readiness(&self) -> Answer {
        get(self.admin, "/readyz").await
    }

    fn request(&self, stream: bool) -> String {
        let body = serde_json::json!({
            "messages": [{ "role": "user", "content": "Hello." }],
            "max_tokens": 100,
            "stream": stream,
        });
        self.text_of(0, "chat/completions", "", body)
    }

    /// A request of one of the two tenants, with its key and the model put in.
    pub fn text_of(&self, tenant: usize, path: &str, headers: &str, body: serde_json::Value) -> String {
        Self::text_by(&self.keys[tenant], path, headers, body)
    }

    /// A request by this key, with the model put in.
    pub fn text_by(key: &str, path: &str, headers: &str, mut body: serde_json::Value) -> String {
        body["model"] = model_name().into();
        let body = body.to_string();
        format!(
            "POST /v1/{path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n{headers}content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    /// Sends it, and reads the answer to its end.
    pub async fn ask(&self, tenant: usize, path: &str, headers: &str, body: serde_json::Value) -> Answer {
        exchange(self.listen, &self.text_of(tenant, path, headers, body)).await
    }

    /// The same, by any key.
    pub async fn ask_by(&self, key: &str, path: &str, body: serde_json::Value) -> Answer {
        exchange(self.listen, &Self::text_by(key, path, "", body)).await
    }

    /// Reads what a path of the public listener gives this key.
    pub async fn get_by(&self, key: &str, path: &str) -> Answer {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n"
        );
        exchange(self.listen, &request).await
    }

    /// A key of the first tenant for something else than all.
    pub async fn key(&self, purpose: impl FnOnce(TenantId, ProjectId) -> Purpose) -> (KeyId, String) {
        let tenant = self.store.find_tenant("acme").await.unwrap().unwrap().id;
        let project = self.store.find_project(tenant, Project::DEFAULT).await.unwrap().unwrap().id;
        let limits =
            KeyLimits { window_cap: policies::WindowCap::Inherit, concurrency: Concurrency::Inherit };
        let (name, purpose) = (Name::new("other").unwrap(), purpose(tenant, project));
        let spec = KeySpec { name, purpose, limits, expires: Expiry::Never };
        let now = UnixMillis::from_system(SystemTime::now());
        let (record, secret) = self.store.create_key(spec, now).await.unwrap();
        (record.id, secret.expose().clone())
    }

    /// Asks until the gateway knows the key.
    pub async fn until_known(&self, key: &str, ask: impl AsyncFn() -> Answer) -> Answer {
        let wait = async {
            while matches!(self.get_by(key, "/v1/models").await.status, 401 | 429) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            ask().await
        };
        tokio::time::timeout(WAIT_MAX, wait).await.expect("the gateway follows its store")
    }

    /// Waits until this key is answered so, on `GET /v1/models`.
    pub async fn answered(&self, key: &str, status: u16) {
        let wait = async {
            while self.get_by(key, "/v1/models").await.status != status {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, wait).await.expect("the gateway follows its store");
    }

    pub async fn chat(&self, stream: bool) -> Answer {
        // An engine that died is back a moment later.
        self.ready().await;
        exchange(self.listen, &self.request(stream)).await
    }

    /// Asks for a stream and leaves before it begins.
    pub async fn leave(&self) {
        let _client = self.begin(&self.request(true)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    /// Sends a request; its client leaves when it is dropped.
    pub async fn begin(&self, request: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.listen).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        client
    }

    pub async fn cancelled(&self) {
        let mut cancelled = self.cancelled.clone();
        let wait = cancelled.wait_for(|count| *count > 0);
        tokio::time::timeout(WAIT_MAX, wait).await.expect("a cancel reaches the engine").unwrap();
    }

    /// Waits until `/metrics` counts so many alarms of engines.
    pub async fn alarms(&self, count: u64) {
        let line = format!("\nbulkhead_engine_alarms_total {count}\n");
        let wait = async {
            while !get(self.admin, "/metrics").await.body.contains(&line) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, wait).await.expect("the alarms are counted");
    }

    /// The events of this kind in the audit log, whose every link must hold; those that were appended last may not be there yet.
    pub fn recorded(&self, kind: &str) -> Vec<serde_json::Value> {
        let folder = self.folder.path().join("audit");
        let trust = audit::Trust::in_log(self.log.clone());
        audit::verify(&folder, &trust, &mut |_| {}).expect("the log holds");
        let mut recorded = Vec::new();
        audit::read_leaves(&folder, 0, &mut |_, leaf| {
            let mut leaf = serde_json::to_value(leaf).unwrap();
            recorded.extend(leaf["event"].get_mut(kind).map(serde_json::Value::take));
        })
        .expect("the log is read");
        recorded
    }

    /// Waits until so many events of this kind are in the audit log.
    pub async fn recorded_when(&self, kind: &str, count: usize) -> Vec<serde_json::Value> {
        let wait = async {
            loop {
                let recorded = self.recorded(kind);
                if recorded.len() >= count {
                    return recorded;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, wait).await.expect("the events are recorded")
    }

    /// A number of `/status` about budgets, once it is this one.
    pub async fn until_budgets(&self, name: &str, expected: u64) {
        self.until(name, |budgets| budgets[name] == expected).await;
    }

    /// A number of `/status` about parts of budgets, once it is at least this one.
    pub async fn until_parts(&self, name: &str, least: u64) {
        self.until(name, |budgets| budgets["parts"][name].as_u64().unwrap() >= least).await;
    }

    async fn until(&self, name: &str, is_so: impl Fn(&serde_json::Value) -> bool) {
        let wait = async {
            loop {
                let answer = get(self.admin, "/status").await;
                let status: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
                if is_so(&status["budgets"]) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, wait).await.unwrap_or_else(|_| panic!("{name} is never so"));
    }

    /// One of the counts of requests in `/status`; waits for it to be written, since the client is answered first.
    pub async fn number(&self, name: &str) -> u64 {
        let mut last = u64::MAX;
        for _ in 0..40 {
            let answer = get(self.admin, "/status").await;
            let status: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
            let now = status["requests"][name].as_u64().unwrap();
            if status["requests"]["active"] == 0 && now == last {
                return now;
            }
            last = now;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        last
    }
}

/// A key of a new tenant.
async fn key_of(store: &Store, tenant: &str, now: UnixMillis) -> String {
    let tenant = store.create_tenant(Name::new(tenant).unwrap(), now).await.unwrap();
    let limits = KeyLimits { window_cap: policies::WindowCap::Inherit, concurrency: Concurrency::Inherit };
    let project = store.find_project(tenant.id, Project::DEFAULT).await.unwrap().unwrap().id;
    let scopes = Scopes::default();
    let purpose = Purpose::Service { tenant: tenant.id, project, mode: Mode::Live, scopes };
    let spec = KeySpec { name: Name::new("first").unwrap(), purpose, limits, expires: Expiry::Never };
    store.create_key(spec, now).await.unwrap().1.expose().clone()
}

/// The token ids of a text.
pub fn ids(text: &str) -> Vec<u32> {
    ModelText::load(&test_model()).unwrap().tokenizer.encode_plain(text, 64).unwrap()
}

pub fn model_name() -> String {
    test_model().file_stem().unwrap().to_str().unwrap().to_owned()
}

async fn get(address: std::net::SocketAddr, path: &str) -> Answer {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")).await
}

async fn exchange(address: std::net::SocketAddr, request: &str) -> Answer {
    let exchange = async {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = vec![];
        client.read_to_end(&mut bytes).await.unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let text = tokio::time::timeout(WAIT_MAX, exchange).await.expect("an answer");
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}
