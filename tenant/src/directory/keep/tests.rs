use std::sync::atomic::AtomicU32;
use std::sync::{Condvar, Mutex};

use super::*;
use crate::store::tests::{Bench, NOW, at};

/// A disk whose writes hang while it is told to, or fail.
#[derive(Clone, Default)]
struct Slow(Arc<State>);

#[derive(Default)]
struct State {
    hangs: Mutex<bool>,
    freed: Condvar,
    begun: AtomicU32,
    fails: Mutex<bool>,
}

impl Slow {
    fn hang(&self, hangs: bool) {
        *self.0.hangs.lock().unwrap() = hangs;
        self.0.freed.notify_all();
    }

    fn begun(&self) -> u32 {
        self.0.begun.load(Ordering::SeqCst)
    }
}

impl Medium for Slow {
    fn save(&self, snapshot: &Snapshot, path: &Path, confirmed: UnixMillis) -> io::Result<()> {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        let hangs = self.0.hangs.lock().unwrap();
        drop(self.0.freed.wait_while(hangs, |hangs| *hangs).unwrap());
        if *self.0.fails.lock().unwrap() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Disk.save(snapshot, path, confirmed)
    }

    fn confirm(&self, path: &Path, confirmed: UnixMillis) -> io::Result<()> {
        Disk.confirm(path, confirmed)
    }
}

/// Ends the hang when a test fails: its runtime waits for the thread.
struct Freed(Slow);

impl Drop for Freed {
    fn drop(&mut self) {
        self.0.hang(false);
    }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .unwrap_or_else(|_| panic!("{what} within 20 s"));
}

const OFTEN: Duration = Duration::from_millis(2);
const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn a_disk_that_hangs_holds_no_revocation_up_and_gets_them_in_one_copy() {
    let bench = Bench::sqlite().await;
    let tenant = bench.tenant("Acme").await.id;
    let mut keys = vec![];
    for _ in 0..3 {
        keys.push(bench.key(tenant).await);
    }
    let directory = Arc::new(Directory::open(&bench.store).await.unwrap());
    let copy = bench.folder.path().join("keys");
    let disk = Slow::default();
    disk.hang(true);
    let freed = Freed(disk.clone());
    let _follower = directory.follow_on(bench.store.clone(), OFTEN, Keep::At(copy.clone()), disk.clone());
    until("the first copy", || disk.begun() == 1).await;
    for (record, key) in &keys {
        bench.store.revoke_key(record.id, at(NOW)).await.unwrap();
        until("the revocation", || directory.authenticate(key.expose(), at(NOW)).is_err()).await;
    }
    assert_eq!(disk.begun(), 1, "one copy at a time");
    drop(freed);
    until("the copy without them", || {
        Directory::recall(&bench.store, &copy, DAY).is_ok_and(|copy| copy.keys() == 0)
    })
    .await;
    assert_eq!(disk.begun(), 2, "all that came meanwhile is in one copy");
}

#[tokio::test]
async fn a_copy_that_fails_is_tried_again_after_a_pause() {
    let bench = Bench::sqlite().await;
    let tenant = bench.tenant("Acme").await.id;
    let directory = Arc::new(Directory::open(&bench.store).await.unwrap());
    let copy = bench.folder.path().join("keys");
    let disk = Slow::default();
    *disk.0.fails.lock().unwrap() = true;
    let began = Instant::now();
    let _follower = directory.follow_on(bench.store.clone(), OFTEN, Keep::At(copy.clone()), disk.clone());
    until("the first try", || disk.begun() == 1).await;
    let (_, key) = bench.key(tenant).await;
    until("the directory", || directory.authenticate(key.expose(), at(NOW)).is_ok()).await;
    until("the second try", || disk.begun() == 2).await;
    assert!(began.elapsed() >= RETRY_MIN, "not at each look");
    *disk.0.fails.lock().unwrap() = false;
    until("the copy", || Directory::recall(&bench.store, &copy, DAY).is_ok_and(|copy| copy.keys() == 1))
        .await;
}

/// A start from the copy must not know a secret that rotation stopped or gave an end: the copy is made anew at once.
#[tokio::test]
async fn a_secret_that_rotation_stops_is_out_of_the_copy_at_once() {
    const SOON: Duration = KEEP_EVERY.checked_div(2).unwrap();
    let bench = Bench::sqlite().await;
    let tenant = bench.tenant("Acme").await.id;
    let (key, first) = bench.key(tenant).await;
    let directory = Arc::new(Directory::open(&bench.store).await.unwrap());
    let copy = bench.folder.path().join("keys");
    let _follower = directory.follow(bench.store.clone(), OFTEN, Keep::At(copy.clone()));
    let works = |text: &str, now: i64| {
        Directory::recall(&bench.store, &copy, DAY).is_ok_and(|copy| copy.authenticate(text, at(now)).is_ok())
    };
    until("the first copy", || works(first.expose(), NOW)).await;

    let began = Instant::now();
    let second = bench.store.rotate_key(key.id, Duration::from_secs(60), at(NOW)).await.unwrap().key;
    until("a copy that knows the end", || works(second.expose(), NOW)).await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(works(first.expose(), NOW + 59_999) && !works(first.expose(), NOW + 60_000));

    let began = Instant::now();
    bench.store.rotate_key(key.id, Duration::ZERO, at(NOW)).await.unwrap();
    until("a copy without the first", || !works(first.expose(), NOW)).await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(!works(second.expose(), NOW), "its end was the rotation");

    // The control: what takes nothing away waits for the next copy.
    let (_, other) = bench.key(tenant).await;
    until("the directory", || directory.authenticate(other.expose(), at(NOW)).is_ok()).await;
    tokio::time::sleep(OFTEN * 20).await;
    assert!(!works(other.expose(), NOW));
}

#[test]
fn pauses_double_up_to_their_bound() {
    let pauses: Vec<u64> = (1..=8).map(|failures| pause_after(failures).as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    assert_eq!(pause_after(u32::MAX), RETRY_MAX);
}
