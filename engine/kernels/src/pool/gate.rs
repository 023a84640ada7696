//! How a round of work is opened, entered, left and closed. Knows no task; loom runs it in every order (`./check`).
//!
//! One caller opens the gate over a job and shuts it again; workers that come meanwhile are counted in, and the caller waits
//! until as many have come out. Who comes later stays out, and nobody waits for it.

use super::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Ordering, UnsafeCell, fence, park, spin_loop, yield_now,
};
use std::ops::Range;

/// Looks at the gate before a worker begins to yield: 5 to 30 microseconds, as long as a pause instruction takes (40 to 140
/// cycles).
const SPINS: u32 = if cfg!(loom) { 0 } else { 400 };
/// Yields before a worker parks, so that an idle engine costs nothing.
const YIELDS: u32 = if cfg!(loom) { 0 } else { 200 };

/// What keeps the hand-over sound. A test takes each away, to see that loom finds its loss.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Guard {
    /// The job is written before the gate is seen open.
    Publish,
    /// The gate is shut until all who went in are out.
    AwaitLeavers,
    /// A worker asks for the end beside the round.
    EndBesideRound,
}

#[cfg(not(all(test, loom)))]
const fn lost(_: Guard) -> bool {
    false
}

#[cfg(all(test, loom))]
use tests::lost;

/// The gate counts rounds in units of this.
const ROUND: u64 = 1 << 16;
/// The gate's bit that lets workers in.
const OPEN: u64 = 1 << 15;
/// The gate's bits that count who went in; [`super::THREADS_MAX`] fits.
const INSIDE: u64 = OPEN - 1;

pub(super) struct Gate<J> {
    /// Written by the caller while the gate is shut and nobody is inside; read by workers that went through the gate.
    job: UnsafeCell<Option<J>>,
    /// Round, whether it is open, and how many workers went in: see [`ROUND`], [`OPEN`], [`INSIDE`].
    state: AtomicU64,
    next: AtomicUsize,
    /// Workers that came out again in this round.
    left: AtomicU64,
    stopping: AtomicBool,
    asleep: Vec<AtomicBool>,
}

// JUSTIFICATION: `job` is handed over without a lock, since a lock would cost more than a small task.
// SAFETY: `job` is written only by `open`, when the gate is shut and `left` has reached the number that went in, so nobody
// reads it; it is read only by workers that were counted in while the gate was open. `state` and `left` order the accesses.
unsafe impl<J: Copy + Send + Sync> Sync for Gate<J> {}

impl<J: Copy> Gate<J> {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            job: UnsafeCell::new(None),
            state: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            left: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            asleep: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Lets workers in to `job`, and names those that sleep to `wake`.
    ///
    /// # Safety
    /// One thread at a time opens, and it has shut the gate before it opens it again.
    pub(super) unsafe fn open(&self, job: J, wake: impl Fn(usize)) {
        // JUSTIFICATION: the hand-over without a lock.
        // SAFETY: the gate is shut and nobody is inside, so no worker reads the cell.
        self.job.with_mut(|place| unsafe { *place = Some(job) });
        self.next.store(0, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
        let round = self.state.load(Ordering::Relaxed) / ROUND + 1;
        let order = if lost(Guard::Publish) { Ordering::Relaxed } else { Ordering::Release };
        self.state.store(round * ROUND + OPEN, order);
        // Pairs with the one in `await_round`: either the worker sees the round, or this sees that it sleeps.
        fence(Ordering::SeqCst);
        for (index, asleep) in self.asleep.iter().enumerate() {
            if asleep.load(Ordering::Relaxed) {
                wake(index);
            }
        }
    }

    /// Lets nobody in any more, and returns when all who went in are out. A worker that the system has not let run yet stays
    /// out: its share is done, and nobody waits for it.
    pub(super) fn shut(&self) {
        let inside = self.state.fetch_and(!OPEN, Ordering::AcqRel) & INSIDE;
        wait(|| self.left.load(Ordering::Acquire) == inside || lost(Guard::AwaitLeavers));
    }

    /// The next range of tasks that nobody has taken.
    pub(super) fn take(&self, tasks: usize, grain: usize) -> Option<Range<usize>> {
        let from = self.next.fetch_add(grain, Ordering::Relaxed);
        (from < tasks).then(|| from..(from + grain).min(tasks))
    }

    /// Lets nobody take a range any more.
    pub(super) fn exhaust(&self, tasks: usize) {
        self.next.store(tasks, Ordering::Relaxed);
    }

    /// Sleeps until there is a round after `seen`; `false` when there will be none.
    pub(super) fn await_round(&self, index: usize, seen: u64) -> bool {
        // The end is asked for beside the round: a worker that comes too late into the last round has seen all there are.
        let is_stopping = || self.stopping.load(Ordering::Acquire);
        let is_over = || is_stopping() && !lost(Guard::EndBesideRound);
        let is_due = || self.state.load(Ordering::Acquire) / ROUND > seen || is_over();
        let mut looks = 0;
        while !is_due() && looks < SPINS + YIELDS {
            if looks < SPINS {
                spin_loop()
            } else {
                yield_now()
            }
            looks += 1;
        }
        while !is_due() {
            self.asleep[index].store(true, Ordering::Relaxed);
            // Looked at again after the flag is up: a caller that raised the round before saw no sleeper to wake. To miss it costs
            // this worker's help, not the round's end: the caller does what nobody does, and wakes all at the end.
            fence(Ordering::SeqCst);
            if !is_due() {
                park();
            }
            self.asleep[index].store(false, Ordering::Relaxed);
        }
        !is_stopping()
    }

    /// Which round it is, and its job for a worker that was let in; who was must [`Gate::leave`].
    pub(super) fn enter(&self) -> (u64, Option<J>) {
        let counted = |state: u64| if state & OPEN == 0 { None } else { Some(state + 1) };
        match self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, counted) {
            // JUSTIFICATION: the hand-over without a lock.
            // SAFETY: this worker was counted in while the gate was open, so the caller has written the cell and will not write
            // it again before this worker has counted itself out.
            Ok(state) => (state / ROUND, self.job.with(|job| unsafe { *job })),
            Err(state) => (state / ROUND, None),
        }
    }

    /// Counts a worker out that was let in.
    pub(super) fn leave(&self) {
        self.left.fetch_add(1, Ordering::Release);
    }

    /// Ends all rounds; each worker must be woken after.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether each worker sleeps.
    #[cfg(all(test, not(loom)))]
    pub(super) fn all_sleep(&self) -> bool {
        self.asleep.iter().all(|flag| flag.load(Ordering::SeqCst))
    }

    /// Workers that went in and have not come out.
    #[cfg(all(test, not(loom)))]
    pub(super) fn inside(&self) -> u64 {
        (self.state.load(Ordering::SeqCst) & INSIDE) - self.left.load(Ordering::SeqCst)
    }
}

fn wait(is_done: impl Fn() -> bool) {
    let mut looks = 0;
    while !is_done() {
        if looks < SPINS {
            spin_loop()
        } else {
            yield_now()
        }
        looks = looks.saturating_add(1);
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::{
        sync::{Arc, atomic::AtomicUsize as Counter},
        thread,
    };
    use std::{process::Command, sync::OnceLock};

    const GUARDS: [Guard; 3] = [Guard::Publish, Guard::AwaitLeavers, Guard::EndBesideRound];

    /// Names the guard that a process lacks.
    const LOST: &str = "BULKHEAD_LOST_GUARD";

    pub(super) fn lost(guard: Guard) -> bool {
        static NAME: OnceLock<Option<String>> = OnceLock::new();
        NAME.get_or_init(|| std::env::var(LOST).ok())
            .as_ref()
            .is_some_and(|name| *name == format!("{guard:?}"))
    }

    /// Each order, with at most this many preemptions, in which a caller opens two rounds of two tasks and ends them, beside a worker. Loom finds a read of the
    /// job that races with its writing, a worker that sleeps for ever, and a caller that waits for ever; here is asked that each
    /// task runs once, in its own round, and that nobody is inside after a round.
    fn orders(preemptions: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        let workers = 1;
        model.check(move || {
            let gate = Arc::new(Gate::<usize>::new(workers));
            let done = Arc::new([Counter::new(0), Counter::new(0), Counter::new(0), Counter::new(0)]);
            let handles: Vec<_> = (0..workers)
                .map(|index| {
                    let (gate, done) = (Arc::clone(&gate), Arc::clone(&done));
                    thread::spawn(move || {
                        let mut seen = 0;
                        while gate.await_round(index, seen) {
                            let (round, job) = gate.enter();
                            seen = round;
                            let Some(job) = job else { continue };
                            run(&gate, &done, job);
                            gate.leave();
                        }
                    })
                })
                .collect();
            for round in 0..2 {
                // SAFETY: this thread alone opens, and shuts below.
                unsafe { gate.open(round, |index| handles[index].thread().unpark()) };
                run(&gate, &done, round);
                gate.shut();
                let counts = [0, 1].map(|task| done[2 * round + task].load(Ordering::Relaxed));
                assert_eq!(counts, [1, 1], "round {round}");
            }
            gate.stop();
            for handle in handles {
                handle.thread().unpark();
                handle.join().unwrap();
            }
        });
    }

    fn run(gate: &Gate<usize>, done: &[Counter; 4], round: usize) {
        while let Some(tasks) = gate.take(2, 1) {
            for task in tasks {
                done[2 * round + task].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn loom_a_round_ends_in_every_order() {
        orders(3);
    }

    /// In processes of their own: a checker that has found a hang cannot always unwind.
    #[test]
    fn loom_finds_each_guard_that_is_lost() {
        let program = std::env::current_exe().unwrap();
        let run = |name: &str| {
            let test = ["--exact", "pool::gate::tests::loom_a_round_ends_in_every_order"];
            Command::new(&program).args(test).env(LOST, name).output().unwrap()
        };
        for guard in GUARDS {
            let output = run(&format!("{guard:?}"));
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            assert!(said.contains("running 1 test"), "nothing ran without {guard:?}: {said}");
            assert!(!output.status.success(), "nobody noticed the loss of {guard:?}");
        }
    }
}
