//! The `bulkhead` command: parses arguments and wires the crates together; holds no rule.

fn main() {}
