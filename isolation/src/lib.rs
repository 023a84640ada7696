//! The trusted core: pages, leases, fences, scrubbing, admission, evidence and outcomes.
//!
//! What keeps tenants apart is in this crate. **Architecture invariant:** no dependency, no I/O, no clock, no
//! thread, no `unsafe`; it knows no tenant's name, no text and no key.
//!
//! # A page's life
//!
//! ```text
//!                  pool                                    sequence                        device
//!   dirty ──scrub (wipe, read back)──► clean ──lease──► Lease ──include──► Access ──────► in flight
//!     ▲            └─ not blank: withdrawn              │  ▲                                 │
//!     │                                                 │  └──commit── StepReceipt ◄─────────┘
//!     └──settle (every step that named it is over)── quarantine ◄──drop, however it comes
//! ```
//!
//! # A request's life
//!
//! ```text
//!   prompt ──admit──► Bounded ──► Lease ... Evidence ──judge──► FirstToken ──► 200
//!            └──► Rejected, and nothing else          └──► IntegrityError       frame ──accept──► Verified ──► out
//! ```
//!
//! # Invariants
//!
//! Code and tests cite them by number; `tests/invariants.rs` fails on a number that lacks either.
//!
//! - **I1** A page is in one place: its token is linear, and a lease's table names no page twice or of
//!   another tenant.
//! - **I2** A page becomes clean only by a wipe that was read back; one that is not blank after it is never
//!   used again.
//! - **I3** A page leaves quarantine only when every step that named it is proved over. No time-out does it.
//! - **I4** Generations, steps and epochs rise and are never used again; unequal means refused, in release
//!   too.
//! - **I5** What a sequence wrote is readable only when the receipt of that very step has committed it.
//! - **I6** A step touches nothing beyond its bound, and its pages reach that far.
//! - **I7** A shared page is full, sealed from committed tokens, and read only from then on, by its own
//!   tenant.
//! - **I8** A prefix is one tenant's, matches token by token, and leaves the last token to compute; its tree
//!   is bounded and lets go only of what nobody reads.
//! - **I9** The window is what measured pages hold; a request enters at its full length, or leaves no trace.
//! - **I10** Every page is in exactly one state of the census, and comes home in the end.
//! - **I11** Only an engine's word that stood up to what was sent makes a 200, and only a frame whose stamp
//!   was the next one goes out.
//! - **I12** A refusal is never a success: no value, order or default is shared between them.
//! - **I13** No grant takes what another tenant's floor reserves, or goes beyond a cap; nothing is taken back
//!   for others from within a floor.
//!
//! # How this is tested
//!
//! `tests/explore.rs` walks every reachable state of small worlds and looks at what lies in memory. Each
//! guard has a [`fault::Fault`]; with the feature `seeded-faults`, `tests/faults.rs` takes away one at a time
//! and expects the walk to find it. One build holds all faults, as a switch of the test's thread; the feature
//! does not compile without debug assertions, so that no release holds them. What must not compile is a
//! `compile_fail` example beside the type.
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::as_conversions, reason = "tests compute freely")
)]

extern crate alloc;
#[cfg(any(test, feature = "seeded-faults"))]
extern crate std;

pub mod access;
pub mod admit;
pub mod evidence;
pub mod fault;
mod home;
pub mod keyed;
pub mod lease;
pub mod outcome;
pub mod page;
pub mod pool;
pub mod prefix;
pub mod quota;
pub mod share;
pub mod step;
pub mod tag;
#[cfg(test)]
mod testing;
pub mod units;
