//! Config artifacts: parse, validate, compare, last-known-good
