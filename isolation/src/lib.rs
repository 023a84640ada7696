//! The trusted core: pages, leases, fences, scrubbing, admission and outcomes
