//! Folders that are restored from older copies: what they counted reaches a store exactly once, in whatever order all this comes.

use std::collections::{HashMap, HashSet};

use super::*;

/// A store as `add_usage` is one: of each name it takes rising numbers alone.
#[derive(Default)]
struct Stored {
    highest: HashMap<Uuid, u64>,
    /// How often each use was added; a use is a model of its own.
    uses: HashMap<String, u64>,
}

impl Stored {
    fn add(&mut self, batch: &Batch) {
        let highest = self.highest.entry(batch.journal).or_default();
        if *highest >= batch.number {
            return;
        }
        *highest = batch.number;
        for row in &batch.rows {
            *self.uses.entry(row.model.as_str().to_owned()).or_default() += row.amounts.requests;
        }
    }
}

/// A ledger, its store, a copy of it, and what each of both has counted.
struct Scene {
    bench: Bench,
    stored: Stored,
    counted: HashSet<String>,
    copy: Option<(Vec<u8>, HashSet<String>)>,
    uses: u32,
}

impl Scene {
    fn new() -> Self {
        let (bench, stored) = (Bench::fresh(Bounds::FULL), Stored::default());
        Self { bench, stored, counted: HashSet::new(), copy: None, uses: 0 }
    }

    fn count(&mut self) {
        self.uses += 1;
        let name = format!("m{}", self.uses);
        let worst = WorstCase::new(1, 1, 1).unwrap();
        let of = model(&name);
        let claim = Claim { payer: payer(1, 1, 0), model: &of, pricing: price(), budgets: &[], worst };
        drop(self.bench.reserve(&claim, at(5)).unwrap().settle(used(1, 0, 1)).unwrap());
        self.bench.commit(usize::MAX).unwrap();
        self.counted.insert(name);
    }

    /// One step of a delivery, or two, or all three: taken, stored, confirmed.
    fn deliver(&mut self, steps: u32) {
        let Taken::Batch(batch) = self.bench.take() else { return };
        if steps > 1 {
            self.stored.add(&batch);
        }
        if steps > 2 {
            self.bench.confirm(batch.number).unwrap();
        }
    }

    fn reopen(&mut self) {
        self.bench = Bench::reopen(self.bench.medium.synced()).unwrap();
    }

    fn copy(&mut self) {
        self.copy = Some((self.bench.medium.synced(), self.counted.clone()));
    }

    /// What was counted after the copy and never stored is gone with the folder.
    fn restore(&mut self) {
        let Some((bytes, counted)) = self.copy.clone() else { return };
        self.bench = Bench::reopen(bytes).unwrap();
        self.counted = counted;
    }

    /// Delivers all there is: each use that the folder has counted is stored once, and none is stored twice.
    fn settle(&mut self) {
        for _ in 0..=self.uses {
            self.deliver(3);
        }
        assert_eq!(self.bench.shared.backlog.taken(), 0);
        let twice: Vec<_> = self.stored.uses.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "counted twice: {twice:?}");
        let lost: Vec<_> = self.counted.iter().filter(|name| !self.stored.uses.contains_key(*name)).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
    }
}

pub(super) fn restored_once() {
    let mut scene = Scene::new();
    scene.count();
    scene.copy();
    scene.deliver(3);
    scene.count();
    scene.deliver(3);
    scene.restore();
    scene.count();
    scene.settle();
}

#[test]
fn a_folder_restored_from_an_older_copy_counts_on() {
    restored_once();
}

#[test]
fn any_order_of_uses_deliveries_restarts_copies_and_restores_counts_each_use_once() {
    for seed in 0..400 {
        let mut choose = super::worlds::choices(seed);
        let mut scene = Scene::new();
        for _ in 0..60 {
            match choose(16) {
                0..5 => scene.count(),
                5..10 => scene.deliver(1 + choose(3) as u32),
                10..13 => scene.reopen(),
                13 => scene.copy(),
                14 => scene.restore(),
                _ => scene.settle(),
            }
        }
        scene.settle();
    }
}

#[test]
fn lives_that_wait_have_a_bound() {
    let mut scene = Scene::new();
    for _ in 0..LIVES_MAX + 10 {
        scene.count();
        scene.reopen();
    }
    let lives = scene.bench.writer.image.usage.lives().count();
    assert_eq!(lives, LIVES_MAX);
    let (image, _) = Image::read(&scene.bench.medium.synced()).unwrap();
    assert_eq!(image.usage, scene.bench.writer.image.usage, "a checkpoint has all of them");
    scene.settle();
}
