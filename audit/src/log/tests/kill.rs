//! A process that appends, killed at any point.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use super::*;

const FOLDER: &str = "BULKHEAD_TEST_KILLED_LOG";

/// Runs itself as a process that appends from four threads and prints what was acknowledged; kills it at some point; reads on.
#[test]
fn a_kill_at_any_point_loses_nothing_that_was_acknowledged() {
    kills("log::tests::kill::a_kill_at_any_point_loses_nothing_that_was_acknowledged", 30);
}

/// As many as are asked for: `./check --soak`.
#[test]
#[ignore = "takes minutes"]
fn a_thousand_kills_lose_nothing_that_was_acknowledged() {
    kills("log::tests::kill::a_thousand_kills_lose_nothing_that_was_acknowledged", 1_000);
}

fn kills(name: &str, rounds: u32) {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return append_until_killed(Path::new(&folder));
    }
    let mut folder = tempfile::tempdir().unwrap();
    let mut acknowledged: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut total, mut cut, mut unsigned, mut seen) = (0, 0, 0, None);
    for round in 0..rounds {
        // Mostly a log that was killed before; now and then a fresh one, or each round would take longer to read.
        if round % 5 == 0 {
            folder = tempfile::tempdir().unwrap();
            total += std::mem::take(&mut acknowledged).len();
            seen = None;
        }
        for (index, mark) in one_life(name, folder.path(), round) {
            assert_eq!(acknowledged.insert(index, mark), None, "an index is given once");
        }
        // What was signed when it was killed is true, and continues what was signed before.
        let trust = Trust { seen: seen.take(), ..trust() };
        verify(folder.path(), &trust, &mut |_| {}).unwrap();
        let (log, recovered) = small(folder.path()).unwrap();
        drop(log);
        (cut, unsigned) = (cut + recovered.cut_bytes, unsigned + recovered.unsigned);
        let mut found = BTreeMap::new();
        read_leaves(folder.path(), 0, &mut |index, leaf| {
            if let Record::Refused(refused) = leaf.event {
                found.insert(index, refused.total_ms);
            }
        })
        .unwrap();
        for (index, mark) in &acknowledged {
            assert_eq!(found.get(index), Some(mark), "round {round}");
        }
        checked(folder.path());
        seen = Some(fs::read(folder.path().join("checkpoint")).unwrap());
    }
    total += acknowledged.len();
    println!("{total} acknowledged, {unsigned} leaves not signed at a kill, {cut} bytes cut");
    assert!(total > 500 && unsigned > 0, "{total} acknowledged, {unsigned} unsigned");
}

/// Index and mark of what a process that was killed had been told is safe.
fn one_life(name: &str, folder: &Path, round: u32) -> Vec<(u64, u32)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--include-ignored"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap());
    let mut lines = String::new();
    // Another moment each time: after so many acknowledged records, whatever is under way then.
    while u32::try_from(lines.matches("ok ").count()).unwrap() <= round * 37 % 251 {
        assert!(told.read_line(&mut lines).unwrap() > 0, "the child ended by itself");
    }
    child.kill().unwrap();
    told.read_to_string(&mut lines).unwrap();
    child.wait().unwrap();
    // The last line may be torn, as the pipe was.
    let lines = lines.split_inclusive('\n').filter_map(|line| line.strip_prefix("ok ")?.strip_suffix('\n'));
    let told = lines.map(|line| {
        let (index, mark) = line.split_once(' ').unwrap();
        (index.parse().unwrap(), mark.parse().unwrap())
    });
    told.collect()
}

fn append_until_killed(folder: &Path) {
    let (log, recovered) = small(folder).unwrap();
    let base = u32::try_from(recovered.leaves).unwrap();
    thread::scope(|scope| {
        for thread in 0..4_u8 {
            let log = &log;
            scope.spawn(move || {
                for count in 0.. {
                    let mark = (base + count) * 4 + u32::from(thread);
                    let tenant = Hex([thread; 16]);
                    let committed = log.append_for(tenant, &record(mark), NOW).unwrap().wait().unwrap();
                    let told = format!("ok {} {mark}\n", committed.index);
                    let mut out = io::stdout().lock();
                    // A closed pipe: the test has gone.
                    if out.write_all(told.as_bytes()).and_then(|()| out.flush()).is_err() {
                        return;
                    }
                }
            });
        }
    });
}
