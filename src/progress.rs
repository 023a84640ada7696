//! How long work is coming along, on standard error: a bar for a terminal, plain lines for everything else.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use ::model::fetch::{Phase, PullProgress};
use indicatif::{ProgressBar, ProgressStyle};

/// A plain line for each of so many parts of a phase.
const LINES: u64 = 4;

/// Shows the progress of one pull.
pub(crate) struct Progress {
    name: &'static str,
    phase: Option<Phase>,
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Lines {
        /// Parts of this phase that have been told.
        told: u64,
    },
}

impl Progress {
    /// Nothing is shown before the first step.
    pub(crate) fn start(name: &'static str) -> Self {
        let shown = if std::io::stderr().is_terminal() {
            Shown::Bar(ProgressBar::hidden())
        } else {
            Shown::Lines { told: 0 }
        };
        Self { name, phase: None, shown }
    }

    /// Shows one step.
    pub(crate) fn show(&mut self, step: PullProgress) {
        let is_new = self.phase != Some(step.phase);
        self.phase = Some(step.phase);
        let what = format!("{} {}", doing(step.phase), self.name);
        match &mut self.shown {
            Shown::Bar(bar) => {
                if is_new {
                    bar.finish_and_clear();
                    *bar = ProgressBar::new(step.total).with_message(what);
                    if let Ok(style) =
                        ProgressStyle::with_template("{msg} [{bar:30}] {bytes}/{total_bytes} {eta}")
                    {
                        bar.set_style(style.progress_chars("=> "));
                    }
                }
                bar.set_position(step.done.min(step.total));
            }
            Shown::Lines { told } => {
                if is_new {
                    *told = 0;
                }
                let part =
                    step.done.saturating_mul(LINES).checked_div(step.total).unwrap_or(LINES).min(LINES);
                // Checking what is there already is short; its end is enough.
                let due = part > *told && (step.phase != Phase::Verify || part == LINES);
                if due {
                    *told = part;
                    let percent = part.saturating_mul(100).checked_div(LINES).unwrap_or(100);
                    // Nobody may be listening; the pull goes on.
                    drop(writeln!(std::io::stderr(), "{what}: {percent} % of {} MB", step.total / 1_000_000));
                }
            }
        }
    }

    /// Clears the bar.
    pub(crate) fn end(self) {
        match self.shown {
            Shown::Bar(bar) => bar.finish_and_clear(),
            Shown::Lines { .. } => {}
        }
    }
}

/// Seconds between plain lines about what is counted.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows how much of something that is counted is done.
pub(crate) struct Counted {
    what: &'static str,
    bar: Option<ProgressBar>,
    told: Instant,
}

impl Counted {
    /// Nothing is shown of what is done at once.
    pub(crate) fn start(what: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0).with_message(what);
            match ProgressStyle::with_template("{msg} [{bar:30}] {human_pos}/{human_len} {per_sec} {eta}") {
                Ok(style) => bar.with_style(style.progress_chars("=> ")),
                Err(_) => bar,
            }
        });
        Self { what, bar, told: Instant::now() }
    }

    /// Shows that so much of all is done.
    pub(crate) fn show(&mut self, done: u64, all: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(all);
            bar.set_position(done);
        } else if self.told.elapsed() >= LINE_EVERY {
            self.told = Instant::now();
            // Nobody may be listening; the work goes on.
            drop(writeln!(std::io::stderr(), "{}: {done} of {all}", self.what));
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

const fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::Verify => "checking",
        Phase::Download => "downloading",
        Phase::Write => "writing and checking",
    }
}
