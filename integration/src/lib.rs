//! Whole-system tests and benches: what they share. Tests of the house itself are in `tests/`; those that drive the real binary in `system/`.
