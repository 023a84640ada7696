//! Threads that stay, and share out independent tasks. Knows no numbers.
//!
//! A task's result must not depend on who runs it: work is handed out as it is asked for, so the assignment differs from call
//! to call. Reductions are therefore never split over tasks (P1).

mod gate;
mod sync;

use crate::KernelError;
use gate::Gate;
use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle, Thread},
};

/// Threads that a pool may have, the caller included.
pub const THREADS_MAX: usize = 256;
type Task<'a> = &'a (dyn Fn(Range<usize>) + Sync);

#[derive(Clone, Copy)]
struct Job {
    /// Lives as long as the `run` that set it: workers use it only before they count themselves done.
    task: Task<'static>,
    tasks: usize,
    grain: usize,
}

struct Shared {
    gate: Gate<Job>,
    panicked: AtomicBool,
}

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
        let shared = Arc::new(Shared { gate: Gate::new(workers), panicked: AtomicBool::new(false) });
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
        let job = Job { task: task_for_ever, tasks, grain };
        // JUSTIFICATION: the hand-over without a lock.
        // SAFETY: `&mut self` makes this the one thread that opens, and it shuts the gate below whatever a task does.
        unsafe { shared.gate.open(job, |index| self.wake(index)) };
        let own = catch_unwind(AssertUnwindSafe(|| take(shared, task, tasks, grain)));
        if own.is_err() {
            shared.panicked.store(true, Ordering::Relaxed);
            shared.gate.exhaust(tasks);
        }
        shared.gate.shut();
        if shared.panicked.swap(false, Ordering::Relaxed) {
            return Err(KernelError::WorkerPanicked);
        }
        Ok(())
    }

    fn wake(&self, index: usize) {
        if let Some((_, thread)) = self.workers.get(index) {
            thread.unpark();
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.gate.stop();
        for (handle, thread) in self.workers.drain(..) {
            thread.unpark();
            // A worker catches panics of tasks, so it ends by itself; there is nobody to tell if it did not.
            drop(handle.join());
        }
    }
}

fn take(shared: &Shared, task: Task<'_>, tasks: usize, grain: usize) {
    while let Some(range) = shared.gate.take(tasks, grain) {
        task(range);
    }
}

fn work(shared: &Shared, index: usize) {
    let mut seen = 0;
    while shared.gate.await_round(index, seen) {
        let (round, job) = shared.gate.enter();
        seen = round;
        let Some(job) = job else { continue };
        let done = catch_unwind(AssertUnwindSafe(|| take(shared, job.task, job.tasks, job.grain)));
        if done.is_err() {
            shared.panicked.store(true, Ordering::Relaxed);
        }
        shared.gate.leave();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicUsize};

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
            while !pool.shared.gate.all_sleep() {
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
        assert_eq!(pool.shared.gate.inside(), 0, "a worker is left inside");
    }

    #[test]
    fn no_threads_and_too_many_are_refused() {
        assert!(Pool::new(0).is_err());
        assert!(Pool::new(THREADS_MAX + 1).is_err());
    }
}
