//! What a gateway and the store say to each other, lost and late messages among it.

use super::*;

impl World<'_> {
    pub(super) async fn fly(&mut self, gate: usize) {
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
            ask.version = self.gates[gate].versions.remove(&ask.slice).or(ask.version);
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
}
