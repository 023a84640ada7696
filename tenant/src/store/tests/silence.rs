//! A server that takes connections and says nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::directory::{Directory, Keep, Use};
use crate::ledger::{
    Amounts, Batch, BudgetKind, BudgetName, Payer, Period, Slice, Thresholds, Unit, UsageRow,
};
use crate::level::{Level, ModelName, Models};
use crate::store::parts::{Grow, PartAsk};

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

/// A store on the bench's server by way of a line that can be cut.
async fn by_line(bench: &Bench) -> (Store, Line) {
    let url = bench.url.clone().unwrap();
    let (server, rest) = url.split_once('@').unwrap().1.split_once('/').unwrap();
    let server = std::net::ToSocketAddrs::to_socket_addrs(server).unwrap().next().unwrap();
    let line = Line::to(Some(server));
    let by_line = format!("{}@{}/{rest}", url.split_once('@').unwrap().0, line.address);
    (impatient(by_line, bench.folder.path()), line)
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

/// Whatever is asked of a server that falls silent in the midst is given up with its connection: when it speaks again, there are as
/// many connections as before.
#[tokio::test]
async fn what_is_given_up_keeps_no_connection() {
    let bench = Bench::postgres().await;
    let (store, line) = by_line(&bench).await;
    let tenant = bench.tenant("Acme").await.id;
    let (key, _) = bench.key(tenant).await;
    let project = bench.store.list_projects(tenant).await.unwrap()[0].id;
    let payer = Payer { tenant, project, key: key.id };
    let budget = BudgetName {
        level: Level::Tenant(tenant),
        models: Models::All,
        unit: Unit::Tokens,
        period: Period::Total,
        kind: BudgetKind::Hard,
    };
    let budget = budget.budget(100, Thresholds::NONE);
    store.set_budget(&budget, at(NOW)).await.unwrap();
    let row = UsageRow {
        hour: 0,
        payer,
        model: ModelName::new("m").unwrap(),
        amounts: Amounts { requests: 1, ..Amounts::default() },
    };
    let batch = Batch { journal: Uuid::nil(), number: 1, rows: vec![row] };
    let uses = [Use { key: key.id, digest: [0; 32], at: at(NOW), renewed: Some((1, [1; 32])) }];
    let ask = PartAsk {
        slice: Slice { line: budget.line(), start: 0 },
        epoch: 0,
        held: 0,
        version: None,
        spent: 0,
        used: 0,
        grow: Grow::AsMayBe,
        base: None,
    };
    line.is_mute.store(true, Ordering::SeqCst);
    // Each as often as there are connections, so that one that is kept by any of them is missed.
    for _ in 0..4 {
        assert!(in_time("usage", store.add_usage(&batch, at(NOW))).await.is_err());
        assert!(in_time("uses", store.note_uses(&uses)).await.is_err());
        assert!(in_time("what is spent", store.spent(&budget, at(NOW))).await.is_err());
        let asked = store.exchange_parts("a", std::slice::from_ref(&ask), at(NOW), SHORT);
        assert!(in_time("a part", asked).await.is_err());
        assert!(in_time("what is wanted", store.wanted_parts("a", at(NOW))).await.is_err());
    }
    line.is_mute.store(false, Ordering::SeqCst);
    let added = in_time("the store", async {
        loop {
            if let Ok(added) = store.add_usage(&batch, at(NOW)).await {
                return added;
            }
        }
    });
    // What was given up may have been done.
    let _added_or_before = added.await;
    in_time("the store", store.spent(&budget, at(NOW))).await.unwrap();
}

#[tokio::test]
async fn a_server_that_falls_silent_counts_as_away_until_it_is_back() {
    let bench = Bench::postgres().await;
    let (store, line) = by_line(&bench).await;
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
