//! Three gateways over one store, whose every step is chosen from outside: who asks, how a request ends, what reaches the store, when,
//! and whether its answer comes back; who is killed; and what becomes of the budgets meanwhile.

use super::*;

const GATES: usize = 3;
const WORST: u64 = 10;

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
    versions: HashMap<Slice, i64>,
    wishes: BTreeMap<Slice, Wish>,
    flight: Flight,
    /// As its directory knows them.
    budgets: Vec<Budget>,
    /// What was spent of each slice when its budget was set anew.
    at_reset: HashMap<Slice, u64>,
}

pub(super) struct World<'a> {
    choose: &'a mut dyn FnMut(usize) -> usize,
    plan: Plan,
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
    seen: Seen,
    /// Each message is answered.
    is_calm: bool,
}

impl<'a> World<'a> {
    pub(super) async fn run(
        database: &Database,
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
            versions: HashMap::new(),
            wishes: BTreeMap::new(),
            flight: Flight::None,
            budgets: budgets.clone(),
            at_reset: HashMap::new(),
        };
        let mut world = Self {
            choose,
            plan,
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
                    self.store.exchange_parts(&name, &asks, at(self.now), LONG).await.unwrap();
                }
            }
            37 => self.look(gate).await,
            38 => self.now += [1_000, 60_000, 3_600_000, DAY / 4][(self.choose)(4)],
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
        match self.gates[gate].books.shared.begin(&claim, at(self.now)) {
            Ok((reservation, ticket)) => {
                for low in reservation.low() {
                    self.wish(gate, low.slice.clone(), Wish::as_may_be(low.limit));
                }
                Client::Waiting { made: self.now, reservation, ticket }
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

    async fn fly(&mut self, gate: usize) {
        match std::mem::replace(&mut self.gates[gate].flight, Flight::None) {
            Flight::None => {
                let wishes = std::mem::take(&mut self.gates[gate].wishes);
                for (slice, wish) in &wishes {
                    if matches!(wish.act, Act::Forget { epoch } if epoch == self.epoch(gate, slice)) {
                        self.lose(gate, slice);
                    }
                }
                let (tickets, asks) =
                    begin(&self.gates[gate].books.shared, self.payer.tenant, &wishes).unwrap();
                self.gates[gate].flight = Flight::Lowering { wishes, tickets, asks };
            }
            Flight::Lowering { wishes, mut tickets, asks } => {
                tickets.retain_mut(|ticket| poll_now(ticket).is_pending());
                self.gates[gate].flight = if tickets.is_empty() {
                    Flight::Ready { wishes, asks }
                } else {
                    Flight::Lowering { wishes, tickets, asks }
                };
            }
            Flight::Ready { wishes, asks } => self.send(gate, wishes, asks).await,
        }
    }

    async fn send(&mut self, gate: usize, wishes: BTreeMap<Slice, Wish>, mut asks: Vec<PartAsk>) {
        for ask in &mut asks {
            ask.version = self.gates[gate].versions.remove(&ask.slice);
        }
        let name = self.gates[gate].name.clone();
        let luck = if self.is_calm { 7 } else { (self.choose)(8) };
        if luck == 0 {
            self.seen.lost += 1;
            return self.late.push((name, asks));
        }
        let answers = self.store.exchange_parts(&name, &asks, at(self.now), LONG).await.unwrap();
        if luck == 1 {
            self.seen.lost += 1;
            return;
        }
        let mut again = Vec::new();
        for (ask, answer) in asks.into_iter().zip(answers) {
            let wish = wishes.get(&ask.slice).copied().unwrap();
            match answer {
                PartAnswer::Told(told) => self.told(gate, (&ask, wish), told),
                PartAnswer::Stale => {
                    self.lose(gate, &ask.slice);
                    let shared = &self.gates[gate].books.shared;
                    drop(shared.forget(self.payer.tenant, &ask.slice).unwrap());
                    again.push(ask_of(shared, self.payer.tenant, &ask.slice, wish));
                    self.gates[gate].books.commit(1_000).unwrap();
                    self.hear();
                }
                PartAnswer::BaseUnknown { epoch } => {
                    let used = self.store.used_before(&ask.slice).await.unwrap();
                    again.push(PartAsk { base: Some(Base { epoch, used }), ..ask });
                }
                PartAnswer::Lifted => {}
                PartAnswer::Crowded => panic!("three gateways are no crowd"),
            }
        }
        if !again.is_empty() {
            self.gates[gate].flight = Flight::Ready { wishes, asks: again };
        }
    }

    fn told(&mut self, gate: usize, (ask, wish): (&PartAsk, Wish), told: PartTold) {
        let is_grown =
            take_over(&self.gates[gate].books.shared, self.payer.tenant, (ask, wish), &told).unwrap();
        self.gates[gate].versions.insert(ask.slice.clone(), told.version);
        self.seen.grown += usize::from(is_grown);
        self.seen.given_back += usize::from(wish.act == Act::GiveBack);
    }

    fn epoch(&self, gate: usize, slice: &Slice) -> u64 {
        self.gates[gate].books.shared.held(self.payer.tenant, slice).part.epoch
    }

    /// What this gateway has spent of a count that is over, and was not stored when the next began, is missed.
    fn lose(&mut self, gate: usize, slice: &Slice) {
        let spent = self.gates[gate].books.shared.held(self.payer.tenant, slice).spent;
        let known = self.gates[gate].at_reset.remove(slice).unwrap_or(0);
        *self.allowed.entry(slice.clone()).or_default() += spent - known.min(spent);
    }

    /// Gives back what others want, or what is not used.
    async fn look(&mut self, gate: usize) {
        let wanted = self.store.wanted_parts(&self.gates[gate].name, at(self.now)).await.unwrap();
        self.seen.wanted += wanted.len();
        for (tenant, slice) in wanted {
            assert_eq!(tenant, self.payer.tenant);
            self.wish(gate, slice, Wish::of(Act::GiveBack));
        }
        if (self.choose)(3) == 0 {
            let budget = (self.choose)(self.budgets.len());
            let slice = slice(&self.budgets[budget], self.now);
            self.wish(gate, slice, Wish::of(Act::GiveBack));
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
                                self.wish(gate, slice, Wish::of(Act::Forget { epoch: sum.part.epoch }));
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

    /// Tokens that are spent for sure or may be at this moment, in the window of a slice.
    fn truth(&self, slice: &Slice) -> u64 {
        let is_in = |made: i64| window(slice.line.period, at(made)) == slice.start;
        let certain = self.certain.iter().filter(|(made, _)| is_in(*made)).map(|(_, tokens)| *tokens);
        let unheard = self.unheard.iter().filter(|one| is_in(one.made)).map(|one| one.tokens);
        let running = self.clients.iter().map(|client| match client {
            Client::Waiting { made, .. } | Client::Running { made, .. } if is_in(*made) => WORST,
            Client::Idle | Client::Waiting { .. } | Client::Running { .. } => 0,
        });
        certain.chain(unheard).chain(running).sum()
    }

    fn check(&mut self) {
        for (place, budget) in self.budgets.clone().iter().enumerate() {
            let slice = slice(budget, self.now);
            let known =
                self.gates.iter().map(|gate| gate.budgets[place].limit).chain([budget.limit]).max().unwrap();
            let allowed = self.allowed.entry(slice.clone()).or_default();
            if self.plan.turns == Turns::Lifts {
                let truth = self.truth(&slice);
                let missed = self.allowed[&slice];
                assert!(
                    truth <= budget.limit + missed,
                    "overshoot: {truth} of {} and {missed}",
                    budget.limit
                );
            } else {
                *allowed = known.max(*allowed);
                let (allowed, truth) = (*allowed, self.truth(&slice));
                assert!(truth <= allowed, "overshoot: {truth} of {allowed}: {budget:?}");
            }
            for gate in &self.gates {
                let Sum { part, spent, reserved, .. } = gate.books.shared.held(self.payer.tenant, &slice);
                assert!(part.epoch == 0 || spent + reserved <= part.amount, "more than is held: {part:?}");
            }
        }
    }

    /// All ends, everything is given back: then the store, the ledgers and the truth say the same.
    async fn end(mut self) -> Seen {
        for client in 0..self.clients.len() {
            let gate = client % GATES;
            match std::mem::replace(&mut self.clients[client], Client::Idle) {
                Client::Idle => {}
                Client::Waiting { reservation, .. } => drop(reservation),
                Client::Running { made, reservation } => self.settle(gate, made, reservation),
            }
        }
        for gate in 0..GATES {
            self.deliver(gate).await;
        }
        self.is_calm = true;
        for gate in 0..GATES {
            self.gates[gate].budgets = self.budgets.clone();
            for act in [Act::Tell, Act::GiveBack] {
                while !matches!(self.gates[gate].flight, Flight::None) {
                    self.gates[gate].books.commit(1_000).unwrap();
                    self.fly(gate).await;
                }
                self.gates[gate].wishes.clear();
                for budget in self.budgets.clone() {
                    self.wish(gate, slice(&budget, self.now), Wish { act, limit: Some(budget.limit) });
                }
                self.fly(gate).await;
            }
            while !matches!(self.gates[gate].flight, Flight::None) {
                self.gates[gate].books.commit(1_000).unwrap();
                self.fly(gate).await;
            }
            assert_eq!(self.gates[gate].books.shared.reservations.taken(), 0, "reservations outstanding");
        }
        for budget in &self.budgets {
            let slice = slice(budget, self.now);
            let records = self.store.list_parts(self.payer.tenant).await.unwrap();
            let of = records.iter().filter(|one| one.level == budget.level && one.starts == slice.start);
            let (amounts, spent): (u64, u64) =
                of.fold((0, 0), |(amounts, spent), one| (amounts + one.amount, spent + one.spent));
            assert_eq!(amounts, spent, "all else is given back");
            if self.plan.turns != Turns::Lifts {
                let (truth, stored) =
                    (self.truth(&slice), self.store.spent(budget, at(self.now)).await.unwrap());
                assert!(truth <= stored, "what was told to be on disk is stored");
                assert_eq!(spent, stored, "the parts and the usage say the same");
            }
        }
        self.seen
    }
}

const LONG: std::time::Duration = std::time::Duration::from_secs(30);
