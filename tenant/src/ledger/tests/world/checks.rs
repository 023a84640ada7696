//! Kills, and what must hold after them and at the end.

use super::super::oracle::{Rows, store};
use super::*;

impl World<'_> {
    /// Kills the process, perhaps within a write, and starts it again on what the disk has kept.
    pub(super) fn kill(&mut self) {
        self.seen.kills += 1;
        self.hear();
        let within = (self.choose)(4);
        if within > 0 {
            // A frame is appended and never synced; or not even that.
            self.bench.medium.fail_after(usize::from(within > 1));
            if self.bench.shared.queue.len() > 0 {
                let count = 1 + (self.choose)(40);
                self.commit(count).unwrap_err();
                self.hear();
                self.bench.shared.queue.end(io::ErrorKind::StorageFull);
            }
        }
        let left = self.bench.medium.survivor(self.choose);
        // Their drops reach the old process only.
        for (client, _) in &mut self.clients {
            *client = Client::Idle;
        }
        let bounds = Bounds { tail_bytes_max: 6_000, ..Bounds::FULL };
        self.bench = Bench::open(&Source::Bytes(left), bounds).unwrap();
        let replayed = self.bench.replayed;
        self.seen.torn += usize::from(replayed.cut_bytes > 0);

        let survived = self.in_checkpoint + replayed.records as usize;
        let (mut oracle, events) = Oracle::replay(&self.events, survived);
        for id in &self.told {
            assert!(oracle.requests.contains_key(id), "a reservation that was told is lost");
        }
        for id in &self.settles_told {
            assert!(!oracle.is_open(*id), "a settlement that was told is lost");
        }
        let open = oracle.open();
        self.seen.orphans += open.len() as u64;
        assert_eq!(replayed.settled, open.len() as u64);
        self.events.truncate(events);
        self.events.extend(open.into_iter().map(|(id, used)| Event::Settle { id, used }));
        self.events.push(Event::Opened);
        (self.committed, self.in_checkpoint) = (self.events.len(), records(&self.events));
        oracle.settle_open();
        oracle.apply(&Event::Opened);
        self.settles.clear();
        self.compare(&oracle);
        assert_eq!(self.bench.shared.reservations.taken(), 0);
    }

    /// Notes the reservations and settlements of which it was said that they are on disk.
    fn hear(&mut self) {
        for (client, _) in &mut self.clients {
            *client = match std::mem::replace(client, Client::Idle) {
                Client::Waiting { id, reservation, mut ticket } => match poll_now(&mut ticket) {
                    Poll::Ready(Ok(())) => {
                        self.told.push(id);
                        Client::Running { id, reservation, marked: [0; 3] }
                    }
                    Poll::Ready(Err(_)) | Poll::Pending => Client::Waiting { id, reservation, ticket },
                },
                other @ (Client::Idle | Client::Running { .. }) => other,
            };
        }
        let settles = std::mem::take(&mut self.settles);
        for (id, mut ticket) in settles {
            match poll_now(&mut ticket) {
                Poll::Ready(Ok(())) => self.settles_told.push(id),
                Poll::Ready(Err(_)) | Poll::Pending => self.settles.push((id, ticket)),
            }
        }
    }

    pub(super) fn compare(&self, oracle: &Oracle) {
        for budget in &self.budgets {
            for tenant in [1, 2].map(|tenant| payer(tenant, 1, 0).tenant) {
                let is_foreign = match budget.level {
                    Level::Tenant(other) => other != tenant,
                    Level::Project(project) => {
                        payer(1, 1, 0).project != project || tenant != payer(1, 1, 0).tenant
                    }
                    Level::Key(key) => key.as_str()[3..7] != format!("{:04}", tenant.0.as_u128()),
                };
                if !is_foreign {
                    let held = self.bench.sum(tenant, budget, at_millis(self.now));
                    assert_eq!(held, oracle.sum(budget, self.now), "{budget:?}");
                }
            }
        }
        assert_eq!(
            self.bench.shared.backlog.taken(),
            oracle.backlog() + oracle.open().len(),
            "no place of a row is lost"
        );
    }

    pub(super) fn end(mut self) -> Seen {
        for at in 0..self.clients.len() {
            match std::mem::replace(&mut self.clients[at].0, Client::Idle) {
                Client::Idle => {}
                Client::Waiting { id, reservation, .. } => self.let_go(id, reservation, [0; 3]),
                Client::Running { id, reservation, marked } => self.let_go(id, reservation, marked),
            }
        }
        loop {
            self.take();
            if self.bench.writer.image.usage.batch_out().is_none() {
                break;
            }
            self.confirm();
        }
        assert_eq!(self.bench.shared.reservations.taken(), 0, "reservations outstanding");
        let (oracle, _) = Oracle::replay(&self.events, records(&self.events));
        self.compare(&oracle);
        assert_eq!(oracle.open(), []);
        let books = self.bench.shared.books.lock().unwrap();
        let live: BTreeMap<_, _> =
            books.iter().map(|(id, book)| (*id, book.lock().unwrap().clone())).collect();
        assert!(
            live.iter()
                .filter(|(_, book)| book.sums() > 0)
                .all(|(id, book)| { self.bench.writer.image.books.get(id) == Some(book) })
        );
        let sums = live.values().map(Book::sums).sum::<usize>();
        assert_eq!(self.bench.shared.sums.taken(), sums, "no place of a sum is lost");
        let mut rows = Rows::new();
        for batch in self.stored.values() {
            store(&mut rows, batch);
        }
        assert_eq!(rows, oracle.all_rows(), "the store has each settlement once");
        self.seen
    }
}
