//! A real server, started from the real binary, with all that it said.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::http;
use crate::process::Process;
use crate::wait;

/// From the start of the process to its `ready` line, at most.
const READY_MAX: Duration = Duration::from_secs(120);
/// A running server learns of a new key within a second; twenty times that, for a busy machine.
const KEY_MAX: Duration = Duration::from_secs(20);

/// What the test model is called.
pub const MODEL: &str = "smollm2-135m-instruct";

/// What the gateway and engine of [`Services`] share.
pub const WIRE_KEY: [u8; 32] = [7; 32];

/// The model's file, as `./check` sets it.
///
/// # Panics
/// When `BULKHEAD_TEST_MODEL` is unset: a test that needs the model must not pass without it.
#[must_use]
pub fn test_model() -> PathBuf {
    let path = std::env::var_os("BULKHEAD_TEST_MODEL")
        .expect("BULKHEAD_TEST_MODEL must name the demo model's file; ./check fetches it and sets this");
    let path = PathBuf::from(path);
    assert!(path.is_file(), "BULKHEAD_TEST_MODEL names {}, which is no file", path.display());
    path
}

/// A data folder, and the binary to run on it.
#[derive(Debug)]
pub struct Home {
    binary: PathBuf,
    folder: TempDir,
    /// The database of tenants and keys; else they lie in the folder.
    store: Option<String>,
    /// The Redis server where limits are counted together; else they are counted by each gateway.
    limits: Option<String>,
}

impl Home {
    /// A fresh folder for `binary`.
    ///
    /// # Panics
    /// When none can be made.
    #[must_use]
    pub fn new(binary: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { binary: PathBuf::from(binary), folder, store: None, limits: None }
    }

    /// The same, with tenants and keys in this PostgreSQL database.
    #[must_use]
    pub fn with_store(self, address: String) -> Self {
        Self { store: Some(address), ..self }
    }

    /// The same, counting limits together with others at this Redis server.
    #[must_use]
    pub fn with_limits(self, address: String) -> Self {
        Self { limits: Some(address), ..self }
    }

    /// The data folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A command on this folder; logs say everything.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).arg("--data").arg(self.path()).args(["--log-level", "debug"]);
        if let Some(address) = &self.store {
            command.env("BULKHEAD_STORE_URL", address);
        }
        if let Some(address) = &self.limits {
            command.env("BULKHEAD_LIMITS_URL", address);
        }
        command
    }

    /// Runs a command to its end.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// Runs a command that must succeed and answer in JSON.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {} {errors}", output.status);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error} {errors}"))
    }

    /// Makes a tenant and a key for it; returns the key.
    ///
    /// # Panics
    /// When the command refuses.
    #[must_use]
    pub fn key(&self, tenant: &str) -> String {
        let made = self.json(&["tenant", "create", tenant, "--json"]);
        assert_eq!(made["name"], tenant);
        let key = self.json(&["key", "create", "--tenant", tenant, "--json"]);
        key["key"].as_str().expect("a key").to_owned()
    }

    /// Puts the test model into the data folder, as a pull would; returns its path there.
    ///
    /// # Panics
    /// When that cannot be done.
    pub fn place_model(&self) -> PathBuf {
        let models = self.path().join("models");
        std::fs::create_dir_all(&models).expect("a folder for models");
        let place = models.join(format!("{MODEL}.gguf"));
        if !place.exists() {
            std::os::unix::fs::symlink(test_model(), &place).expect("a link to the model");
        }
        place
    }

    /// Starts `bulkhead up` on free ports with the test model, and waits for `ready`.
    ///
    /// # Panics
    /// When it does not get ready.
    #[must_use]
    pub fn up(&self, more: &[&str]) -> Server {
        let mut command = self.command(&["up", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command.args(more);
        self.place_model();
        let process = Process::start(&mut command, READY_MAX, |line| line == "ready");
        let (address, admin) = (process.address_after("base URL:"), process.address_after("admin:"));
        Server { key: process.after("key:"), address, admin, process }
    }
}

/// A running server. Dropped, it is killed, and its engine ends with it.
#[derive(Debug)]
pub struct Server {
    /// Where clients connect.
    pub address: SocketAddr,
    /// Where status and metrics are.
    pub admin: SocketAddr,
    /// The demo tenant's key.
    pub key: String,
    /// The process.
    pub process: Process,
}

impl Server {
    /// A chat request with the demo key.
    #[must_use]
    pub fn chat(&self, body: &Value) -> http::Answer {
        http::post(self.address, "/v1/chat/completions", &self.key, body)
    }

    /// Waits until the server lets this key in.
    ///
    /// # Panics
    /// When it does not within `KEY_MAX`.
    pub fn knows(&self, key: &str) {
        knows(self.address, key);
    }

    /// What `/status` of the admin listener says now.
    #[must_use]
    pub fn status(&self) -> Value {
        http::get(self.admin, "/status", None).json()
    }
}

/// Gateway and engine as services of their own, so that the engine can be another one for each request.
#[derive(Debug)]
pub struct Services<'a> {
    home: &'a Home,
    address: SocketAddr,
    admin: SocketAddr,
    gateway: Process,
}

/// An engine as a service of its own.
#[derive(Debug)]
pub struct EngineService(Process);

impl<'a> Services<'a> {
    /// Starts the gateway; no engine is there yet.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn gateway(home: &'a Home) -> Self {
        Self::started(home, &[], "admin:")
    }

    /// The same, with the Admin API, and with these limits.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn gateway_with_api(home: &'a Home, policy: &str) -> Self {
        let file = home.path().join("limits-of-the-test.toml");
        std::fs::write(&file, policy).expect("a policy");
        let policy = file.to_str().expect("a name of text");
        Self::started(home, &["--api", "127.0.0.1:0", "--policy", policy], "admin API:")
    }

    /// The same, with these arguments more, the Admin API's address among them.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn gateway_with(home: &'a Home, more: &[&str]) -> Self {
        Self::started(home, more, "admin API:")
    }

    fn started(home: &'a Home, more: &[&str], last: &str) -> Self {
        let run = home.path().join("run");
        DirBuilder::new().recursive(true).mode(0o700).create(&run).expect("a folder for the socket");
        let key = run.join("wire.key");
        std::fs::write(&key, WIRE_KEY).expect("a wire key");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("a private wire key");
        let mut command = home.command(&["gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command.args(more);
        command.arg("--model").arg(home.place_model());
        command.arg("--engine-socket").arg(run.join("engine.sock")).arg("--wire-key-file").arg(&key);
        let gateway = Process::start(&mut command, READY_MAX, |line| line.starts_with(last));
        let (address, admin) = (gateway.address_after("base URL:"), gateway.address_after("admin:"));
        Self { home, address, admin, gateway }
    }

    /// Where clients connect.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where status and metrics are.
    #[must_use]
    pub const fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Where the Admin API is, in a gateway that serves it.
    ///
    /// # Panics
    /// When it does not.
    #[must_use]
    pub fn api(&self) -> SocketAddr {
        self.gateway.address_after("admin API:")
    }

    /// All that the gateway wrote so far, on both streams.
    #[must_use]
    pub fn said(&self) -> String {
        self.gateway.said()
    }

    /// Starts a fresh engine and waits until the gateway would answer.
    ///
    /// # Panics
    /// When it does not get ready.
    #[must_use]
    pub fn engine(&self, more: &[&str]) -> EngineService {
        let run = self.home.path().join("run");
        let mut command = self.home.command(&["engine"]);
        command.arg("--model").arg(self.home.place_model()).arg("--socket").arg(run.join("engine.sock"));
        command.arg("--wire-key-file").arg(run.join("wire.key")).args(more);
        let engine = Process::start(&mut command, READY_MAX, |line| line.starts_with('{'));
        wait::until("link to the engine", READY_MAX, || {
            (http::get(self.admin, "/readyz", None).status() == 200).then_some(())
        });
        EngineService(engine)
    }

    /// Waits until the gateway lets this key in.
    ///
    /// # Panics
    /// When it does not within `KEY_MAX`.
    pub fn knows(&self, key: &str) {
        knows(self.address, key);
    }

    /// A chat request.
    #[must_use]
    pub fn chat(&self, key: &str, body: &Value) -> http::Answer {
        http::post(self.address, "/v1/chat/completions", key, body)
    }

    /// What `/status` of the admin listener says now.
    #[must_use]
    pub fn status(&self) -> Value {
        http::get(self.admin, "/status", None).json()
    }

    /// Ends the gateway, and checks that it ended well.
    ///
    /// # Panics
    /// When it did not.
    pub fn stop(mut self) {
        self.gateway.terminate();
        let (code, said) = self.gateway.wait();
        assert_eq!(code, Some(0), "{said}");
    }
}

impl EngineService {
    /// Ends it, and checks that it ended well.
    ///
    /// # Panics
    /// When it did not.
    pub fn stop(mut self) {
        self.0.terminate();
        let (code, said) = self.0.wait();
        assert_eq!(code, Some(0), "{said}");
    }
}

fn knows(address: SocketAddr, key: &str) {
    wait::until("answer to a new key", KEY_MAX, || {
        (http::get(address, "/v1/models", Some(key)).status() == 200).then_some(())
    });
}
