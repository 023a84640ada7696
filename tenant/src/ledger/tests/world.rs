//! A world of clients of one ledger on one thread, whose every step is chosen from outside: who goes on, how a
//! request ends, when the writer writes how much, when the clock moves, when the process is killed and what of
//! the disk is left.

mod checks;

use std::collections::BTreeMap;

use super::oracle::{Event, Oracle};
use super::*;

/// How a world is built.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) clients: usize,
    pub(super) requests_each: usize,
    /// One step in so many is a kill.
    pub(super) kill_one_in: usize,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Seen {
    pub(super) steps: usize,
    pub(super) kills: usize,
    pub(super) settled: usize,
    pub(super) dropped: usize,
    pub(super) over_budget: usize,
    pub(super) orphans: u64,
    pub(super) batches: usize,
    pub(super) torn: usize,
    pub(super) checkpoints: usize,
}

enum Client {
    Idle,
    Waiting { id: u64, reservation: Reservation, ticket: Journalled },
    Running { id: u64, reservation: Reservation, marked: [u64; 3] },
}

pub(super) struct World<'a> {
    choose: &'a mut dyn FnMut(usize) -> usize,
    plan: Plan,
    bench: Bench,
    now: i64,
    latest: i64,
    clients: Vec<(Client, usize)>,
    budgets: Vec<Budget>,
    models: [(ModelName, [u64; 3]); 2],
    /// All that was queued, in order.
    events: Vec<Event>,
    /// Of those, how many went to the writer, and how many records the last checkpoint holds.
    committed: usize,
    in_checkpoint: usize,
    /// Reservations of which it was said that they are on disk.
    told: Vec<u64>,
    settles: Vec<(u64, Journalled)>,
    settles_told: Vec<u64>,
    stored: BTreeMap<u64, Batch>,
    seen: Seen,
}

const WORST: [u64; 2] = [60, 40];

impl<'a> World<'a> {
    pub(super) fn run(plan: Plan, choose: &'a mut dyn FnMut(usize) -> usize) -> Seen {
        let mut world = Self::new(plan, choose);
        // The number of steps bounds a world, whatever is chosen.
        for _ in 0..plan.clients * plan.requests_each * 40 {
            if world.clients.iter().all(|(client, left)| matches!(client, Client::Idle) && *left == 0) {
                break;
            }
            world.step();
        }
        world.end()
    }

    fn new(plan: Plan, choose: &'a mut dyn FnMut(usize) -> usize) -> Self {
        // About half of what all ask for at once fits, so that who comes first matters.
        let share = (plan.clients * 50).max(100);
        let levels = [
            Level::Tenant(payer(1, 1, 0).tenant),
            Level::Project(payer(1, 1, 0).project),
            Level::Key(payer(1, 1, 0).key),
            Level::Key(payer(2, 1, 1).key),
        ];
        let mut budgets: Vec<Budget> = Vec::new();
        for level in levels {
            let (unit, worth) = [(Unit::Tokens, 1), (Unit::MicroMoney, 4)][choose(2)];
            let period = [Period::Day, Period::Month, Period::Total][choose(3)];
            let models = [Models::All, Models::One(model("a"))][choose(2)].clone();
            let limit = (share / 4 + choose(share)) as u64 * worth;
            budgets.push(Budget { models, ..hard(level, unit, period, limit) });
        }
        let soft = Budget { kind: BudgetKind::Soft, ..budgets[0].clone() };
        budgets.push(Budget { limit: soft.limit / 2, ..soft });
        Self {
            choose,
            plan,
            bench: Bench::fresh(Bounds { tail_bytes_max: 6_000, ..Bounds::FULL }),
            now: 1_709_164_800_000,
            latest: 1_709_164_800_000,
            clients: (0..plan.clients).map(|_| (Client::Idle, plan.requests_each)).collect(),
            budgets,
            models: [(model("a"), [2_300_000, 700_000, 9_100_001]), (model("b"), [1, 5_000_000, 3])],
            events: Vec::new(),
            committed: 0,
            in_checkpoint: 0,
            told: Vec::new(),
            settles: Vec::new(),
            settles_told: Vec::new(),
            stored: BTreeMap::new(),
            seen: Seen::default(),
        }
    }

    fn step(&mut self) {
        self.seen.steps += 1;
        if (self.choose)(self.plan.kill_one_in) == self.plan.kill_one_in - 1 {
            return self.kill();
        }
        match (self.choose)(32) {
            0..24 => {
                let at = (self.choose)(self.clients.len());
                self.client(at);
            }
            24..29 => {
                let count = 1 + (self.choose)(40);
                self.commit(count).unwrap();
            }
            29 => {
                // A clock may step back over the end of a window, and not over a whole one.
                self.latest += [0, 3_600_000, DAY / 2, 11 * DAY][(self.choose)(4)];
                self.now = self.latest - [0, 0, 1_000, DAY - 1][(self.choose)(4)];
            }
            30 => self.take(),
            _ => self.confirm(),
        }
    }

    fn client(&mut self, at: usize) {
        let (client, left) = &mut self.clients[at];
        match std::mem::replace(client, Client::Idle) {
            Client::Idle if *left == 0 => {}
            Client::Idle => {
                *left -= 1;
                self.clients[at].0 = self.ask(at);
            }
            Client::Waiting { id, reservation, ticket } => {
                self.clients[at].0 = self.wait(id, reservation, ticket);
            }
            Client::Running { id, mut reservation, marked } => match (self.choose)(4) {
                0 => {
                    let used = self.some_used();
                    let more = [0, 1, 2].map(|i| used[i].max(marked[i]));
                    let [prompt, cached, completion] = used;
                    let mark = Event::Mark { id, used: more };
                    self.queued(mark, || {
                        reservation.mark(super::used(prompt, cached, completion)).unwrap();
                    });
                    self.clients[at].0 = Client::Running { id, reservation, marked: more };
                }
                1 => self.let_go(id, reservation, marked),
                _ => self.settle(id, reservation),
            },
        }
    }

    fn ask(&mut self, at: usize) -> Client {
        let payer = payer(1 + (at % 2) as u128, 1 + (at / 2 % 2) as u128, (at / 4 % 3) as u8);
        let (model, parts) = self.models[(self.choose)(2)].clone();
        let pricing = Pricing::Priced(Price::new(parts[0], parts[1], parts[2]).unwrap());
        let worst = WorstCase::new(WORST[0], WORST[1] / 2, 2).unwrap();
        let budgets = self.budgets.clone();
        let claim = Claim { payer, model: &model, pricing, budgets: &budgets, worst };
        let given = self.bench.shared.queue.len();
        self.bench.give_all(&claim, at_millis(self.now));
        let before = self.bench.shared.queue.len();
        self.events.extend((given..before).map(|_| Event::Other));
        let begun = self.bench.begin(&claim, at_millis(self.now));
        for budget in budgets.iter().filter(|budget| budget.binds(&payer, &model)) {
            let (spent, reserved) = self.bench.sum(payer.tenant, budget, at_millis(self.now));
            let fits = budget.kind == BudgetKind::Soft || spent + reserved <= budget.limit;
            assert!(fits, "overshoot: {spent} + {reserved} of {}", budget.limit);
        }
        match begun {
            Ok((reservation, ticket)) => {
                assert_eq!(self.bench.shared.queue.len(), before + 1);
                let (id, made, price) = (reservation.id(), self.now, Some(parts));
                self.events.push(Event::Reserve { id, made, payer, model, price, worst: WORST });
                Client::Waiting { id, reservation, ticket }
            }
            Err(BudgetRefusal::OverBudget(over)) => {
                assert!(over.asked > over.left && over.left <= over.limit);
                self.seen.over_budget += 1;
                Client::Idle
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn wait(&mut self, id: u64, reservation: Reservation, mut ticket: Journalled) -> Client {
        if (self.choose)(8) == 7 {
            self.let_go(id, reservation, [0; 3]);
            return Client::Idle;
        }
        match poll_now(&mut ticket) {
            Poll::Ready(answer) => {
                answer.unwrap();
                self.told.push(id);
                Client::Running { id, reservation, marked: [0; 3] }
            }
            Poll::Pending => Client::Waiting { id, reservation, ticket },
        }
    }

    fn let_go(&mut self, id: u64, reservation: Reservation, marked: [u64; 3]) {
        self.queued(Event::Settle { id, used: marked }, || drop(reservation));
        self.seen.dropped += 1;
    }

    fn settle(&mut self, id: u64, reservation: Reservation) {
        let mut used = self.some_used();
        let beyond = (self.choose)(16) == 15;
        used[2] = if beyond { WORST[1] } else { used[2] };
        let [prompt, cached, completion] = used;
        let said = super::used(prompt, cached, completion + u64::from(beyond));
        let mut result = None;
        self.queued(Event::Settle { id, used }, || result = Some(reservation.settle(said)));
        let settled = match result.unwrap() {
            Ok(settled) if !beyond => settled,
            Err(SettleDefect::Overrun { settled, used, .. }) if beyond && used == said => *settled,
            other => panic!("{other:?}"),
        };
        assert_eq!(settled.charged, super::used(prompt, cached, completion));
        self.settles.push((id, settled.journalled));
        self.seen.settled += 1;
    }

    fn some_used(&mut self) -> [u64; 3] {
        let prompt = (self.choose)(WORST[0] as usize + 1);
        let cached = (self.choose)(prompt + 1);
        [prompt as u64, cached as u64, (self.choose)(WORST[1] as usize + 1) as u64]
    }

    /// Does `act`, and notes `event` and others for the records that it queued.
    fn queued(&mut self, event: Event, act: impl FnOnce()) {
        let before = self.bench.shared.queue.len();
        act();
        let records = self.bench.shared.queue.len() - before;
        self.events.extend([event].into_iter().take(records));
        self.events.extend((1..records).map(|_| Event::Other));
    }

    fn commit(&mut self, count: usize) -> io::Result<()> {
        let count = count.min(self.bench.shared.queue.len()).min(FRAME_RECORDS_MAX);
        let seq = self.bench.writer.seq;
        self.bench.commit(count)?;
        self.committed += count;
        if self.bench.writer.seq > seq + 1 {
            self.in_checkpoint = records(&self.events[..self.committed]);
            self.seen.checkpoints += 1;
        }
        Ok(())
    }

    /// Has a store take over a batch, as one transaction with its number.
    fn take(&mut self) {
        let (answer, mut taken) = oneshot::channel();
        self.events.push(Event::Take);
        self.bench.shared.queue.push(Entry::Take { answer }, Urgency::Refusable).unwrap();
        while self.bench.shared.queue.len() > 0 {
            self.commit(FRAME_RECORDS_MAX).unwrap();
        }
        match taken.try_recv().unwrap() {
            Taken::Nothing => {}
            Taken::Batch(batch) => match self.stored.get(&batch.number) {
                Some(before) => assert_eq!(*before, batch, "a batch given again is the same"),
                None => {
                    self.seen.batches += 1;
                    assert_eq!(batch.number, self.stored.len() as u64 + 1);
                    self.stored.insert(batch.number, batch);
                }
            },
        }
        // All is written: the books hold what the model says, reservations included.
        let (oracle, _) = Oracle::replay(&self.events, records(&self.events));
        assert_eq!(self.bench.shared.reservations.taken(), oracle.open().len());
        self.compare(&oracle);
    }

    fn confirm(&mut self) {
        let Some(number) = self.stored.keys().last().copied() else { return };
        let (answer, mut confirmed) = oneshot::channel();
        self.events.push(Event::Confirm { number });
        self.bench.shared.queue.push(Entry::Confirm { number, answer }, Urgency::Refusable).unwrap();
        while self.bench.shared.queue.len() > 0 {
            self.commit(FRAME_RECORDS_MAX).unwrap();
        }
        match confirmed.try_recv().unwrap() {
            Ok(()) | Err(LedgerError::NotOut { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

fn at_millis(millis: i64) -> UnixMillis {
    at(millis)
}

/// Records that the events have.
fn records(events: &[Event]) -> usize {
    let mut oracle = Oracle::default();
    events.iter().filter(|event| oracle.apply(event)).count()
}
