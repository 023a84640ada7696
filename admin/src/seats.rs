//! How many connections one address may have at the same time.

use core::net::IpAddr;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tenant::network;

use crate::fault::{Fault, seeded};

/// Connections of one address at the same time, or of one /64 of IPv6. Further ones are closed at once.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 64;

/// All that are taken. As many as there are connections, each of which has its place among all.
#[derive(Default)]
pub(crate) struct Seats {
    held: Mutex<HashMap<IpAddr, usize>>,
}

/// A connection's place among those of its address; given back on drop.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    address: IpAddr,
}

impl Seat {
    /// A place; none while the address has as many as it may.
    pub(crate) fn take(seats: &Arc<Seats>, from: IpAddr) -> Option<Self> {
        let address = network(from);
        let mut held = seats.held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.get(&address).copied().unwrap_or_default();
        if own >= CONNECTIONS_PER_ADDRESS_MAX && !seeded(Fault::SeatsUnbounded) {
            return None;
        }
        held.insert(address, own.saturating_add(1));
        Some(Self { seats: Arc::clone(seats), address })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut held = self.seats.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = held.get_mut(&self.address) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                held.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_seats_and_gives_them_back() {
        let seats = Arc::<Seats>::default();
        let take = |from: &str| Seat::take(&seats, from.parse().unwrap());
        let mut own: Vec<_> = (0..CONNECTIONS_PER_ADDRESS_MAX).map(|_| take("192.0.2.1").unwrap()).collect();
        assert!(take("192.0.2.1").is_none() && take("::ffff:192.0.2.1").is_none());
        let other = take("192.0.2.2");
        assert!(other.is_some(), "another address");
        own.pop();
        own.push(take("192.0.2.1").expect("one was given back"));
        assert!(take("192.0.2.1").is_none());
        let network: Vec<_> =
            (0..CONNECTIONS_PER_ADDRESS_MAX).map(|host| take(&format!("2001:db8::{host:x}"))).collect();
        assert!(network.iter().all(Option::is_some) && take("2001:db8::ffff").is_none(), "one /64");
        drop((own, other, network));
        assert!(seats.held.lock().unwrap().is_empty(), "nobody is remembered who has none");
    }
}
