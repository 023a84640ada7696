//! Three gateways over one store, whose every step is chosen from outside: who asks, how a request ends, what reaches the store, when,
//! and whether its answer comes back; who is killed; and what becomes of the budgets meanwhile.

mod checks;
mod flights;

use super::*;

const GATES: usize = 3;
const WORST: u64 = 10;
/// The clocks of the gateways, by how much they are ahead of the right one.
const SKEWS: [i64; GATES] = [0, 3_600_000, -7_200_000];

/// What happens beside requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turns {
    /// Nothing.
    None,
    /// Limits are raised and lowered.
    Limits,
    /// Budgets are lifted and set again.
    Lifts,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) clients: usize,
    pub(super) steps: usize,
    /// One step in so many is a kill.
    pub(super) kill_one_in: usize,
    pub(super) turns: Turns,
}

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) settled: usize,
    pub(super) over: usize,
    pub(super) short: usize,
    pub(super) grown: usize,
    pub(super) lost: usize,
    pub(super) late: usize,
    pub(super) kills: usize,
    pub(super) given_back: usize,
    pub(super) wanted: usize,
    pub(super) turns: usize,
    pub(super) let_go: usize,
}

enum Client {
    Idle,
    Waiting { made: i64, reservation: Reservation, ticket: Journalled },
    Running { made: i64, reservation: Reservation },
}

/// A settlement of which nobody has heard that it is on disk.
struct Settled {
    gate: usize,
    made: i64,
    tokens: u64,
    ticket: Journalled,
}

enum Flight {
    None,
    Lowering { wishes: BTreeMap<Slice, Wish>, tickets: Vec<Journalled>, asks: Vec<PartAsk> },
    Ready { wishes: BTreeMap<Slice, Wish>, asks: Vec<PartAsk> },
}

struct Gate {
    books: Books,
    name: String,
    /// How far its clock is ahead.
    skew: i64,
    versions: HashMap<Slice, i64>,
    wishes: BTreeMap<Slice, Wish>,
    flight: Flight,
    /// As its directory knows them.
    budgets: Vec<Budget>,
    /// What was spent of each slice when its budget was set anew.
    at_reset: HashMap<Slice, u64>,
    /// The highest limit under which others, or it without hearing of it, were given more since it was itself.
    since: HashMap<Slice, u64>,
}

pub(super) struct World<'a> {
    choose: &'a mut dyn FnMut(usize) -> usize,
    plan: Plan,
    database: &'a Database,
    store: Store,
    payer: Payer,
    now: i64,
    gates: Vec<Gate>,
    clients: Vec<Client>,
    unheard: Vec<Settled>,
    /// Tokens of settlements that are on disk, by the moment of their reservation.
    certain: Vec<(i64, u64)>,
    budgets: Vec<Budget>,
    /// The highest limit that each had so far, with what a gateway was told of it too late.
    allowed: HashMap<Slice, u64>,
    late: Vec<(String, Vec<PartAsk>)>,
    /// What the store counts as held by each gateway.
    rows: HashMap<(Slice, String), u64>,
    seen: Seen,
    /// Each message is answered.
    is_calm: bool,
}

impl<'a> World<'a> {
    pub(super) async fn run(
        database: &'a Database,
        plan: Plan,
        choose: &'a mut dyn FnMut(usize) -> usize,
    ) -> Seen {
        let payer = payer(database).await;
        let budgets = vec![
            hard(Level::Tenant(payer.tenant), Period::Day, 60 + choose(100) as u64),
            hard(Level::Key(payer.key), Period::Total, 80 + choose(150) as u64),
        ];
        for budget in &budgets {
            database.store.set_budget(budget, at(NOON)).await.unwrap();
        }
        let gate = |name: usize| Gate {
            books: Books::named(100 + name as u128),
            name: uuid::Uuid::from_u128(100 + name as u128).to_string(),
            skew: SKEWS[name],
            versions: HashMap::new(),
            wishes: BTreeMap::new(),
            flight: Flight::None,
            budgets: budgets.clone(),
            at_reset: HashMap::new(),
            since: HashMap::new(),
        };
        let mut world = Self {
            choose,
            plan,
            database,
            store: database.store.clone(),
            payer,
            now: NOON,
            gates: (0..GATES).map(gate).collect(),
            clients: (0..plan.clients).map(|_| Client::Idle).collect(),
            unheard: Vec::new(),
            certain: Vec::new(),
            budgets,
            allowed: HashMap::new(),
            late: Vec::new(),
            rows: HashMap::new(),
            seen: Seen::default(),
            is_calm: false,
        };
        for _ in 0..plan.steps {
            world.step().await;
            world.check();
        }
        world.end().await
    }

    async fn step(&mut self) {
        if (self.choose)(self.plan.kill_one_in) == self.plan.kill_one_in - 1 {
            let gate = (self.choose)(GATES);
            return self.kill(gate);
        }
        let gate = (self.choose)(GATES);
        match (self.choose)(40) {
            0..20 => {
                let client = (self.choose)(self.clients.len());
                self.client(client);
            }
            20..32 => self.fly(gate).await,
            32..36 => {
                let count = 1 + (self.choose)(30);
                self.gates[gate].books.commit(count).unwrap();
                self.hear();
            }
            36 => {
                if let Some((name, asks)) = self.late.pop() {
                    self.seen.late += 1;
                    self.exchange(&name, &asks).await;
                }
            }
            37 => self.look(gate).await,
            38 => {
                let passed = [1_000, 60_000, 3_600_000, DAY / 4][(self.choose)(4)];
                self.now += passed;
                let sql = format!("UPDATE budget_parts SET wanted_ms = wanted_ms - {passed}");
                self.database.by_hand(&sql).await.unwrap();
            }
            _ => self.turn().await,
        }
    }

    fn client(&mut self, client: usize) {
        let gate = client % GATES;
        match std::mem::replace(&mut self.clients[client], Client::Idle) {
            Client::Idle => self.clients[client] = self.ask(gate),
            Client::Waiting { made, reservation, mut ticket } => match poll_now(&mut ticket) {
                Poll::Ready(answer) => {
                    answer.unwrap();
                    self.clients[client] = Client::Running { made, reservation };
                }
                Poll::Pending => self.clients[client] = Client::Waiting { made, reservation, ticket },
            },
            Client::Running { made, reservation } => self.settle(gate, made, reservation),
        }
    }

    /// What time it is at a gateway.
    fn clock(&self, gate: usize) -> i64 {
        self.now + self.gates[gate].skew
    }

    fn settle(&mut self, gate: usize, made: i64, reservation: Reservation) {
        let tokens = (self.choose)(WORST as usize + 1) as u64;
        let used = Used { prompt: tokens, cached: 0, completion: 0 };
        let settled = reservation.settle(used).unwrap();
        self.unheard.push(Settled { gate, made, tokens, ticket: settled.journalled });
        self.seen.settled += 1;
    }

    fn ask(&mut self, gate: usize) -> Client {
        let (name, budgets) = (model("m"), self.gates[gate].budgets.clone());
        let pricing = Pricing::Priced(Price::new(1, 1, 1).unwrap());
        let worst = WorstCase::new(WORST, 0, 1).unwrap();
        let claim = Claim { payer: self.payer, model: &name, pricing, budgets: &budgets, worst };
        let made = self.clock(gate);
        match self.gates[gate].books.shared.begin(&claim, at(made)) {
            Ok((reservation, ticket)) => {
                self.check_let_through(gate);
                for low in reservation.low() {
                    self.wish(gate, low.slice.clone(), Wish::as_may_be(low.limit));
                }
                Client::Waiting { made, reservation, ticket }
            }
            Err(BudgetRefusal::Short(short)) => {
                for short in short {
                    self.seen.over += usize::from(short.nothing_left());
                    self.seen.short += usize::from(!short.nothing_left());
                    self.wish(gate, short.slice, Wish::need(short.over.asked, short.limit));
                }
                Client::Idle
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn wish(&mut self, gate: usize, slice: Slice, wish: Wish) {
        let wishes = &mut self.gates[gate].wishes;
        let wish = wishes.get(&slice).map_or(wish, |before| before.and(wish));
        wishes.insert(slice, wish);
    }

    /// Gives back what others want, or what is not used.
    async fn look(&mut self, gate: usize) {
        let wanted = self.store.wanted_parts(&self.gates[gate].name).await.unwrap();
        self.seen.wanted += wanted.len();
        for (tenant, slice) in wanted {
            assert_eq!(tenant, self.payer.tenant);
            self.wish(gate, slice, Wish::of(Act::GiveBack));
        }
        if (self.choose)(3) == 0 {
            let budget = (self.choose)(self.budgets.len());
            let slice = slice(&self.budgets[budget], self.clock(gate));
            // The key, or what else binds the line, ends, and is taken back later.
            let is_ended = (self.choose)(2) == 0 && self.held(gate, &slice).holders == 0;
            let act = if is_ended { Act::LetGo } else { Act::GiveBack };
            self.wish(gate, slice, Wish::of(act));
        }
    }

    async fn turn(&mut self) {
        let at_budget = (self.choose)(self.budgets.len());
        match self.plan.turns {
            Turns::None => return,
            Turns::Limits => {
                let limit = 100 + (self.choose)(400) as u64;
                self.budgets[at_budget].limit = limit;
                self.store.set_budget(&self.budgets[at_budget], at(self.now)).await.unwrap();
            }
            Turns::Lifts => {
                for gate in 0..GATES {
                    self.deliver(gate).await;
                }
                let budget = self.budgets[at_budget].clone();
                self.store.lift_budget(&budget.name(), at(self.now)).await.unwrap();
                self.store.set_budget(&budget, at(self.now)).await.unwrap();
                for gate in 0..GATES {
                    for (slice, sum) in self.gates[gate].books.shared.all_held(self.payer.tenant) {
                        if slice.line == budget.line() {
                            self.gates[gate].at_reset.insert(slice.clone(), sum.spent);
                            if (self.choose)(2) == 0 {
                                self.wish(gate, slice, Wish::of(Act::Tell));
                            }
                        }
                    }
                }
            }
        }
        self.seen.turns += 1;
        for gate in 0..GATES {
            // The others hear of it later.
            if (self.choose)(2) == 0 {
                self.gates[gate].budgets = self.budgets.clone();
            }
        }
    }

    /// Brings all usage of a gateway to the store.
    async fn deliver(&mut self, gate: usize) {
        let books = &mut self.gates[gate].books;
        while books.shared.queue.len() > 0 {
            books.commit(1_000).unwrap();
        }
        while let Taken::Batch(batch) = books.take() {
            self.store.add_usage(&batch, at(self.now)).await.unwrap();
            books.confirm(batch.number).unwrap();
        }
        self.hear();
    }

    fn kill(&mut self, gate: usize) {
        self.seen.kills += 1;
        self.hear();
        for client in (0..self.clients.len()).filter(|client| client % GATES == gate) {
            self.clients[client] = Client::Idle;
        }
        let killed = &mut self.gates[gate];
        let source = killed.books.medium.survivor(self.choose);
        killed.books = Books::reopen(source).unwrap();
        killed.since.clone_from(&self.allowed);
        killed.versions.clear();
        killed.wishes.clear();
        let flight = std::mem::replace(&mut killed.flight, Flight::None);
        if let Flight::Ready { asks, .. } = flight {
            // It may have been said, and be heard by the store whenever it is.
            self.late.push((killed.name.clone(), asks));
        }
        // Nobody was told of these: they count as far as they are in the journal, and that is all of them or nothing.
        self.unheard.retain(|settled| settled.gate != gate);
    }

    /// Notes the settlements of which it was said that they are on disk.
    fn hear(&mut self) {
        for mut settled in std::mem::take(&mut self.unheard) {
            match poll_now(&mut settled.ticket) {
                Poll::Ready(Ok(())) => self.certain.push((settled.made, settled.tokens)),
                Poll::Ready(Err(_)) => {}
                Poll::Pending => self.unheard.push(settled),
            }
        }
    }
}

const LONG: std::time::Duration = std::time::Duration::from_secs(30);
