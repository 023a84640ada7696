//! An append-only, hash-chained record of each request
