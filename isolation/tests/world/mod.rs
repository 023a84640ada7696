//! A small world: two tenants, a few pages of two tokens, a device that acts late, and memory that remembers
//! who wrote it.
//!
//! [`World::apply`] does one thing that engine, device, client or operator may do; [`World::check`] says what
//! must hold after. Neither relies on a call to refuse: what counts is what lies in memory.

mod canon;
pub mod memory;
mod ops;
pub mod search;

use isolation::{
    access::Access,
    admit::Limits,
    keyed::{Revision, Secrets},
    lease::{Lease, PendingWrite},
    pool::Pool,
    prefix::PrefixTree,
    quota::Quota,
    step::{OpenStep, StepReceipt},
    tag::{Registry, TenantScope, TenantTag},
    units::{Epoch, Generation, PageSize, Pages, StepId, Tokens},
};
use memory::{Memory, Wipe};
pub use ops::Op;
use std::num::NonZeroU32;

const SIZE: u32 = 2;
const WINDOW: Tokens = Tokens::new(4);

/// How large a world is.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub pages: u32,
    /// The tenant of each sequence that may live at once.
    pub seats: &'static [usize],
    /// What may be asked for.
    pub prompts: &'static [Prompt],
    /// Steps that may be in flight at once.
    pub flights: usize,
    /// How many tokens a chunk may have.
    pub chunks: &'static [u32],
    /// Wipes that go wrong in all, and pages that may be gone before the pool is shrunk.
    pub losses: u32,
    /// Floor and cap of each tenant, in pages; none for tenants without.
    pub quotas: &'static [(u32, u32)],
}

/// What may be asked for. `Whole` fills its page, so that a prefix of all its pages would leave nothing to
/// compute; its page begins like `Short`'s and differs within; `Long` is one token over the window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Prompt {
    Short,
    Whole,
    Long,
}

impl Prompt {
    pub const ALL: &[Self] = &[Self::Short, Self::Whole, Self::Long];

    fn tokens(self) -> Vec<u32> {
        match self {
            Self::Short => vec![1, 2, 3],
            Self::Whole => vec![1, 9],
            Self::Long => vec![1, 2, 3, 4],
        }
    }

    fn max_new(self) -> Tokens {
        Tokens::new(match self {
            Self::Short | Self::Long => 1,
            Self::Whole => 2,
        })
    }
}

/// What key and value at a position must hold: a function of the tenant and of its tokens up to there, never
/// 0.
fn mark(tenant: usize, prompt: Prompt, position: u32) -> u8 {
    let text = if position == 0 { 0 } else { prompt as u8 };
    1 + tenant as u8 * 64 + text * 16 + position as u8
}

/// Who left `cell`: `None` for nobody.
fn marker(cell: u8) -> Option<u8> {
    cell.checked_sub(1).map(|mark| mark / 64)
}

struct Tenant {
    scope: TenantScope,
    tree: PrefixTree,
}

/// Where one sequence at a time may live.
struct Seat {
    tenant: usize,
    live: Option<Live>,
}

#[derive(Debug)]
struct Live {
    prompt: Prompt,
    lease: Lease,
    pending: Option<(PendingWrite, StepId)>,
}

/// A step that the device has been given and has not done.
#[derive(Debug)]
struct Flight {
    step: OpenStep,
    access: Access,
    tenant: usize,
    prompt: Prompt,
}

/// A receipt, kept for as long as a write waits for it.
struct Proof {
    receipt: StepReceipt,
    settled: bool,
}

/// All of it.
pub struct World {
    scale: Scale,
    pool: Pool,
    limits: Limits,
    memory: Memory,
    tenants: Vec<Tenant>,
    seats: Vec<Seat>,
    flights: Vec<Flight>,
    proofs: Vec<Proof>,
    spoiled: u32,
    /// The life each page was last granted in.
    granted: Vec<Option<Generation>>,
    /// Who had each page last.
    last: Vec<Option<TenantTag>>,
    /// Tokens that the device read.
    pub reads: u64,
}

/// What must never be.
pub type Broken = String;

fn ensure(holds: bool, broken: impl FnOnce() -> Broken) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(broken()) }
}

impl World {
    pub fn new(scale: Scale) -> Self {
        let size = PageSize::new(NonZeroU32::new(SIZE).unwrap());
        let pages = Pages::new(scale.pages);
        let mut registry = Registry::new();
        let tenants = (0..2).map(|tag| {
            let scope = registry.open(TenantTag::new(tag));
            let tree =
                PrefixTree::new(&scope, size, Pages::new(1), &Secrets::new([3; 16]), &Revision::default());
            Tenant { scope, tree }
        });
        let tenants: Vec<Tenant> = tenants.collect();
        let mut pool = Pool::new(pages, size, Epoch::new(7));
        let quotas = tenants.iter().zip(scale.quotas).map(|(tenant, (floor, cap))| {
            let quota = Quota::new(Pages::new(*floor), Pages::new(*cap), NonZeroU32::MIN);
            (tenant.scope.tag(), quota.unwrap())
        });
        pool.set_quotas(quotas).unwrap();
        Self {
            scale,
            pool,
            limits: Limits::derive(WINDOW, pages, size).unwrap(),
            memory: Memory::new(scale.pages),
            tenants,
            seats: scale.seats.iter().map(|&tenant| Seat { tenant, live: None }).collect(),
            flights: Vec::new(),
            proofs: Vec::new(),
            spoiled: 0,
            granted: vec![None; scale.pages as usize],
            last: vec![None; scale.pages as usize],
            reads: 0,
        }
    }

    /// What holds in every state.
    pub fn check(&mut self) -> Result<(), Broken> {
        let census = self.pool.census();
        ensure(census.adds_up(), || format!("the census does not add up: {census:?}"))?; // I10
        let own =
            self.lives().map(|(_, live)| live.lease.pages().count() as u32 - live.lease.shared_pages().get());
        let own: u32 = own.sum();
        ensure(census.leased.get() == own, || format!("{own} pages are leased: {census:?}"))?;
        let cached: u32 = self.tenants.iter().map(|tenant| tenant.tree.held().get()).sum();
        let read: u32 = self.lives().map(|(_, live)| live.lease.shared_pages().get()).sum();
        ensure((cached..=cached + read).contains(&census.shared.get()), || {
            format!("{cached} pages are cached, {read} read: {census:?}")
        })?;
        let held: u32 = self.tenants.iter().map(|tenant| self.pool.held(tenant.scope.tag()).get()).sum();
        ensure(held == census.leased.get() + census.shared.get(), || {
            format!("tenants hold {held} pages: {census:?}") // I10
        })?;
        self.check_pages()
    }

    /// After a grant: each floor is there or can be had, and no cap is passed.
    fn check_quotas(&self) -> Result<(), Broken> {
        let mut taken = 0;
        for (tenant, (floor, cap)) in self.tenants.iter().zip(self.scale.quotas) {
            let held = self.pool.held(tenant.scope.tag()).get();
            ensure(held <= *cap, || format!("tenant {} holds {held} pages of {cap}", tenant.scope.tag()))?; // I13
            taken += held.max(*floor);
        }
        ensure(taken <= self.scale.pages, || format!("{taken} pages are held or reserved")) // I13
    }

    /// A page bears no mark but its owner's, and all that is filled bears it.
    fn check_pages(&self) -> Result<(), Broken> {
        let mut owners = vec![None; self.scale.pages as usize];
        for (tenant, live) in self.lives() {
            let shared = live.lease.shared_pages().get() as usize;
            for (i, page) in live.lease.pages().enumerate() {
                let owner = (tenant, i < shared);
                let before = owners[page.index()].replace(owner);
                ensure(before.is_none_or(|before| before == owner && owner.1), || {
                    format!("{page:?} is held by {before:?} and {owner:?}") // I1
                })?;
                for (slot, &cell) in self.memory.cells(page).iter().enumerate() {
                    let position = i as u32 * SIZE + slot as u32;
                    let mark = mark(tenant, live.prompt, position);
                    let filled = position < live.lease.filled().get();
                    // I1, I2, I5, I7
                    ensure(cell == mark || cell == 0 && !filled, || {
                        format!("{page:?} of tenant {tenant} holds {cell} at {position}, not {mark}")
                    })?;
                }
            }
        }
        Ok(())
    }

    /// What each state must refuse; then all goes home. The world is over after it.
    pub fn end(mut self) -> Result<(), Broken> {
        self.probe()?;
        for seat in &mut self.seats {
            seat.live = None;
        }
        for tenant in &mut self.tenants {
            tenant.tree.evict(Pages::new(u32::MAX));
        }
        while self.land(0)? {}
        self.settle();
        self.memory.next_wipe = Wipe::Honest;
        self.scrub()?;
        let census = self.pool.census();
        let home = census.clean.checked_add(census.withdrawn);
        ensure(home == Some(census.total), || format!("pages do not come home: {census:?}")) // I3, I10
    }

    fn probe(&mut self) -> Result<(), Broken> {
        let mut lives: Vec<_> = self.seats.iter_mut().filter_map(|seat| seat.live.as_mut()).collect();
        if let [a, b, ..] = &mut lives[..]
            && let (Some(_), Some((write, wrote))) = (&a.pending, b.pending.take())
            && let Some(proof) = self.proofs.iter().find(|proof| proof.receipt.step() == wrote)
        {
            let taken = a.lease.commit(write, &proof.receipt);
            ensure(taken.is_err(), || "one sequence committed another's write".into())?; // I5
        }
        for live in lives {
            let step = self.pool.open_step().map_err(|error| error.to_string())?;
            let room = live.lease.capacity().checked_sub(live.lease.filled()).unwrap();
            let twice = live.pending.is_none() || live.lease.include(Tokens::new(1), &step).is_err();
            ensure(twice, || "a second write while one is outstanding".into())?; // I5
            let beyond = live.lease.include(Tokens::new(room.get() + 1), &step).is_err();
            let none = live.lease.include(Tokens::ZERO, &step).is_err();
            ensure(beyond && none, || format!("{:?} took what does not fit", live.lease))?; // I6
            self.pool.settle(&step.finish()).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn lives(&self) -> impl Iterator<Item = (usize, &Live)> {
        self.seats.iter().filter_map(|seat| Some((seat.tenant, seat.live.as_ref()?)))
    }
}
