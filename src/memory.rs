//! How much memory is there for the pool.

use std::path::Path;

/// Bytes that this process may still take: what the system calls available, or what its control group leaves, whichever is
/// less. `None` where neither can be read.
pub(crate) fn available_bytes() -> Option<u64> {
    let system = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo_available(&text));
    let group = group_left(Path::new("/sys/fs/cgroup"));
    match (system, group) {
        (Some(system), Some(group)) => Some(system.min(group)),
        (one, other) => one.or(other),
    }
}

fn meminfo_available(text: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What the limit of the control group leaves; `None` for a group without a limit.
fn group_left(folder: &Path) -> Option<u64> {
    let number = |name: &str| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_available_figure_is_read_in_bytes() {
        let text = "MemTotal: 100 kB\nMemAvailable:      23576 kB\nBuffers: 1 kB\n";
        assert_eq!(meminfo_available(text), Some(23576 * 1024));
        assert_eq!(meminfo_available("MemTotal: 100 kB\n"), None);
    }

    #[test]
    fn a_group_without_a_limit_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("memory.current", "30\n");
        write("memory.max", "max\n");
        assert_eq!(group_left(folder.path()), None);
        write("memory.max", "100\n");
        assert_eq!(group_left(folder.path()), Some(70));
    }
}
