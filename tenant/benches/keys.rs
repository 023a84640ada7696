//! What a million keys cost: memory, starts, and the time to authenticate, alone and beside a flood of keys that do not work.
//!
//! Run it with `cargo bench -p tenant --bench keys`. Memory is the growth of the resident set, divided by the
//! keys; what the reading took and the allocator kept is in it. It needs a
//! gigabyte of disk in the folder of temporary files.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench: to fail is its right"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use policies::WindowCap;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tenant::{
    Concurrency, Directory, Expiry, Keep, KeyLimits, KeySpec, Mode, Name, Pepper, Project, Purpose, Scopes,
    Store, UnixMillis,
};

const KEYS: u32 = 1_000_000;
/// Keys whose secrets are known, so that they can be presented.
const REAL: usize = 500;
const LOOKS: usize = 200_000;
const DAY: Duration = Duration::from_secs(86_400);

fn now() -> UnixMillis {
    UnixMillis::from_system(SystemTime::now())
}

/// Bytes of the resident set.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4_096
}

async fn open(folder: &Path) -> Store {
    let pepper = Pepper::load_or_create(&folder.join("pepper.key")).unwrap();
    Store::open(&folder.join("tenants.db"), pepper).await.unwrap()
}

/// Makes a few keys as they are made, and the rest as copies of one under other names: those do not authenticate.
async fn fill(folder: &Path) -> Vec<String> {
    let store = open(folder).await;
    let tenant = store.create_tenant(Name::new("acme").unwrap(), now()).await.unwrap().id;
    let project = store.find_project(tenant, Project::DEFAULT).await.unwrap().unwrap().id;
    let mut keys = vec![];
    for _ in 0..REAL {
        let spec = KeySpec {
            name: Name::new("key").unwrap(),
            purpose: Purpose::Service { tenant, project, mode: Mode::Live, scopes: Scopes::default() },
            limits: KeyLimits { window_cap: WindowCap::Inherit, concurrency: Concurrency::Inherit },
            expires: Expiry::Never,
        };
        keys.push(store.create_key(spec, now()).await.unwrap().1.expose().clone());
    }
    store.close().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.join("tenants.db"));
    let mut file: SqliteConnection = options.connect().await.unwrap();
    let rest = i64::from(KEYS) - REAL as i64;
    for sql in [
        "INSERT INTO api_keys SELECT printf('k%011d', i), kind, tenant, project, role, name, scopes, window_cap, concurrency,
             expires_ms, created_ms, revoked_ms, revision
         FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) SELECT i FROM n)
         CROSS JOIN (SELECT * FROM api_keys LIMIT 1)",
        "INSERT INTO secrets SELECT k.id, 1, s.pepper_version, s.digest, s.created_ms, NULL, NULL
         FROM api_keys k CROSS JOIN (SELECT * FROM secrets LIMIT 1) s WHERE k.id LIKE 'k00%' AND length(k.id) > $1 * 0
           AND NOT EXISTS (SELECT 1 FROM secrets o WHERE o.key = k.id)",
    ] {
        sqlx::query(sql).bind(rest).execute(&mut file).await.unwrap();
    }
    file.close().await.unwrap();
    keys
}

/// Median, 99th and 99.9th percentile of authenticating known keys, in nanoseconds.
fn looks(directory: &Directory, keys: &[String], works: bool) -> [u64; 3] {
    let at = now();
    let mut times: Vec<u64> = (0..LOOKS)
        .map(|look| {
            let key = &keys[look % keys.len()];
            let began = Instant::now();
            let answer = directory.authenticate(key, at);
            let took = began.elapsed();
            assert_eq!(answer.is_ok(), works);
            took.as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    [times.len() / 2, times.len() * 99 / 100, times.len() * 999 / 1_000].map(|place| times[place])
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let keys = fill(folder.path()).await;
    println!("a store of {KEYS} keys: {:.1} s to make", began.elapsed().as_secs_f64());
    let store = open(folder.path()).await;

    let (before, began) = (resident(), Instant::now());
    let directory = Arc::new(Directory::open(&store).await.unwrap());
    println!("start from the store: {:.2} s, {} keys", began.elapsed().as_secs_f64(), directory.keys());
    println!("memory after it: {} bytes a key", (resident() - before) / u64::from(KEYS));

    let copy = folder.path().join("keys.copy");
    let began = Instant::now();
    let follower = directory.follow(store.clone(), Duration::from_millis(10), Keep::At(copy.clone()));
    while !copy.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(follower);
    let bytes = std::fs::metadata(&copy).unwrap().len();
    println!("the copy: {:.2} s to write, {} MB", began.elapsed().as_secs_f64(), bytes / 1_000_000);
    drop(directory);

    let began = Instant::now();
    let directory = Arc::new(Directory::recall(&store, &copy, DAY).unwrap());
    println!("start from the copy: {:.2} s", began.elapsed().as_secs_f64());

    let say = |what: &str, [median, p99, p999]: [u64; 3]| {
        println!("{what}: median {median} ns, p99 {p99} ns, p99.9 {p999} ns");
    };
    looks(&directory, &keys, true);
    say("a key that works", looks(&directory, &keys, true));
    let wrong: Vec<String> =
        keys.iter().zip(keys.iter().skip(1)).map(|(id, secret)| mixed(id, secret)).collect();
    say("a wrong secret", looks(&directory, &wrong, false));
    let (stop, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let flood = {
        let (directory, stop, failed) = (Arc::clone(&directory), Arc::clone(&stop), Arc::clone(&failed));
        std::thread::spawn(move || {
            let at = now();
            while !stop.load(Ordering::Relaxed) {
                for key in &wrong {
                    assert!(directory.authenticate(key, at).is_err());
                }
                failed.fetch_add(wrong.len() as u64, Ordering::Relaxed);
            }
        })
    };
    let began = Instant::now();
    let beside = looks(&directory, &keys, true);
    let rate = failed.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    flood.join().unwrap();
    say(&format!("a key that works, beside {rate:.0} failures a second on another thread"), beside);
}

/// The id of one key with the secret of another, and a checksum that holds.
fn mixed(id: &str, secret: &str) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let rest = format!("{}{}", &id[..21], &secret[21..64]);
    let mut sum = crc32fast::hash(rest.as_bytes());
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(sum % 62) as usize];
        sum /= 62;
    }
    rest + std::str::from_utf8(&digits).unwrap()
}
