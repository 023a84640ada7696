//! A server, and who asks it.

use core::time::Duration;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::SystemTime;

use admin::{Api, ApiConfig};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tenant::{
    Concurrency, Directory, Expiry, KeyLimits, KeySpec, Name, Pepper, Purpose, Reach, Role, Secret, Store,
    TenantId, UnixMillis, WindowCap,
};
use tokio::sync::oneshot;

/// Keys that do not work which a test's address may present in a minute.
pub const FAILURES: u32 = 40;

/// How long a test's client may make an answer wait.
pub const WRITE_TIME_MAX: Duration = Duration::from_millis(500);

pub struct Rig {
    pub store: Store,
    pub directory: Arc<Directory>,
    pub address: SocketAddr,
    /// An operator's key, with the role of an owner.
    pub operator: String,
    /// Whose reports of leaked keys are believed.
    pub scanner: Scanner,
    _folder: tempfile::TempDir,
    _end: oneshot::Sender<()>,
}

/// A scanner of secrets that signs its reports.
pub struct Scanner {
    pub name: &'static str,
    pair: EcdsaKeyPair,
}

pub struct Answer {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub text: String,
}

pub fn now() -> UnixMillis {
    UnixMillis::from_system(SystemTime::now())
}

impl Scanner {
    pub fn new(name: &'static str) -> Self {
        let (random, of) = (SystemRandom::new(), &ECDSA_P256_SHA256_ASN1_SIGNING);
        let document = EcdsaKeyPair::generate_pkcs8(of, &random).unwrap();
        Self { name, pair: EcdsaKeyPair::from_pkcs8(of, document.as_ref(), &random).unwrap() }
    }

    /// Its public key, as a file of them.
    pub fn file(&self) -> String {
        // The algorithm, the curve, and a bit string of 66 bytes.
        let head = "3059301306072a8648ce3d020106082a8648ce3d030107034200";
        let head = (0..head.len() / 2).map(|at| u8::from_str_radix(&head[2 * at..2 * at + 2], 16).unwrap());
        let der: Vec<u8> = head.chain(self.pair.public_key().as_ref().iter().copied()).collect();
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der));
        json!({ "public_keys": [{ "key_identifier": self.name, "key": pem, "is_current": true }] })
            .to_string()
    }

    pub fn sign(&self, body: &[u8]) -> String {
        STANDARD.encode(self.pair.sign(&SystemRandom::new(), body).unwrap())
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// The last part of a problem's type, after a look at all that a problem has.
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text);
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        assert_eq!(problem["instance"], format!("urn:uuid:{}", self.header("x-request-id")));
        assert!(problem["title"].is_string() && problem["detail"].is_string());
        problem["type"].as_str().unwrap().strip_prefix("/problems/").unwrap().to_owned()
    }
}

impl Rig {
    pub async fn sqlite() -> Self {
        Self::aged(Duration::from_secs(86_400)).await
    }

    /// One that lets nobody in by what is older than this.
    pub async fn aged(keys_age_max: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pepper = Pepper::load_or_create(&folder.path().join("pepper.key")).unwrap();
        let store = Store::open(&folder.path().join("tenants.db"), pepper).await.unwrap();
        Self::on(folder, store, keys_age_max).await
    }

    /// A database of its own on the server that `./check` starts.
    pub async fn postgres() -> Self {
        let server = std::env::var("BULKHEAD_TEST_POSTGRES")
            .expect("BULKHEAD_TEST_POSTGRES must name a PostgreSQL server, as ./check does");
        let folder = tempfile::tempdir().unwrap();
        let pepper = Pepper::load_or_create(&folder.path().join("pepper.key")).unwrap();
        let address = database(&server).await;
        let store = Store::connect(Secret::new(address), pepper).await.unwrap();
        Self::on(folder, store, Duration::from_secs(86_400)).await
    }

    async fn on(folder: tempfile::TempDir, store: Store, keys_age_max: Duration) -> Self {
        let purpose = Purpose::Person { reach: Reach::Installation, role: Role::Owner };
        let operator = key(&store, purpose).await;
        let directory = Arc::new(Directory::open(&store).await.unwrap());
        let scanner = Scanner::new("of-a-test");
        let config = ApiConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            failures_per_minute: NonZeroU32::new(FAILURES).unwrap(),
            keys_age_max,
            write_time_max: WRITE_TIME_MAX,
            scanners: admin::Scanners::parse(scanner.file().as_bytes()).unwrap(),
        };
        let api = Api::bind(config, store.clone(), Arc::clone(&directory)).await.unwrap();
        let address = api.address();
        let (end, ended) = oneshot::channel::<()>();
        tokio::spawn(api.run(async {
            let _ended = ended.await;
        }));
        Self { store, directory, address, operator, scanner, _folder: folder, _end: end }
    }

    /// A person's key, which the server knows.
    pub async fn person(&self, reach: Reach, role: Role) -> String {
        let key = key(&self.store, Purpose::Person { reach, role }).await;
        self.directory.refresh(&self.store).await.unwrap();
        key
    }

    /// A tenant, and the key of its owner.
    pub async fn tenant(&self, called: &str) -> (TenantId, String) {
        let tenant = self.store.create_tenant(Name::new(called).unwrap(), now()).await.unwrap().id;
        (tenant, self.person(Reach::Tenant(tenant), Role::Owner).await)
    }

    /// Asks, with these headers beside the key.
    pub async fn ask(&self, key: &str, line: &str, headers: &[(&str, &str)], body: Option<&Value>) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let uri = format!("http://{}{path}", self.address);
        let mut request = http::Request::builder().method(method).uri(uri);
        if !key.is_empty() {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        send(request.body(body).unwrap()).await
    }

    pub async fn get(&self, key: &str, path: &str) -> Answer {
        self.ask(key, &format!("GET {path}"), &[], None).await
    }

    pub async fn post(&self, key: &str, path: &str, body: Value) -> Answer {
        self.ask(key, &format!("POST {path}"), &[], Some(&body)).await
    }

    /// A live key of a tenant: its id and its text.
    pub async fn live(&self, key: &str, tenant: TenantId) -> (String, String) {
        let body = json!({ "name": "ci", "for": "live", "tenant_id": tenant.to_string() });
        let made = self.post(key, "/v1/keys", body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let made = made.json();
        (made["id"].as_str().unwrap().to_owned(), made["key"].as_str().unwrap().to_owned())
    }
}

async fn database(server: &str) -> String {
    let name = format!("test_{}", uuid::Uuid::now_v7().simple());
    let mut connection = PgConnection::connect(server).await.unwrap();
    let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::raw_sql(create).execute(&mut connection).await.unwrap();
    format!("{}/{name}", server.rsplit_once('/').unwrap().0)
}

/// Sends a request; whatever is answered is an answer.
pub async fn send(request: http::Request<String>) -> Answer {
    tokio::task::spawn_blocking(move || {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .timeout_global(Some(Duration::from_secs(60)));
        let agent: ureq::Agent = config.build().into();
        let (head, mut body) = agent.run(request).unwrap().into_parts();
        let text = body.read_to_string().unwrap();
        Answer { status: head.status.as_u16(), headers: head.headers, text }
    })
    .await
    .unwrap()
}

async fn key(store: &Store, purpose: Purpose) -> String {
    let limits = KeyLimits { window_cap: WindowCap::Inherit, concurrency: Concurrency::Inherit };
    let spec = KeySpec { name: Name::new("person").unwrap(), purpose, limits, expires: Expiry::Never };
    store.create_key(spec, now()).await.unwrap().1.expose().clone()
}

/// Runs each of these on both databases.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            use crate::rig::Rig;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$name(Rig::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$name(Rig::postgres().await).await;
            }
        }
    )*};
}
pub(crate) use on_both;
