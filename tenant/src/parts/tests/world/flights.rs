//! What a gateway and the store say to each other, lost and late messages among it.

use super::*;

impl World<'_> {
    pub(super) async fn fly(&mut self, gate: usize) {
        match std::mem::replace(&mut self.gates[gate].flight, Flight::None) {
            Flight::None => {
                let wishes = std::mem::take(&mut self.gates[gate].wishes);
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
            ask.version = self.gates[gate].versions.remove(&ask.slice).or(ask.version);
        }
        let name = self.gates[gate].name.clone();
        let luck = if self.is_calm { 7 } else { (self.choose)(8) };
        if luck == 0 {
            self.seen.lost += 1;
            return self.late.push((name, asks));
        }
        let (answers, grew) = self.exchange(&name, &asks).await;
        if luck == 1 {
            self.seen.lost += 1;
            return;
        }
        let mut again = Vec::new();
        for (ask, answer) in asks.into_iter().zip(answers) {
            let wish = wishes.get(&ask.slice).copied().unwrap();
            match answer {
                PartAnswer::Told(told) => {
                    if grew.contains(&ask.slice) {
                        self.gates[gate].since.remove(&ask.slice);
                    }
                    self.told(gate, (&ask, wish), told);
                }
                PartAnswer::Stale => {
                    self.lose(gate, &ask.slice);
                    let shared = &self.gates[gate].books.shared;
                    drop(shared.forget(self.payer.tenant, &ask.slice).unwrap());
                    again.push(ask_of(shared, self.payer.tenant, &ask.slice, wish));
                    self.gates[gate].books.commit(1_000).unwrap();
                    self.hear();
                }
                PartAnswer::Blind { version } => again.push(PartAsk { version: Some(version), ..ask }),
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
        if wish.act == Act::LetGo {
            let shared = &self.gates[gate].books.shared;
            shared.let_go(self.payer.tenant, &ask.slice, told.noted).unwrap();
            self.seen.let_go += usize::from(self.held(gate, &ask.slice).part == Part::NONE);
        }
    }

    /// What the store answers, and of which budgets it has given more for that.
    pub(super) async fn exchange(&mut self, name: &str, asks: &[PartAsk]) -> (Vec<PartAnswer>, Vec<Slice>) {
        let answers = self.store.exchange_parts(name, asks, LONG).await.unwrap();
        let mut grew = Vec::new();
        for record in self.store.list_parts(self.payer.tenant).await.unwrap() {
            assert!(record.amount >= record.spent, "less than what is spent of it: {record:?}");
            let PartRecord { level, models, unit, period, starts, gateway, amount, .. } = record;
            let slice = Slice { line: Line { level, models, unit, period }, start: starts };
            let before = self.rows.insert((slice.clone(), gateway.clone()), amount);
            if before.is_none_or(|before| before < amount) && gateway == name {
                self.given(&slice, asks);
                grew.push(slice);
            }
        }
        (answers, grew)
    }

    /// Notes under which limit the store has given more: each gateway may let pass what fits it.
    fn given(&mut self, slice: &Slice, asks: &[PartAsk]) {
        let of_line = |budget: &&Budget| budget.line() == slice.line;
        let limit = self.budgets.iter().find(of_line).unwrap().limit;
        let known = asks.iter().find(|ask| ask.slice == *slice).and_then(|ask| ask.limit);
        let limit = known.map_or(limit, |known| known.min(limit));
        for gate in &mut self.gates {
            let since = gate.since.entry(slice.clone()).or_default();
            *since = limit.max(*since);
        }
    }

    pub(super) fn held(&self, gate: usize, slice: &Slice) -> Sum {
        self.gates[gate].books.shared.held(self.payer.tenant, slice)
    }

    /// What this gateway has spent of a count that is over, and was not stored when the next began, is missed.
    fn lose(&mut self, gate: usize, slice: &Slice) {
        let spent = self.gates[gate].books.shared.held(self.payer.tenant, slice).spent;
        let known = self.gates[gate].at_reset.remove(slice).unwrap_or(0);
        *self.allowed.entry(slice.clone()).or_default() += spent - known.min(spent);
    }
}
