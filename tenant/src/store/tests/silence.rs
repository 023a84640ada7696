//! A server that takes connections and says nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
}

impl Line {
    fn to(server: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_mute = Arc::new(AtomicBool::new(server.is_none()));
        let mute = Arc::clone(&is_mute);
        thread::spawn(move || {
            let mut kept = vec![];
            for client in listener.incoming().map_while(Result::ok) {
                if let Some(server) = server {
                    let far = TcpStream::connect(server).unwrap();
                    carry(client.try_clone().unwrap(), far.try_clone().unwrap(), Arc::clone(&mute));
                    carry(far, client.try_clone().unwrap(), Arc::clone(&mute));
                }
                kept.push(client);
            }
        });
        Self { address, is_mute }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_mute: Arc<AtomicBool>) {
    thread::spawn(move || {
        let mut bytes = [0; 8_192];
        while let Ok(count) = from.read(&mut bytes) {
            while is_mute.load(Ordering::SeqCst) {
                #[expect(clippy::disallowed_methods, reason = "a thread that has nothing to wait on")]
                thread::sleep(Duration::from_millis(5));
            }
            if count == 0 || to.write_all(&bytes[..count]).is_err() {
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
    let url = bench.url.clone().unwrap();
    let (server, rest) = url.split_once('@').unwrap().1.split_once('/').unwrap();
    let server = std::net::ToSocketAddrs::to_socket_addrs(server).unwrap().next().unwrap();
    let line = Line::to(Some(server));
    let by_line = format!("{}@{}/{rest}", url.split_once('@').unwrap().0, line.address);
    let store = impatient(by_line, bench.folder.path());
    let directory = Arc::new(Directory::open(&store).await.unwrap());
    let _follower = directory.follow(store, Duration::from_millis(10), Keep::Nowhere);
    line.is_mute.store(true, Ordering::SeqCst);
    let health = || directory.health(Instant::now());
    let until = async |what: &str, condition: &dyn Fn() -> bool| {
        let wait = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        in_time(what, wait).await;
    };
    // More than the pool has connections: none of them is lost for good.
    until("the count of failures", &|| health().failures > 5).await;
    line.is_mute.store(false, Ordering::SeqCst);
    let tenant = bench.tenant("Acme").await.id;
    let (_, key) = bench.key(tenant).await;
    until("the key", &|| directory.authenticate(key.expose(), at(NOW)).is_ok()).await;
    until("the end of failures", &|| health().failures == 0).await;
}
