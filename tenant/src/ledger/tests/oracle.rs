//! A naive model: a list of events. Whatever is asked is computed from all of them, with arithmetic and a
//! calendar of its own.

use std::collections::BTreeMap;

use super::*;

/// What a test did, in the order in which it was queued.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Reserve {
        id: u64,
        made: i64,
        payer: Payer,
        model: ModelName,
        price: Option<[u64; 3]>,
        worst: [u64; 2],
    },
    Mark {
        id: u64,
        used: [u64; 3],
    },
    Settle {
        id: u64,
        used: [u64; 3],
    },
    /// A record that changes no sum.
    Other,
    /// Not a record: the ledger was opened again.
    Opened,
    Take,
    Confirm {
        number: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Request {
    made: i64,
    payer: Payer,
    model: ModelName,
    price: Option<[u64; 3]>,
    worst: [u64; 2],
    used: [u64; 3],
    is_open: bool,
}

pub(super) type Rows = BTreeMap<(i64, [u8; 44], String), [u64; 6]>;

/// All that the events come to.
#[derive(Default)]
pub(super) struct Oracle {
    pub(super) requests: BTreeMap<u64, Request>,
    /// By life, the oldest first.
    pending: Vec<Rows>,
    out: Rows,
    last_batch: u64,
}

pub(super) fn row_key(hour: i64, payer: Payer, model: &ModelName) -> (i64, [u8; 44], String) {
    let ids = [&payer.tenant.bytes()[..], payer.project.bytes(), payer.key.bytes()].concat();
    (hour, ids.try_into().unwrap(), model.as_str().to_owned())
}

/// Millionths of a micro-unit, as long as they fit, rounded up at the end.
fn cost(price: Option<[u64; 3]>, [prompt, cached, completion]: [u64; 3]) -> u64 {
    let [p, c, k] = price.unwrap_or_default().map(u128::from);
    let exact = u128::from(prompt - cached) * p + u128::from(cached) * c + u128::from(completion) * k;
    exact.div_ceil(1_000_000) as u64
}

/// Year and month of a day, by walking there.
fn year_month(mut day: i64) -> (i64, usize) {
    let mut year = 1970;
    loop {
        let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        for (month, days) in
            [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate()
        {
            if day < days {
                return (year, month);
            }
            day -= days;
        }
        year += 1;
    }
}

fn same_window(period: Period, a: i64, b: i64) -> bool {
    match period {
        Period::Day => a / DAY == b / DAY,
        Period::Month => year_month(a / DAY) == year_month(b / DAY),
        Period::Total => true,
    }
}

impl Oracle {
    /// What the first events come to whose records are `records` in number.
    pub(super) fn replay(events: &[Event], records: usize) -> (Self, usize) {
        let mut oracle = Self::default();
        let (mut written, mut events_used) = (0, 0);
        for event in events {
            if written == records {
                break;
            }
            written += usize::from(oracle.apply(event));
            events_used += 1;
        }
        assert_eq!(written, records, "more records survived than were written");
        (oracle, events_used)
    }

    /// Whether the event has a record.
    pub(super) fn apply(&mut self, event: &Event) -> bool {
        match event.clone() {
            Event::Reserve { id, made, payer, model, price, worst } => {
                let (used, is_open) = ([0; 3], true);
                let request = Request { made, payer, model, price, worst, used, is_open };
                assert!(self.requests.insert(id, request).is_none());
            }
            Event::Mark { id, used } => self.requests.get_mut(&id).unwrap().used = used,
            Event::Settle { id, used } => self.settle(id, used),
            Event::Other => {}
            Event::Opened => {
                self.pending.retain(|rows| !rows.is_empty());
                self.pending.push(Rows::new());
                return false;
            }
            Event::Take => {
                let Some(oldest) = self.pending.iter_mut().find(|rows| !rows.is_empty()) else {
                    return false;
                };
                if !self.out.is_empty() {
                    return false;
                }
                self.last_batch += 1;
                for _ in 0..BATCH_ROWS_MAX {
                    self.out.extend(oldest.pop_first());
                }
            }
            Event::Confirm { number } => {
                if self.out.is_empty() || number != self.last_batch {
                    return false;
                }
                self.out.clear();
            }
        }
        true
    }

    fn settle(&mut self, id: u64, used: [u64; 3]) {
        let request = self.requests.get_mut(&id).unwrap();
        assert!(request.is_open, "settled twice");
        (request.is_open, request.used) = (false, used);
        let key = row_key(request.made / 3_600_000, request.payer, &request.model);
        if self.pending.is_empty() {
            self.pending.push(Rows::new());
        }
        let row = self.pending.last_mut().unwrap().entry(key).or_default();
        let [prompt, cached, completion] = used;
        let unpriced = u64::from(request.price.is_none());
        let more = [1, prompt, cached, completion, cost(request.price, used), unpriced];
        for (sum, more) in row.iter_mut().zip(more) {
            *sum += more;
        }
    }

    /// Requests that are open, and what they have used so far.
    pub(super) fn open(&self) -> Vec<(u64, [u64; 3])> {
        let open = self.requests.iter().filter(|(_, request)| request.is_open);
        open.map(|(id, request)| (*id, request.used)).collect()
    }

    pub(super) fn is_open(&self, id: u64) -> bool {
        self.requests[&id].is_open
    }

    /// What recovery must do.
    pub(super) fn settle_open(&mut self) {
        for (id, used) in self.open() {
            self.settle(id, used);
        }
    }

    /// `(spent, reserved)` of a budget in the window of `now`; of requests that `binds` says it binds.
    pub(super) fn sum(&self, budget: &Budget, now: i64) -> (u64, u64) {
        let mut sum = (0, 0);
        for request in self.requests.values() {
            let binds = match budget.level {
                Level::Key(key) => key == request.payer.key,
                Level::Project(project) => project == request.payer.project,
                Level::Tenant(tenant) => tenant == request.payer.tenant,
            };
            let model = match &budget.models {
                Models::All => true,
                Models::One(one) => *one == request.model,
            };
            if !binds || !model || !same_window(budget.period, request.made, now) {
                continue;
            }
            let [prompt, _, completion] = request.used;
            let [worst_prompt, worst_completion] = request.worst;
            // The dearest way to use all of it.
            let dearest = cost(request.price, [worst_prompt, 0, worst_completion])
                .max(cost(request.price, [worst_prompt, worst_prompt, worst_completion]));
            match (budget.unit, request.is_open) {
                (Unit::Tokens, true) => sum.1 += worst_prompt + worst_completion,
                (Unit::Tokens, false) => sum.0 += prompt + completion,
                (Unit::MicroMoney, true) => sum.1 += dearest,
                (Unit::MicroMoney, false) => sum.0 += cost(request.price, request.used),
            }
        }
        sum
    }

    /// All rows of all requests that are settled, whether or not a store has them.
    pub(super) fn all_rows(&self) -> Rows {
        let mut all = Self::default();
        for (id, request) in self.requests.iter().filter(|(_, request)| !request.is_open) {
            all.requests.insert(*id, Request { is_open: true, ..request.clone() });
            all.settle(*id, request.used);
        }
        all.pending.pop().unwrap_or_default()
    }

    /// Rows that no store has confirmed.
    pub(super) fn backlog(&self) -> usize {
        self.pending.iter().map(BTreeMap::len).sum::<usize>() + self.out.len()
    }
}

/// Adds a batch's rows to those of a store.
pub(super) fn store(rows: &mut Rows, batch: &Batch) {
    for UsageRow { hour, payer, model, amounts } in &batch.rows {
        let row = rows.entry(row_key(*hour as i64, *payer, model)).or_default();
        let Amounts { requests, prompt, cached, completion, cost_micro, unpriced } = *amounts;
        for (sum, more) in row.iter_mut().zip([requests, prompt, cached, completion, cost_micro, unpriced]) {
            *sum += more;
        }
    }
}
