//! What a witness remembers, whatever happens to it.

use std::fs;

use super::*;

fn what_was_cosigned_is_known_after_a_restart() {
    let mut rig = Rig::new();
    let mut old = 0;
    for size in [3, 4, 100] {
        assert_eq!(rig.add(&rig.log.request(old, size)).status, 200);
        // As a kill right after the answer leaves it: nothing is written at the end of a life.
        rig.open().unwrap();
        assert_eq!(rig.known(), size);
        old = size;
    }
    assert_eq!(
        rig.add(&Log::new(2, 120).request(0, 110)).status,
        409,
        "a fork is refused by the next life too"
    );
}

#[test]
fn a_restart_forgets_nothing() {
    what_was_cosigned_is_known_after_a_restart();
}

#[test]
fn control_a_cosignature_before_the_write_is_seen() {
    assert!(fault::is_noticed(Fault::ToldEarly, what_was_cosigned_is_known_after_a_restart));
}

/// A disk that fails before or after the file is in its place: nothing is cosigned, and nothing more until a restart reads what is there.
fn a_failed_write_ends_it() {
    for is_in_place in [false, true] {
        let mut rig = Rig::new();
        assert_eq!(rig.add(&rig.log.request(0, 5)).status, 200);
        rig.witness.as_mut().unwrap().states.replace_by(Box::new(move |path, bytes| {
            if is_in_place {
                fs::write(path, bytes)?;
            }
            Err(io::ErrorKind::Other.into())
        }));
        assert_eq!(rig.add(&rig.log.request(5, 9)).status, 500);
        for (old, size) in [(5, 9), (5, 5), (9, 9), (0, 9)] {
            assert_eq!(rig.add(&rig.log.request(old, size)).status, 500, "{old} to {size}");
        }
        rig.open().unwrap();
        assert_eq!(rig.known(), if is_in_place { 9 } else { 5 }, "it may know more than it told, never less");
    }
}

#[test]
fn after_a_write_that_failed_nothing_is_cosigned() {
    a_failed_write_ends_it();
}

#[test]
fn control_a_witness_that_goes_on_after_a_failed_write_is_seen() {
    assert!(fault::is_noticed(Fault::FailureForgotten, a_failed_write_ends_it));
}

fn no_state_is_not_an_empty_state() {
    let mut rig = Rig::new();
    assert_eq!(rig.add(&rig.log.request(0, 30)).status, 200);
    let good = fs::read(rig.state()).unwrap();
    let foreign = Log::signed_by(LogKey::generate("log.example/1").unwrap(), 1, 9).checkpoint(3);
    let mut damaged = good.clone();
    damaged[16] ^= 1;
    let other = checkpoint::sign(&LogKey::generate("log.example/2").unwrap(), rig.log.head(3)).unwrap();
    for wrong in [vec![], good[..good.len() - 1].to_vec(), damaged, foreign, other, vec![b'x'; 70_000]] {
        fs::write(rig.state(), &wrong).unwrap();
        assert!(matches!(rig.open(), Err(WitnessError::State { .. })), "{} bytes", wrong.len());
    }
    fs::write(rig.state(), good).unwrap();
    rig.open().unwrap();
    assert_eq!(rig.known(), 30);
}

#[test]
fn a_state_that_cannot_be_read_is_no_beginning() {
    no_state_is_not_an_empty_state();
}

#[test]
fn control_a_state_that_is_taken_for_none_is_seen() {
    assert!(fault::is_noticed(Fault::StateForgotten, no_state_is_not_an_empty_state));
}

fn a_state_that_is_gone() {
    let mut rig = Rig::new();
    assert_eq!(rig.add(&rig.log.request(0, 30)).status, 200);
    rig.witness = None;
    fs::remove_file(rig.state()).unwrap();
    let refused = rig.open().unwrap_err();
    assert!(refused.to_string().contains("log.example/1 was watched"), "{refused}");
}

#[test]
fn a_state_that_is_gone_is_no_beginning() {
    a_state_that_is_gone();
}

#[test]
fn control_a_state_that_is_not_missed_is_seen() {
    assert!(fault::is_noticed(Fault::StateMissed, a_state_that_is_gone));
}

#[test]
fn one_process_is_a_witness_and_a_log_has_one_key() {
    let rig = Rig::new();
    let again = |keys| Witness::open(rig.folder.path(), witness_key(), keys);
    assert!(matches!(again(vec![log_key().public()]), Err(WitnessError::Locked)));
    let folder = tempfile::tempdir().unwrap();
    let open = |key, keys| Witness::open(folder.path(), key, keys);
    let two = vec![log_key().public(), log_key().public()];
    assert!(matches!(open(witness_key(), two), Err(WitnessError::TwoKeys(_))));
    assert!(matches!(open(log_key(), vec![]), Err(WitnessError::Kind)));
    assert!(matches!(open(witness_key(), vec![witness_key().public()]), Err(WitnessError::Kind)));
    let many = vec![log_key().public(); LOGS_MAX + 1];
    assert!(matches!(open(witness_key(), many), Err(WitnessError::Logs { asked: 1_025 })));
}

/// Many at once: what each was answered is the beginning of what is known after all.
#[test]
fn of_many_at_once_each_gets_a_true_answer() {
    let mut rig = Rig::new();
    let shared = &rig;
    let most = std::thread::scope(|scope| {
        let asks = (0..8_u64).map(|thread| {
            scope.spawn(move || {
                let mut most = 0;
                for round in 0..40 {
                    let (size, old) = (1 + round * 7 + thread, shared.known());
                    if shared.add(&shared.log.request(old, size)).status == 200 {
                        assert!(size >= old && size >= most);
                        most = size;
                    }
                }
                most
            })
        });
        asks.collect::<Vec<_>>().into_iter().map(|ask| ask.join().unwrap()).max().unwrap()
    });
    assert_eq!(rig.known(), most);
    rig.open().unwrap();
    assert_eq!(rig.known(), most);
}
