//! A server that takes connections and says nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::directory::{Directory, Keep};

/// Short, so that the test is; long enough for a server that answers.
const SHORT: Duration = Duration::from_millis(1_500);

/// Stands between us and a server, and swallows all that is said once it is told to.
struct Line {
    address: SocketAddr,
    is_mute: Arc<AtomicBool>,
    /// What the server may say before it falls silent by itself.
    left: Arc<AtomicUsize>,
}

impl Line {
    fn to(server: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_mute = Arc::new(AtomicBool::new(server.is_none()));
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let (mute, may_say) = (Arc::clone(&is_mute), Arc::clone(&left));
        thread::spawn(move || {
            let mut kept = vec![];
            for client in listener.incoming().map_while(Result::ok) {
                if let Some(server) = server {
                    let far = TcpStream::connect(server).unwrap();
                    let all = Arc::new(AtomicUsize::new(usize::MAX));
                    carry(client.try_clone().unwrap(), far.try_clone().unwrap(), Arc::clone(&mute), all);
                    carry(far, client.try_clone().unwrap(), Arc::clone(&mute), Arc::clone(&may_say));
                }
                kept.push(client);
            }
        });
        Self { address, is_mute, left }
    }

    /// Falls silent after so many bytes of the server's.
    fn mute_after(&self, bytes: usize) {
        self.left.store(bytes, Ordering::SeqCst);
    }

    fn speak(&self) {
        self.left.store(usize::MAX, Ordering::SeqCst);
        self.is_mute.store(false, Ordering::SeqCst);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_mute: Arc<AtomicBool>, left: Arc<AtomicUsize>) {
    thread::spawn(move || {
        let mut bytes = [0; 8_192];
        while let Ok(count) = from.read(&mut bytes) {
            let may_say = left.load(Ordering::SeqCst);
            let said = count.min(may_say);
            if may_say < usize::MAX {
                left.store(may_say - said, Ordering::SeqCst);
                if to.write_all(&bytes[..said]).is_err() {
                    break;
                }
                if said < count {
                    is_mute.store(true, Ordering::SeqCst);
                }
            }
            let said = if may_say < usize::MAX { said } else { 0 };
            while is_mute.load(Ordering::SeqCst) {
                #[expect(clippy::disallowed_methods, reason = "a thread that has nothing to wait on")]
                thread::sleep(Duration::from_millis(5));
            }
            if count == 0 || to.write_all(&bytes[said..count]).is_err() {
                break;
            }
        }
    });
}

fn impatient(url: String, folder: &Path) -> Store {
    let mut store = Store::connect_later(Secret::new(url), pepper_in(folder)).unwrap();
    store.patience = Patience { answer_max: SHORT, rows_max: SHORT, migration_max: SHORT };
    store
}

async fn in_time<T>(what: &str, waited: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), waited).await.unwrap_or_else(|_| panic!("{what} hangs"))
}

#[tokio::test]
async fn a_server_that_never_says_anything_holds_no_start_up() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("postgres://nobody@{}/none", Line::to(None).address);
    let store = impatient(url, folder.path());
    let error = in_time("the start", Directory::open(&store)).await.err().unwrap();
    let is_late = |error: &StoreError| {
        let StoreError::Database(cause) = error else { return false };
        matches!(&**cause, sqlx::Error::Io(cause) if cause.kind() == std::io::ErrorKind::TimedOut)
    };
    assert!(is_late(&error), "{error}");
    assert!(!error.to_string().contains("nobody"), "{error}");
}

#[tokio::test]
async fn a_server_that_falls_silent_counts_as_away_until_it_is_back() {
    let bench = Bench::postgres().await;
    let (line, store) = by_line(&bench);
    let directory = Arc::new(Directory::open(&store).await.unwrap());
    let _follower = directory.follow(store, Duration::from_millis(10), Keep::Nowhere);
    line.is_mute.store(true, Ordering::SeqCst);
    let health = || directory.health(Instant::now());
    // More than the pool has connections: none of them is lost for good.
    until("the count of failures", || health().failures > 5).await;
    line.speak();
    let tenant = bench.tenant("Acme").await.id;
    let (_, key) = bench.key(tenant).await;
    until("the key", || directory.authenticate(key.expose(), at(NOW)).is_ok()).await;
    until("the end of failures", || health().failures == 0).await;
}

/// A line to the bench's server, and a store that is reached by it.
fn by_line(bench: &Bench) -> (Line, Store) {
    let url = bench.url.clone().unwrap();
    let (server, rest) = url.split_once('@').unwrap().1.split_once('/').unwrap();
    let server = std::net::ToSocketAddrs::to_socket_addrs(server).unwrap().next().unwrap();
    let line = Line::to(Some(server));
    let url = format!("{}@{}/{rest}", url.split_once('@').unwrap().0, line.address);
    let store = impatient(url, bench.folder.path());
    (line, store)
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(what, wait).await;
}

/// Puts so many keys into the store, to be seen with its next change.
async fn keys_by_hand(bench: &Bench, tenant: TenantId, round: usize, count: usize) {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let project = bench.store.find_project(tenant, Project::DEFAULT).await.unwrap().unwrap().id;
    let next = bench.store.revision().await.unwrap().number + 1;
    let sql = format!(
        "INSERT INTO api_keys (id, kind, tenant, project, name, scopes, created_ms, revision)
             SELECT 'r' || lpad('{round}', 2, '0') || lpad(i::text, 9, '0'), 'live', '\\x{}'::bytea, '\\x{}'::bytea, 'key', '{{}}', 5, {next}
             FROM generate_series(1, {count}) i;
         INSERT INTO secrets (key, serial, pepper_version, digest, created_ms)
             SELECT id, 1, 1, decode(repeat('ab', 32), 'hex'), 5 FROM api_keys WHERE id LIKE 'r' || lpad('{round}', 2, '0') || '%';",
        hex(tenant.bytes()),
        hex(project.bytes())
    );
    bench.by_hand(&sql).await.unwrap();
}

/// The server falls silent within a reading: what was read is not taken over in part, and the whole is when it speaks again.
#[tokio::test]
async fn a_server_that_falls_silent_within_a_reading_is_read_anew() {
    const MORE: usize = 1_500;
    let bench = Bench::postgres().await;
    let tenant = bench.tenant("Acme").await.id;
    let (line, store) = by_line(&bench);
    let directory = Arc::new(Directory::open(&store).await.unwrap());
    let follower = directory.follow(store, Duration::from_millis(10), Keep::Nowhere);
    // From the first words of an answer to far into the rows of keys, of which there are some hundred KiB.
    for (round, bytes) in [1, 40, 300, 2_000, 20_000, 100_000].into_iter().enumerate() {
        let (revoked, key) = bench.key(tenant).await;
        until("the key", || directory.authenticate(key.expose(), at(NOW)).is_ok()).await;
        let before = directory.keys();
        keys_by_hand(&bench, tenant, round, MORE).await;
        line.mute_after(bytes);
        bench.store.revoke_key(revoked.id, at(NOW)).await.unwrap();
        until("the silence", || line.is_mute.load(Ordering::SeqCst)).await;
        until("failures", || directory.health(Instant::now()).failures > 1).await;
        assert_eq!(directory.keys(), before, "after {bytes} bytes: all or nothing is taken over");
        assert!(directory.authenticate(key.expose(), at(NOW)).is_ok(), "as the store last said");
        line.speak();
        until("the revocation", || directory.authenticate(key.expose(), at(NOW)).is_err()).await;
        assert_eq!(directory.keys(), before - 1 + MORE, "after {bytes} bytes");
        until("the end of failures", || directory.health(Instant::now()).failures == 0).await;
    }
    drop(follower);
}
