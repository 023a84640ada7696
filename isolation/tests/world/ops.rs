//! What may happen. Where a call may refuse, its answer is not asked for: what it leads to is looked at.

use super::{Broken, Flight, Live, Prompt, Proof, SIZE, Scale, Tenant, WINDOW, Wipe, World, ensure, mark};
use isolation::{
    page::Verify,
    share::SharedRun,
    units::{Pages, StepId, Tokens},
};

/// One thing that may happen. A `usize` is a seat, a tenant or a flight.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// A request comes.
    Start(usize, Prompt),
    /// The sequence's next tokens go to the device.
    Include(usize, u32),
    /// The engine commits by the receipt of the write's own step.
    Commit(usize),
    /// The engine commits by another receipt.
    CommitStale(usize),
    /// The request ends, however it does.
    Drop(usize),
    /// Full pages go to the tenant's prefix tree.
    Seal(usize),
    /// The tenant's prefix tree is emptied as far as it can be.
    Evict(usize),
    /// The engine takes cached pages from a tenant for others, as many as may be spared.
    Reclaim(usize),
    /// The engine takes a prefix from the other tenant's tree.
    CrossAdopt(usize),
    /// The device does a step.
    Land(usize),
    /// The device breaks a step off.
    Break(usize),
    /// The engine settles all receipts.
    Settle,
    /// The engine scrubs all dirty pages.
    Scrub,
    /// The next wipe will go wrong so.
    Spoil(Wipe),
    /// The operator takes a page away.
    Shrink,
}

/// Whether anything happened.
pub type Applied = Result<bool, Broken>;

impl Op {
    /// Each that may happen somewhere.
    pub fn all(scale: Scale) -> Vec<Self> {
        let mut all = vec![Self::Settle, Self::Scrub, Self::Evict(0), Self::Evict(1)];
        if scale.losses > 0 {
            all.extend([Self::Spoil(Wipe::Lying), Self::Spoil(Wipe::Failing), Self::Shrink]);
        }
        if !scale.quotas.is_empty() {
            all.extend([Self::Reclaim(0), Self::Reclaim(1)]);
        }
        for flight in 0..scale.flights {
            all.extend([Self::Land(flight), Self::Break(flight)]);
        }
        for seat in 0..scale.seats.len() {
            all.extend(scale.prompts.iter().map(|&prompt| Self::Start(seat, prompt)));
            all.extend(scale.chunks.iter().map(|&len| Self::Include(seat, len)));
            all.extend([Self::Commit, Self::CommitStale].map(|op| op(seat)));
            all.extend([Self::Drop, Self::Seal, Self::CrossAdopt].map(|op| op(seat)));
        }
        all
    }
}

impl World {
    pub fn apply(&mut self, op: Op) -> Applied {
        let applied = match op {
            Op::Start(seat, prompt) => self.start(seat, prompt)?,
            Op::Include(seat, len) => self.include(seat, len)?,
            Op::Commit(seat) => self.commit(seat, |proved, wrote| proved == wrote),
            Op::CommitStale(seat) => self.commit(seat, |proved, wrote| proved != wrote),
            Op::Drop(seat) => self.seats[seat].live.take().is_some(),
            Op::Seal(seat) => self.seal(seat)?,
            Op::Evict(tenant) => self.evict(tenant)?,
            Op::Reclaim(tenant) => self.reclaim(tenant)?,
            Op::CrossAdopt(seat) => self.cross_adopt(seat),
            Op::Land(flight) => self.land(flight)?,
            Op::Break(flight) => self.break_off(flight),
            Op::Settle => self.settle(),
            Op::Scrub => self.scrub()?,
            Op::Spoil(wipe) => self.spoil(wipe),
            Op::Shrink => self.shrink(),
        };
        self.forget_proofs();
        Ok(applied)
    }

    fn start(&mut self, seat: usize, prompt: Prompt) -> Applied {
        let seat = &mut self.seats[seat];
        let tenant = &mut self.tenants[seat.tenant];
        let Ok(bounded) = self.limits.admit(&tenant.scope, prompt.tokens(), prompt.max_new()) else {
            return Ok(false);
        };
        ensure(prompt != Prompt::Long, || format!("{} tokens in a window of {WINDOW}", bounded.total()))?; // I9
        if seat.live.is_some() {
            return Ok(false);
        }
        let need = self.pool.page_size().pages_for(bounded.total());
        ensure(need <= self.pool.capacity(), || format!("{need} pages of {}", self.pool.capacity()))?; // I9
        let prefix = tenant.tree.find(bounded.prompt());
        let cached = prefix.as_ref().map_or(Pages::ZERO, SharedRun::len);
        let Ok(mut lease) = self.pool.lease(&tenant.scope, need.checked_sub(cached).unwrap()) else {
            return Ok(prefix.is_some());
        };
        for (page, generation) in lease.pages().zip(lease.generations()) {
            let before = self.granted[page.index()].replace(generation);
            ensure(before.is_none_or(|before| before < generation), || format!("{page:?} lives twice"))?; // I4
            let cells = self.memory.cells(page);
            ensure(cells.iter().all(|&cell| cell == 0), || format!("{page:?} was granted with {cells:?}"))?; // I2
            self.last[page.index()] = Some(tenant.scope.tag());
        }
        if let Some(run) = prefix {
            let left = bounded.prompt().len() > run.tokens().get() as usize;
            ensure(left, || "the prefix leaves nothing to compute".into())?; // I8
            lease.adopt(run).map_err(|error| error.to_string())?;
        }
        seat.live = Some(Live { prompt, lease, pending: None });
        self.check_quotas()?;
        Ok(true)
    }

    fn include(&mut self, seat: usize, len: u32) -> Applied {
        let tenant = self.seats[seat].tenant;
        let Some(live) = &mut self.seats[seat].live else { return Ok(false) };
        if self.flights.len() == self.scale.flights || live.pending.is_some() {
            return Ok(false);
        }
        let step = self.pool.open_step().map_err(|error| error.to_string())?;
        match live.lease.include(Tokens::new(len), &step) {
            Ok((write, access)) => {
                let reach = self.pool.page_size().tokens_in(Pages::new(access.pages().len() as u32));
                ensure(reach >= Some(access.bound()), || format!("too few pages for {access:?}"))?; // I6
                live.pending = Some((write, step.id()));
                self.flights.push(Flight { step, access, tenant, prompt: live.prompt });
                Ok(true)
            }
            Err(_) => {
                // The step is over before it began.
                self.pool.settle(&step.finish()).map_err(|error| error.to_string())?;
                Ok(false)
            }
        }
    }

    fn commit(&mut self, seat: usize, fits: impl Fn(StepId, StepId) -> bool) -> bool {
        let Some(live) = &mut self.seats[seat].live else { return false };
        let Some((write, wrote)) = live.pending.take() else { return false };
        let Some(proof) = self.proofs.iter().find(|proof| fits(proof.receipt.step(), wrote)) else {
            live.pending = Some((write, wrote));
            return false;
        };
        let _ = live.lease.commit(write, &proof.receipt);
        true
    }

    fn seal(&mut self, seat: usize) -> Applied {
        let seat = &mut self.seats[seat];
        let Some(live) = &mut seat.live else { return Ok(false) };
        // What was generated has no token ids here; none is asked for again.
        let mut tokens = live.prompt.tokens();
        tokens.resize(live.lease.filled().get() as usize, 77);
        let sealed = live.lease.seal(&tokens).map_err(|error| error.to_string())?;
        let Some(run) = sealed else { return Ok(false) };
        self.tenants[seat.tenant].tree.insert(&run).map_err(|error| error.to_string())?;
        Ok(true)
    }

    fn evict(&mut self, tenant: usize) -> Applied {
        let before = self.pool.census().shared;
        let gone = self.tenants[tenant].tree.evict(Pages::new(u32::MAX));
        let after = self.pool.census().shared;
        ensure(before.checked_sub(gone) == Some(after), || {
            format!("{gone} evicted, {before} became {after}")
        })?; // I8
        Ok(gone > Pages::ZERO)
    }

    fn reclaim(&mut self, tenant: usize) -> Applied {
        let Tenant { scope, tree } = &mut self.tenants[tenant];
        let before = self.pool.held(scope.tag()).get();
        let gone = tree.evict(self.pool.spare(scope.tag()));
        let after = self.pool.held(scope.tag()).get();
        let floor = self.scale.quotas[tenant].0.min(before);
        ensure(after >= floor, || format!("{before} pages became {after}, within a floor of {floor}"))?; // I13
        Ok(gone > Pages::ZERO)
    }

    fn cross_adopt(&mut self, seat: usize) -> bool {
        let seat = &mut self.seats[seat];
        let Some(live) = &mut seat.live else { return false };
        let Some(run) = self.tenants[1 - seat.tenant].tree.find(&Prompt::Short.tokens()) else {
            return false;
        };
        let _ = live.lease.adopt(run);
        true
    }

    pub(super) fn land(&mut self, flight: usize) -> Applied {
        if flight >= self.flights.len() {
            return Ok(false);
        }
        let Flight { step, access, tenant, prompt } = self.flights.remove(flight);
        for position in 0..access.bound().get() {
            let page = access.page((position / SIZE) as usize).unwrap();
            let cell = self.memory.cell(page, position);
            let mark = mark(tenant, prompt, position);
            if position < access.start().get() {
                self.reads += 1;
                let seen = *cell;
                ensure(seen == mark, || format!("tenant {tenant} read {seen} at {position}, not {mark}"))?; // I6
            } else {
                *cell = mark;
            }
        }
        self.proofs.push(Proof { receipt: step.finish(), settled: false });
        Ok(true)
    }

    /// Writes one token, then fails.
    fn break_off(&mut self, flight: usize) -> bool {
        if flight >= self.flights.len() {
            return false;
        }
        let Flight { step, access, tenant, prompt } = self.flights.remove(flight);
        let start = access.start().get();
        let page = access.page((start / SIZE) as usize).unwrap();
        *self.memory.cell(page, start) = mark(tenant, prompt, start);
        self.proofs.push(Proof { receipt: step.fail(), settled: false });
        true
    }

    pub(super) fn settle(&mut self) -> bool {
        let mut settled = false;
        for proof in self.proofs.iter_mut().filter(|proof| !proof.settled) {
            self.pool.settle(&proof.receipt).unwrap();
            proof.settled = true;
            settled = true;
        }
        settled
    }

    pub(super) fn scrub(&mut self) -> Applied {
        let dirty = self.pool.census().dirty;
        // A failed wipe leaves its page dirty, and the next scrub tries again.
        let _ = self.pool.scrub(dirty, Verify::ReadBack, &mut self.memory);
        self.limits = self.limits.narrowed(self.pool.capacity());
        for lineage in self.pool.take_unfit() {
            let last = self.last[lineage.page.index()];
            ensure(lineage.last == last, || format!("{lineage:?} was {last:?}'s"))?; // I2
        }
        Ok(dirty > Pages::ZERO)
    }

    fn spoil(&mut self, wipe: Wipe) -> bool {
        if self.memory.next_wipe != Wipe::Honest || self.spoiled == self.scale.losses {
            return false;
        }
        self.spoiled += 1;
        self.memory.next_wipe = wipe;
        true
    }

    fn shrink(&mut self) -> bool {
        if self.scale.pages - self.pool.capacity().get() >= self.scale.losses {
            return false;
        }
        self.pool.shrink(Pages::new(1));
        self.limits = self.limits.narrowed(self.pool.capacity());
        true
    }

    /// Settled receipts that no write waits for prove nothing any more.
    fn forget_proofs(&mut self) {
        let pending = self.seats.iter().filter_map(|seat| seat.live.as_ref()?.pending.as_ref());
        let waited: Vec<StepId> = pending.map(|(_, wrote)| *wrote).collect();
        self.proofs.retain(|proof| !proof.settled || waited.contains(&proof.receipt.step()));
    }
}
