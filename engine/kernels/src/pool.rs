//! Threads that stay, and share out independent tasks. Knows no numbers.
//!
//! A task's result must not depend on who runs it: work is handed out as it is asked for, so the assignment differs from call
//! to call. Reductions are therefore never split over tasks (P1).

use crate::KernelError;
use std::{
    cell::UnsafeCell,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle, Thread},
};

/// Threads that a pool may have, the caller included.
pub const THREADS_MAX: usize = 256;
/// Looks at the gate before a worker begins to yield: 5 to 30 microseconds, as long as a pause instruction takes (40 to 140
/// cycles).
const SPINS: u32 = 400;
/// Yields before a worker parks, so that an idle engine costs nothing.
const YIELDS: u32 = 200;

/// The gate counts rounds in units of this.
const ROUND: u64 = 1 << 16;
/// The gate's bit that lets workers in.
const OPEN: u64 = 1 << 15;
/// The gate's bits that count who went in; [`THREADS_MAX`] fits.
const INSIDE: u64 = OPEN - 1;

type Task<'a> = &'a (dyn Fn(Range<usize>) + Sync);

#[derive(Clone, Copy)]
struct Job {
    /// Lives as long as the `run` that set it: workers use it only before they count themselves done.
    task: Task<'static>,
    tasks: usize,
    grain: usize,
}

struct Shared {
    /// Written by the caller while the gate is shut and nobody is inside; read by workers that went through the gate.
    job: UnsafeCell<Option<Job>>,
    /// Round, whether it is open, and how many workers went in: see [`ROUND`], [`OPEN`], [`INSIDE`].
    gate: AtomicU64,
    next: AtomicUsize,
    /// Workers that came out again in this round.
    left: AtomicU64,
    panicked: AtomicBool,
    stopping: AtomicBool,
    asleep: Vec<AtomicBool>,
}

// JUSTIFICATION: `job` is handed over without a lock, since a lock would cost more than a small task.
// SAFETY: `job` is written only in `Pool::run`, when the gate is shut and `left` has reached the number that went in, so nobody
// reads it; it is read only by workers that were counted in while the gate was open. Gate and `left` order the accesses. `Job`
// holds a `Sync` closure and numbers.
unsafe impl Sync for Shared {}
// JUSTIFICATION: as above: the cell moves to the workers inside an `Arc`.
// SAFETY: as above.
unsafe impl Send for Shared {}

/// A fixed number of threads: the caller and workers that spin briefly, then yield, then sleep.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<(JoinHandle<()>, Thread)>,
}

impl Pool {
    /// A pool of `threads` threads, the caller included; 1 to [`THREADS_MAX`].
    ///
    /// # Errors
    /// When the count is out of range or a thread cannot be started.
    pub fn new(threads: usize) -> Result<Self, KernelError> {
        if threads == 0 || threads > THREADS_MAX {
            return Err(KernelError::Shape { what: "threads", found: threads, wanted: THREADS_MAX });
        }
        let workers = threads - 1;
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(None),
            gate: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            left: AtomicU64::new(0),
            panicked: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            asleep: (0..workers).map(|_| AtomicBool::new(false)).collect(),
        });
        let mut pool = Self { shared: Arc::clone(&shared), workers: Vec::with_capacity(workers) };
        for index in 0..workers {
            let shared = Arc::clone(&shared);
            let handle = thread::Builder::new()
                .name(format!("kernel-{index}"))
                .spawn(move || work(&shared, index))
                .map_err(|_| KernelError::NoThread { index })?;
            let thread = handle.thread().clone();
            pool.workers.push((handle, thread));
        }
        Ok(pool)
    }

    /// How many threads there are, the caller included.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` with ranges that together cover `0..tasks`, each at most `grain` long, and returns when all are done.
    ///
    /// # Errors
    /// [`KernelError::WorkerPanicked`]: what the tasks should have written is void.
    pub fn run(
        &mut self,
        tasks: usize,
        grain: usize,
        task: &(dyn Fn(Range<usize>) + Sync),
    ) -> Result<(), KernelError> {
        let grain = grain.max(1);
        if self.workers.is_empty() || tasks <= grain {
            let alone = catch_unwind(AssertUnwindSafe(|| task(0..tasks)));
            return alone.map_err(|_| KernelError::WorkerPanicked);
        }
        let shared = &*self.shared;
        // JUSTIFICATION: workers outlive the call, the closure does not, and scoped threads would be started for each call.
        // SAFETY: this function does not return before the gate is shut and all who went in have left, and a worker touches the
        // job only between the two; so the closure is not used after its true lifetime.
        let task_for_ever = unsafe { std::mem::transmute::<Task<'_>, Task<'static>>(task) };
        // JUSTIFICATION: the hand-over without a lock.
        // SAFETY: the gate is shut and nobody is inside (each call ends so), so no worker reads the cell.
        unsafe { *shared.job.get() = Some(Job { task: task_for_ever, tasks, grain }) };
        shared.next.store(0, Ordering::Relaxed);
        shared.left.store(0, Ordering::Relaxed);
        let round = shared.gate.load(Ordering::Relaxed) / ROUND + 1;
        shared.gate.store(round * ROUND + OPEN, Ordering::SeqCst);
        for ((_, thread), asleep) in self.workers.iter().zip(&shared.asleep) {
            if asleep.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        let own = catch_unwind(AssertUnwindSafe(|| take(shared, task, tasks, grain)));
        if own.is_err() {
            shared.panicked.store(true, Ordering::Relaxed);
            shared.next.store(tasks, Ordering::Relaxed);
        }
        // A worker that the system has not let run yet stays out: its share is done, and nobody waits for it.
        let inside = shared.gate.fetch_and(!OPEN, Ordering::AcqRel) & INSIDE;
        wait(|| shared.left.load(Ordering::Acquire) == inside);
        if shared.panicked.swap(false, Ordering::Relaxed) {
            return Err(KernelError::WorkerPanicked);
        }
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.gate.fetch_add(ROUND, Ordering::SeqCst);
        for (handle, thread) in self.workers.drain(..) {
            thread.unpark();
            // A worker catches panics of tasks, so it ends by itself; there is nobody to tell if it did not.
            drop(handle.join());
        }
    }
}

fn take(shared: &Shared, task: Task<'_>, tasks: usize, grain: usize) {
    loop {
        let from = shared.next.fetch_add(grain, Ordering::Relaxed);
        if from >= tasks {
            return;
        }
        task(from..(from + grain).min(tasks));
    }
}

fn work(shared: &Shared, index: usize) {
    let mut seen = 0;
    loop {
        await_round(shared, index, seen);
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let (round, admitted) = go_in(shared);
        seen = round;
        if !admitted {
            continue;
        }
        // JUSTIFICATION: the hand-over without a lock.
        // SAFETY: this worker was counted in while the gate was open, so the caller has written the cell and will not write it
        // again before this worker has counted itself out.
        let job = unsafe { *shared.job.get() };
        let done = catch_unwind(AssertUnwindSafe(|| {
            if let Some(job) = job {
                take(shared, job.task, job.tasks, job.grain);
            }
        }));
        if done.is_err() {
            shared.panicked.store(true, Ordering::Relaxed);
        }
        shared.left.fetch_add(1, Ordering::Release);
    }
}

/// Which round it is, and whether this worker was let into it.
fn go_in(shared: &Shared) -> (u64, bool) {
    let counted = |gate: u64| if gate & OPEN == 0 { None } else { Some(gate + 1) };
    match shared.gate.fetch_update(Ordering::AcqRel, Ordering::Acquire, counted) {
        Ok(gate) => (gate / ROUND, true),
        Err(gate) => (gate / ROUND, false),
    }
}

/// Returns once there is a round after `seen`.
fn await_round(shared: &Shared, index: usize, seen: u64) {
    let is_due = || shared.gate.load(Ordering::SeqCst) / ROUND > seen;
    for _ in 0..SPINS {
        if is_due() {
            return;
        }
        std::hint::spin_loop();
    }
    for _ in 0..YIELDS {
        if is_due() {
            return;
        }
        thread::yield_now();
    }
    while !is_due() {
        shared.asleep[index].store(true, Ordering::SeqCst);
        // Looked at again after the flag is up: a caller that raised the round before saw no sleeper to wake.
        if !is_due() {
            thread::park();
        }
        shared.asleep[index].store(false, Ordering::SeqCst);
    }
}

fn wait(is_done: impl Fn() -> bool) {
    for _ in 0..SPINS {
        if is_done() {
            return;
        }
        std::hint::spin_loop();
    }
    while !is_done() {
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn each_task_runs_once() {
        for threads in [1, 2, 4] {
            let mut pool = Pool::new(threads).unwrap();
            for round in 0..200 {
                let tasks = round % 37;
                let counts: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
                let task = |range: Range<usize>| {
                    for i in range {
                        counts[i].fetch_add(1, Ordering::Relaxed);
                    }
                };
                pool.run(tasks, 1 + round % 5, &task).unwrap();
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn sleepers_wake() {
        let mut pool = Pool::new(3).unwrap();
        for _ in 0..3 {
            let asleep = |pool: &Pool| pool.shared.asleep.iter().all(|flag| flag.load(Ordering::SeqCst));
            while !asleep(&pool) {
                thread::yield_now();
            }
            let sum = AtomicUsize::new(0);
            pool.run(100, 1, &|range| {
                sum.fetch_add(range.sum::<usize>(), Ordering::Relaxed);
            })
            .unwrap();
            assert_eq!(sum.load(Ordering::Relaxed), 4950);
        }
    }

    #[test]
    fn a_panic_is_an_error_and_the_pool_goes_on() {
        let mut pool = Pool::new(2).unwrap();
        let failing = |range: Range<usize>| assert!(!range.contains(&50), "planted");
        assert_eq!(pool.run(100, 1, &failing), Err(KernelError::WorkerPanicked));
        assert_eq!(pool.run(10, 1, &|_| {}), Ok(()));
    }

    /// A caller does all tasks itself rather than wait for a worker that has not woken; and the next call finds it sound.
    #[test]
    fn a_call_does_not_wait_for_a_worker_that_took_no_task() {
        let mut pool = Pool::new(2).unwrap();
        let done = AtomicUsize::new(0);
        for _ in 0..1_000 {
            pool.run(2, 1, &|range| {
                done.fetch_add(range.len(), Ordering::Relaxed);
            })
            .unwrap();
        }
        assert_eq!(done.load(Ordering::Relaxed), 2_000);
        let inside = pool.shared.gate.load(Ordering::SeqCst) & INSIDE;
        assert_eq!(pool.shared.left.load(Ordering::SeqCst), inside, "a worker is left inside");
    }

    #[test]
    fn no_threads_and_too_many_are_refused() {
        assert!(Pool::new(0).is_err());
        assert!(Pool::new(THREADS_MAX + 1).is_err());
    }
}
