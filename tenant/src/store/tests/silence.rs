//! A server that takes connections and says nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
    /// What the server may say before it falls silent by itself.
    left: Arc<AtomicUsize>,
    /// Connections that were made, and of them those that never say anything again.
    made: Arc<AtomicUsize>,
    lost: Arc<AtomicUsize>,
}

/// What a connection is, and what may befall it.
#[derive(Clone)]
struct Fate {
    number: usize,
    is_mute: Arc<AtomicBool>,
    lost: Arc<AtomicUsize>,
    left: Arc<AtomicUsize>,
}

impl Fate {
    fn is_silent(&self) -> bool {
        self.is_mute.load(Ordering::SeqCst) || self.number < self.lost.load(Ordering::SeqCst)
    }
}

impl Line {
    fn to(server: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let is_mute = Arc::new(AtomicBool::new(server.is_none()));
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let (made, lost) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (mute, count, gone) = (Arc::clone(&is_mute), Arc::clone(&made), Arc::clone(&lost));
        let may_say = Arc::clone(&left);
        thread::spawn(move || {
            let mut kept = vec![];
            for client in listener.incoming().map_while(Result::ok) {
                if let Some(server) = server {
                    let far = TcpStream::connect(server).unwrap();
                    let number = count.fetch_add(1, Ordering::SeqCst);
                    let (is_mute, lost) = (Arc::clone(&mute), Arc::clone(&gone));
                    let fate = Fate { number, is_mute, lost, left: Arc::clone(&may_say) };
                    let all = Arc::new(AtomicUsize::new(usize::MAX));
                    let there = Fate { left: all, ..fate.clone() };
                    carry(client.try_clone().unwrap(), far.try_clone().unwrap(), there);
                    carry(far, client.try_clone().unwrap(), fate);
                }
                kept.push(client);
            }
        });
        Self { address, is_mute, left, made, lost }
    }

    /// Falls silent after so many bytes of the server's.
    fn mute_after(&self, bytes: usize) {
        self.left.store(bytes, Ordering::SeqCst);
    }

    fn speak(&self) {
        self.left.store(usize::MAX, Ordering::SeqCst);
        self.is_mute.store(false, Ordering::SeqCst);
    }

    /// Speaks again, on connections that are made from here on.
    fn heal(&self) {
        self.lost.store(self.made.load(Ordering::SeqCst), Ordering::SeqCst);
        self.is_mute.store(false, Ordering::SeqCst);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, fate: Fate) {
    thread::spawn(move || {
        let mut bytes = [0; 8_192];
        while let Ok(count) = from.read(&mut bytes) {
            let may_say = fate.left.load(Ordering::SeqCst);
            let said = count.min(may_say);
            if may_say < usize::MAX {
                fate.left.store(may_say - said, Ordering::SeqCst);
                if to.write_all(&bytes[..said]).is_err() {
                    break;
                }
                if said < count {
                    fate.is_mute.store(true, Ordering::SeqCst);
                }
            }
            let said = if may_say < usize::MAX { said } else { 0 };
            while fate.is_silent() {
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

/// Whatever is asked of a server that falls silent in the midst is given up with its connection, so that others can be made.
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
        limit: None,
        base: None,
    };
    // So that each is under way when the server falls silent.
    let mut locked = bench.pool().begin().await.unwrap();
    let lock =
        "LOCK TABLE usage, usage_batches, secrets, budget_periods, budget_parts IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut *locked).await.unwrap();
    // More than the pool has connections.
    for given_up in 0..6 {
        let asked = async {
            match given_up % 5 {
                0 => store.add_usage(&batch, at(NOW)).await.map(drop),
                1 => store.note_uses(&uses).await,
                2 => store.spent(&budget, at(NOW)).await.map(drop),
                3 => store.exchange_parts("a", std::slice::from_ref(&ask), SHORT).await.map(drop),
                _ => store.wanted_parts("a").await.map(drop),
            }
        };
        let falls_silent = async {
            tokio::time::sleep(SHORT / 3).await;
            line.is_mute.store(true, Ordering::SeqCst);
        };
        let (answered, ()) = in_time("what is asked", async { tokio::join!(asked, falls_silent) }).await;
        assert!(answered.is_err(), "{given_up}");
        line.heal();
        let back = async {
            // Connections that were idle meanwhile are lost too: each costs a question.
            while store.revision().await.is_err() {}
        };
        in_time("the store", back).await;
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_counts_as_away_until_it_is_back() {
    let bench = Bench::postgres().await;
    let (store, line) = by_line(&bench).await;
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
    let (store, line) = by_line(&bench).await;
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
