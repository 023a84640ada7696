//! How an audit is told: a table or one JSON document, and on standard error how far it is.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::procedure::{Audit, BeforeMiss, Event, Pace, Procedure, Reply, Step};
use super::statistics::median;
use super::verdict::{Verdict, cached_samples, rejects};
use crate::exit::Failure;
use crate::present::{self, Form};

/// What was audited, and how.
pub(crate) struct Setting<'a> {
    pub(crate) procedure: &'a Procedure,
    pub(crate) model: &'a str,
    pub(crate) seed: u64,
    pub(crate) alpha: f64,
    pub(crate) pace: Pace,
}

/// Prints what all audits found.
pub(crate) fn print(
    setting: &Setting<'_>,
    audits: &[Audit],
    verdict: Verdict,
    form: Form,
) -> Result<(), Failure> {
    match form {
        Form::Json => present::json(&json!({
            "verdict": verdict.name(),
            "why": verdict.to_string(),
            "model": setting.model,
            "seed": setting.seed,
            "alpha": setting.alpha,
            "letters": setting.procedure.letters,
            "prompt_tokens": setting.pace.fresh.prompt_tokens,
            "samples": setting.procedure.samples,
            "warm_ups": setting.procedure.warm_ups,
            "prefix_percent": setting.procedure.prefix_percent,
            "decoys": setting.procedure.before_miss == BeforeMiss::Decoy,
            "audits": audits.iter().map(|audit| audit_json(audit, setting.alpha)).collect::<Vec<_>>(),
        })),
        Form::Table => {
            let heading =
                ["LEVEL", "WARM-UPS", "D", "P", "REJECTED", "ADVANTAGE AT 99 %", "HIT", "MISS", "CACHED"];
            let rows: Vec<_> = audits.iter().map(|audit| audit_row(audit, setting.alpha)).collect();
            present::table(&heading, &rows)?;
            present::line(&format!(
                "seed {}, alpha {:e}; HIT and MISS are medians of the time to the first byte; CACHED counts answers with cached tokens, of hits and of misses",
                setting.seed, setting.alpha
            ))?;
            present::line(&verdict.to_string())
        }
    }
}

fn audit_json(audit: &Audit, alpha: f64) -> Value {
    let compared = audit.compared;
    json!({
        "level": audit.level.name(),
        "warm_ups": audit.warm_ups,
        "d": compared.d(),
        "p": compared.p(),
        "rejected": rejects(audit, alpha),
        "advantage_max": compared.advantage_max(),
        "hit": side_json(&audit.hits),
        "miss": side_json(&audit.misses),
    })
}

fn side_json(replies: &[Reply]) -> Value {
    let times = times(replies);
    let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    json!({
        "samples": replies.len(),
        "median_ms": ms(median(&times)),
        "min_ms": ms(times.iter().min().copied()),
        "max_ms": ms(times.iter().max().copied()),
        "cached_samples": cached_samples(replies),
        "cached_tokens_max": replies.iter().filter_map(|reply| reply.cached).max(),
    })
}

fn audit_row(audit: &Audit, alpha: f64) -> Vec<String> {
    let compared = audit.compared;
    let middle = |replies| median(&times(replies)).map_or_else(String::new, shown);
    vec![
        audit.level.name().to_owned(),
        audit.warm_ups.to_string(),
        format!("{:.3}", compared.d()),
        format!("{:.2e}", compared.p()),
        if rejects(audit, alpha) { "yes" } else { "no" }.to_owned(),
        format!("at most {:.3}", compared.advantage_max()),
        middle(&audit.hits),
        middle(&audit.misses),
        format!("{} / {}", cached_samples(&audit.hits), cached_samples(&audit.misses)),
    ]
}

fn times(replies: &[Reply]) -> Vec<Duration> {
    replies.iter().map(|reply| reply.first_byte).collect()
}

/// Tells what lies ahead.
pub(crate) fn announce(setting: &Setting<'_>) {
    let Setting { procedure, model, seed, pace, .. } = setting;
    say(&format!(
        "{model}: prompts of {} letters are {} tokens and take {}, {} from a cache",
        procedure.letters,
        pace.fresh.prompt_tokens,
        shown(pace.fresh.first_byte),
        shown(pace.again.first_byte)
    ));
    say(&format!(
        "3 levels, warm-ups {:?}, {} hits and {} misses each, seed {seed}: about {}",
        procedure.warm_ups,
        procedure.samples,
        procedure.samples,
        long(procedure.estimate(pace))
    ));
}

/// Shows how far the audits are: a bar for a terminal, and for everything else a line at the end of each, so that a long run that
/// is cut short has told what it had.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn start() -> Self {
        Self { bar: std::io::stderr().is_terminal().then(ProgressBar::hidden) }
    }

    /// Shows what has happened.
    pub(crate) fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Sampled(step) => self.sampled(step),
            Event::Audited(audit) => {
                let told = format!(
                    "{}, warm-ups: {}; D {:.3}, p {:.2e}",
                    audit.level.name(),
                    audit.warm_ups,
                    audit.compared.d(),
                    audit.compared.p()
                );
                match &self.bar {
                    Some(bar) => bar.suspend(|| say(&told)),
                    None => say(&told),
                }
            }
        }
    }

    fn sampled(&mut self, step: Step) {
        let Some(bar) = &mut self.bar else { return };
        if step.done == 1 {
            bar.finish_and_clear();
            let what = format!("{}, warm-ups: {}", step.level.name(), step.warm_ups);
            *bar = ProgressBar::new(u64::from(step.total)).with_message(what);
            if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {eta}") {
                bar.set_style(style.progress_chars("=> "));
            }
        }
        bar.set_position(u64::from(step.done));
    }

    /// Clears the bar.
    pub(crate) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn say(text: &str) {
    // Nobody may be listening; the audit goes on.
    drop(writeln!(std::io::stderr(), "{text}"));
}

fn shown(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn long(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=119 => format!("{seconds} s"),
        seconds @ 120..=7199 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        assert_eq!(long(Duration::from_millis(900)), "0 s");
        assert_eq!(long(Duration::from_secs(119)), "119 s");
        assert_eq!(long(Duration::from_secs(121)), "3 min");
        assert_eq!(long(Duration::from_secs(7201)), "3 h");
        assert_eq!(shown(Duration::from_micros(1234)), "1.2 ms");
    }
}
