//! What must hold at all times, and at the end.

use super::*;

impl World<'_> {
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

    /// A request that was let pass just now, and is not counted yet: that fits the limit that its gateway knows, or that is in force, or
    /// what was handed out to others under a higher one since it was told last that all parts together fit.
    pub(super) fn check_let_through(&self, gate: usize) {
        if self.plan.turns == Turns::Lifts {
            return;
        }
        let made = self.clock(gate);
        let gate = &self.gates[gate];
        for (budget, known) in self.budgets.iter().zip(&gate.budgets) {
            let slice = slice(budget, made);
            let since = gate.since.get(&slice).copied().unwrap_or(0);
            let (allowed, truth) = (budget.limit.max(known.limit).max(since), self.truth(&slice) + WORST);
            assert!(truth <= allowed, "let through: {truth} of {allowed}: {budget:?}, {known:?}, {since}");
        }
    }

    pub(super) fn check(&mut self) {
        let all = self.budgets.clone();
        let at_gates = (0..all.len()).flat_map(|place| (0..GATES).map(move |gate| (place, gate)));
        for (place, gate) in at_gates {
            let (budget, slice) = (&all[place], slice(&all[place], self.clock(gate)));
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
    pub(super) async fn end(mut self) -> Seen {
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
                    for clock in 0..GATES {
                        let wish = Wish { limit: Some(budget.limit), ..Wish::of(act) };
                        self.wish(gate, slice(&budget, self.clock(clock)), wish);
                    }
                }
                self.fly(gate).await;
            }
            while !matches!(self.gates[gate].flight, Flight::None) {
                self.gates[gate].books.commit(1_000).unwrap();
                self.fly(gate).await;
            }
            assert_eq!(self.gates[gate].books.shared.reservations.taken(), 0, "reservations outstanding");
        }
        let at_gates = self.budgets.iter().flat_map(|budget| (0..GATES).map(move |gate| (budget, gate)));
        for (budget, gate) in at_gates {
            let slice = slice(budget, self.clock(gate));
            let records = self.store.list_parts(self.payer.tenant).await.unwrap();
            let of = records.iter().filter(|one| one.level == budget.level && one.starts == slice.start);
            let (amounts, spent): (u64, u64) =
                of.fold((0, 0), |(amounts, spent), one| (amounts + one.amount, spent + one.spent));
            assert_eq!(amounts, spent, "all else is given back");
            if self.plan.turns != Turns::Lifts {
                let (truth, stored) =
                    (self.truth(&slice), self.store.spent(budget, at(self.clock(gate))).await.unwrap());
                assert!(truth <= stored, "what was told to be on disk is stored");
                assert_eq!(spent, stored, "the parts and the usage say the same");
            }
        }
        self.seen
    }
}
