//! Waiting for what a test waits for, with a bound and a name.

use std::time::{Duration, Instant};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until `look` gives something; returns it and how long that took.
///
/// # Panics
/// When `most` has passed, with `what` was waited for.
pub fn until<T>(what: &str, most: Duration, mut look: impl FnMut() -> Option<T>) -> (T, Duration) {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return (seen, start.elapsed());
        }
        assert!(start.elapsed() < most, "after {} ms still no {what}", most.as_millis());
        #[expect(clippy::disallowed_methods, reason = "a pause between two looks at another process")]
        std::thread::sleep(PAUSE);
    }
}
