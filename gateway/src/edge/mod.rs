//! HTTP, by Pingora: connections, heads, bodies, and the phases of a request. The only place that names Pingora.
//!
//! Architecture invariant: holds no rule of who may ask what; it reads, hands over, and writes.

mod body;
mod client;
mod head;
mod listen;
mod phases;

pub(crate) use listen::Listener;
pub(crate) use phases::Role;
