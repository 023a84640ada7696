//! The incident in small: the pool turns out to hold less than was offered, while the gateway still believes the old window.
//!
//! Gateway and engine run in this process, over their real socket, so that the pool can be shrunk under them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use audit::{AuditLog, LogKey};
use engine::core::EngineConfig;
use engine::device::cpu::{CpuDevice, CpuOptions};
use engine::server::{Control, ServerConfig};
use gateway::{Gateway, GatewayConfig, Parts};
use integration::http;
use integration::server::test_model;
use integration::wait;
use isolation::units::{Pages, Tokens};
use model::ModelText;
use policies::{PolicyStore, WindowCap};
use serde_json::{Value, json};
use tenant::{
    Concurrency, Directory, Expiry, KeyLimits, KeySpec, Mode, Name, Pepper, Project, Purpose, Scopes, Store,
    UnixMillis,
};
use tokio::sync::oneshot;
use wire::WireKey;

const KEY: [u8; 32] = [3; 32];
/// Tokens of the pool before and after it shrinks; a page has 16.
const BEFORE: u32 = 1024;
const AFTER: u32 = 512;
/// Longest wait for either process to be there, or to learn of the other.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn serve_engine(folder: &Path) -> (Control, std::thread::JoinHandle<()>) {
    let socket = folder.join("run/engine.sock");
    let config = ServerConfig::new(socket, WireKey::new(KEY), EngineConfig::default());
    let control = config.control.clone();
    let running = std::thread::spawn(move || {
        let options = CpuOptions { pool_tokens: Tokens::new(BEFORE), threads: 1, isa: None };
        let make = || CpuDevice::load(&test_model(), options, &mut |_| {});
        engine::server::run(config, make, |_| {}).expect("the engine runs");
    });
    (control, running)
}

struct Running {
    listen: SocketAddr,
    admin: SocketAddr,
    key: String,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

async fn serve_gateway(folder: &Path) -> Running {
    let pepper = Pepper::load_or_create(&folder.join("pepper.key")).unwrap();
    let store = Store::open(&folder.join("tenants.db"), pepper).await.unwrap();
    let now = UnixMillis::from_system(SystemTime::now());
    let tenant = store.create_tenant(Name::new("acme").unwrap(), now).await.unwrap();
    let limits = KeyLimits { window_cap: WindowCap::Inherit, concurrency: Concurrency::Inherit };
    let project = store.find_project(tenant.id, Project::DEFAULT).await.unwrap().unwrap().id;
    let scopes = Scopes::default();
    let purpose = Purpose::Service { tenant: tenant.id, project, mode: Mode::Live, scopes };
    let spec = KeySpec { name: Name::new("key").unwrap(), purpose, limits, expires: Expiry::Never };
    let (_, key) = store.create_key(spec, now).await.unwrap();
    let config = GatewayConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        admin: "127.0.0.1:0".parse().unwrap(),
        engine_socket: folder.join("run/engine.sock"),
        wire_key: WireKey::new(KEY),
        policy: PolicyStore::open(&folder.join("policy")).unwrap().load(None).unwrap(),
    };
    let parts = Parts {
        directory: Arc::new(Directory::open(&store).await.unwrap()),
        model: Arc::new(ModelText::load(&test_model()).unwrap()),
        audit: Arc::new(
            AuditLog::open(&folder.join("audit"), LogKey::generate("test.example/log").unwrap()).unwrap().0,
        ),
        store: store.clone(),
        ledger: Arc::new(tenant::Ledger::open(&folder.join("ledger"), now).unwrap().0),
        counting: gateway::Counting::Alone,
    };
    let gateway = Gateway::bind(config, parts).await.unwrap();
    let (listen, admin) = (gateway.listen_addr(), gateway.admin_addr());
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(async move {
        gateway.run(async { stopped.await.unwrap_or_default() }).await.unwrap();
    });
    Running { listen, admin, key: key.expose().clone(), stop, served }
}

fn words(model: &str, count: usize) -> Value {
    json!({ "model": model, "prompt": " word".repeat(count), "max_tokens": 1, "temperature": 0 })
}

#[test]
fn a_prompt_above_a_pool_that_shrank_is_refused_and_no_page_is_leased() {
    let folder = tempfile::tempdir().unwrap();
    let (control, engine) = serve_engine(folder.path());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let gateway = runtime.block_on(serve_gateway(folder.path()));
    wait::until("link to the engine", WAIT_MAX, || {
        (http::get(gateway.admin, "/readyz", None).status() == 200).then_some(())
    });
    let models = http::get(gateway.listen, "/v1/models", Some(&gateway.key)).json();
    assert_eq!(models["data"][0]["context_window"], BEFORE, "{models}");
    let name = models["data"][0]["id"].as_str().unwrap().to_owned();
    let ask =
        |count: usize| http::post(gateway.listen, "/v1/completions", &gateway.key, &words(&name, count));
    let status = || http::get(gateway.admin, "/status", None).json();
    assert_eq!(ask(700).status(), 200, "it fits before");

    control.shrink(Pages::new((BEFORE - AFTER) / 16));
    // At once, while the gateway may believe the old window: the engine counts for itself.
    let refused = ask(701);
    assert_eq!(
        (refused.status(), refused.code().as_str()),
        (400, "context_length_exceeded"),
        "{}",
        refused.json()
    );
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&AFTER.to_string()), "not the window that is: {message}");
    let (shrunk, _) = wait::until("smaller pool", WAIT_MAX, || {
        let status = status();
        (status["engine"]["capacity_tokens"] == AFTER).then_some(status)
    });
    assert_eq!(shrunk["engine"]["leased"], 0, "{shrunk}");
    assert_eq!(shrunk["requests"]["completed"], 1, "{shrunk}");

    // And once it knows: refused at the edge, the window told truly, and what fits is still answered.
    wait::until("smaller window", WAIT_MAX, || {
        let models = http::get(gateway.listen, "/v1/models", Some(&gateway.key)).json();
        (models["data"][0]["context_window"] == AFTER).then_some(())
    });
    let steps = status()["engine"]["steps"].clone();
    assert_eq!(ask(702).code(), "context_length_exceeded");
    assert_eq!(status()["engine"]["steps"], steps, "a refused prompt took a step");
    assert_eq!(ask(511).status(), 200, "exactly the window");
    assert_eq!(ask(512).code(), "context_length_exceeded", "one token more");

    gateway.stop.send(()).unwrap();
    runtime.block_on(gateway.served).unwrap();
    control.stop();
    engine.join().unwrap();
}
