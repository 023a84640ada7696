//! All rules beside a model that keeps everything and computes from the definition.

use std::collections::HashMap;

use proptest::prelude::*;

use super::history::History;
use super::*;

#[derive(Default)]
struct Line {
    requests: History,
    tokens: History,
    running: u32,
}

#[derive(Default)]
struct Reference(HashMap<Scope, Line>);

const fn number(limit: Limit) -> Option<u32> {
    match limit {
        Limit::Open => None,
        Limit::AtMost(limit) => Some(limit.get()),
    }
}

impl Reference {
    /// What is refused, and when it clears, for the first of those that clear last.
    fn admit(
        &mut self,
        rules: &[Rule],
        ask: Ask,
        now: u64,
        request: usize,
    ) -> Result<(), (Quota, Scope, Clears)> {
        let mut refused: Vec<(Quota, Scope, Clears)> = Vec::new();
        let worst = i128::from(ask.worst_tokens());
        for Rule { scope, limits } in rules {
            let line = self.0.entry(scope.clone()).or_default();
            let mut refuse = |quota, clears| refused.push((quota, scope.clone(), clears));
            let rates = [
                (Quota::RequestsPerMinute, &mut line.requests, limits.requests_per_minute, 1),
                (Quota::TokensPerMinute, &mut line.tokens, limits.tokens_per_minute, worst),
            ];
            for (quota, history, limit, asked) in rates {
                let Some(limit) = number(limit) else { continue };
                history.rates.push((now, i128::from(limit)));
                if !history.fits(asked, limit, now) {
                    refuse(quota, history.clears(asked, limit, now));
                }
            }
            if number(limits.at_once).is_some_and(|limit| line.running >= limit) {
                refuse(Quota::AtOnce, Clears::WhenOneEnds);
            }
            if number(limits.prompt_tokens).is_some_and(|limit| ask.prompt_tokens > limit) {
                refuse(Quota::PromptTokens, Clears::Never);
            }
            if number(limits.output_tokens).is_some_and(|limit| ask.output_tokens_max > limit) {
                refuse(Quota::OutputTokens, Clears::Never);
            }
        }
        if let Some(last) = refused.iter().map(|(.., clears)| *clears).max() {
            return Err(refused.into_iter().find(|(.., clears)| *clears == last).unwrap());
        }
        for Rule { scope, limits } in rules {
            let line = self.0.get_mut(scope).unwrap();
            line.running += 1;
            if number(limits.requests_per_minute).is_some() {
                line.requests.charges.push((now, 1, request));
            }
            if number(limits.tokens_per_minute).is_some() {
                line.tokens.charges.push((now, worst, request));
            }
        }
        Ok(())
    }

    /// As if `request` had asked `used` from the start.
    fn settle(&mut self, rules: &[Rule], request: usize, worst: u64, used: u64, now: u64) {
        for Rule { scope, limits } in rules {
            let charges = &mut self.0.get_mut(scope).unwrap().tokens.charges;
            if number(limits.tokens_per_minute).is_none() {
                continue;
            }
            if used > worst {
                charges.push((now, i128::from(used - worst), request));
            } else {
                charges.iter_mut().find(|(.., of)| *of == request).unwrap().1 = i128::from(used);
            }
        }
    }

    fn end(&mut self, rules: &[Rule]) {
        for Rule { scope, .. } in rules {
            self.0.get_mut(scope).unwrap().running -= 1;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Admit {
        key: u8,
        model: u8,
        version: usize,
        prompt: u32,
        output: u32,
        late: u64,
    },
    Wait(u64),
    /// To a nanosecond before what was refused last clears, and then on to that moment.
    WaitForClear,
    Settle {
        which: usize,
        percent: u64,
    },
    Drop {
        which: usize,
    },
    Sweep,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let late = prop_oneof![4 => Just(0), 1 => 0..20 * SECOND];
    let admit = (0..3_u8, 0..2_u8, 0..2_usize, 0..12_u32, 0..25_u32, late).prop_map(
        |(key, model, version, prompt, output, late)| {
            // The second set of rules comes now and then only.
            Step::Admit { key, model, version: version * usize::from(output % 5 == 0), prompt, output, late }
        },
    );
    let wait = prop_oneof![0..1_000_u64, 0..SECOND, 0..20 * SECOND, 0..2 * MINUTE].prop_map(Step::Wait);
    let settle = (0..16_usize, 0..120_u64).prop_map(|(which, percent)| Step::Settle { which, percent });
    let step = prop_oneof![
        12 => admit,
        5 => wait,
        3 => Just(Step::WaitForClear),
        5 => settle,
        2 => (0..16_usize).prop_map(|which| Step::Drop { which }),
        1 => Just(Step::Sweep),
    ];
    proptest::collection::vec(step, 1..60)
}

fn limit(most: u32) -> impl Strategy<Value = Limit> {
    prop_oneof![2 => Just(Limit::Open), 3 => (1..=most).prop_map(at_most)]
}

fn limits() -> impl Strategy<Value = Limits> {
    (limit(9), limit(90), limit(5), limit(30), limit(60)).prop_map(
        |(requests, tokens, at_once, prompt, output)| Limits {
            requests_per_minute: requests,
            tokens_per_minute: tokens,
            at_once,
            prompt_tokens: prompt,
            output_tokens: output,
        },
    )
}

/// The limits of the six places of a chain, in two versions.
fn versions() -> impl Strategy<Value = [[Limits; 6]; 2]> {
    proptest::array::uniform2(proptest::array::uniform6(limits()))
}

fn chain_of(key_number: u8, model: u8, limits: &[Limits; 6]) -> Chain {
    let levels = [key(key_number), project(u128::from(key_number % 2)), Level::Tenant(tenant(1))];
    let scopes = levels.iter().flat_map(|level| [(*level, Models::All), (*level, one_model(model))]);
    let rules = scopes.zip(limits).map(|((level, models), limits)| rule(level, models, *limits));
    Chain::new(tenant(1), rules.collect()).unwrap()
}

struct Run {
    limiter: Limiter,
    reference: Reference,
    now: u64,
    /// The latest that the limiter was told.
    seen: u64,
    open: Vec<(Grant, Chain, Ask, usize)>,
    requests: usize,
    /// And the moment at which it clears.
    refused: Option<(Chain, Ask, u64)>,
}

impl Run {
    fn admit(&mut self, chain: Chain, ask: Ask, late: u64) {
        let (early, request) = (self.now.saturating_sub(late), self.requests);
        self.seen = self.seen.max(early);
        self.requests += 1;
        let real = self.limiter.admit(&chain, ask, at(early));
        match (real, self.reference.admit(chain.rules(), ask, self.seen, request)) {
            (Ok(grant), Ok(())) => self.open.push((grant, chain, ask, request)),
            (Err(Refusal::Over(said)), Err((quota, scope, clears))) => {
                let behind = Duration::from_nanos(self.seen - early);
                let clears = match clears {
                    Clears::In(wait) => Clears::In(wait + behind),
                    Clears::WhenOneEnds | Clears::Never => clears,
                };
                assert_eq!((said.quota, &said.scope, said.clears), (quota, &scope, clears));
                if let Clears::In(wait) = clears {
                    self.refused = Some((chain, ask, at(early).after(wait).get()));
                }
            }
            (real, expected) => panic!("{real:?}, but {expected:?}"),
        }
    }

    fn step(&mut self, step: Step, versions: &[[Limits; 6]; 2]) {
        match step {
            Step::Admit { key, model, version, prompt, output, late } => {
                self.admit(chain_of(key, model, &versions[version]), ask(prompt, output), late);
            }
            Step::Wait(nanos) => self.now += nanos,
            Step::WaitForClear => {
                let Some((chain, ask, clear)) = self.refused.take() else { return };
                if clear > self.now {
                    self.now = clear - 1;
                    self.admit(chain.clone(), ask, 0);
                    self.now = clear;
                    self.admit(chain, ask, 0);
                }
            }
            Step::Settle { which, percent } => {
                if self.open.is_empty() {
                    return;
                }
                let (grant, chain, ask, request) = self.open.swap_remove(which % self.open.len());
                let used = ask.worst_tokens() * percent / 100;
                grant.settle(used, at(self.now));
                self.seen = self.now;
                self.reference.settle(chain.rules(), request, ask.worst_tokens(), used, self.now);
                self.reference.end(chain.rules());
            }
            Step::Drop { which } => {
                if !self.open.is_empty() {
                    let (grant, chain, ..) = self.open.swap_remove(which % self.open.len());
                    drop(grant);
                    self.reference.end(chain.rules());
                }
            }
            Step::Sweep => {
                if self.limiter.tenants() > 0 {
                    self.seen = self.now;
                }
                self.limiter.sweep(at(self.now));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_decision_is_the_definition_s(steps in steps(), versions in versions()) {
        let mut run = Run {
            limiter: Limiter::default(),
            reference: Reference::default(),
            now: 0,
            seen: 0,
            open: Vec::new(),
            requests: 0,
            refused: None,
        };
        for step in steps {
            run.step(step, &versions);
            prop_assert_eq!(run.limiter.in_flight(tenant(1)), run.open.len());
        }
        let Run { limiter, now, open, .. } = run;
        drop(open);
        limiter.sweep(at(now + 1_000 * MINUTE));
        prop_assert_eq!((limiter.tenants(), limiter.counters(tenant(1))), (0, 0));
    }

    /// Alone, at large numbers: in no stretch of time more than a minute's worth and what the rate gives.
    #[test]
    fn no_stretch_of_time_has_more_than_it_may(
        limit in prop_oneof![1..1_000_u32, Just(u32::MAX)],
        asks in proptest::collection::vec((0..40_u64, 1..=100_u64, 0..=100_u64, 0..MINUTE), 1..80),
    ) {
        let rules = only(2, Limits { tokens_per_minute: at_most(limit), ..Limits::OPEN });
        let limiter = Limiter::default();
        let mut now = 0;
        let mut log: Vec<(u64, u64)> = Vec::new();
        let mut open: Vec<(Grant, usize, u64)> = Vec::new();
        for (settle, percent, used, wait) in asks {
            now += wait;
            let tokens = u32::try_from(u64::from(limit) * percent / 100).unwrap();
            if let Ok(grant) = limiter.admit(&rules, ask(0, tokens), at(now)) {
                open.push((grant, log.len(), u64::from(tokens) * used / 100));
                log.push((now, u64::from(tokens)));
            }
            if let Ok(which) = usize::try_from(settle) && which < open.len() {
                let (grant, entry, used) = open.swap_remove(which);
                grant.settle(used, at(now));
                log[entry].1 = used;
            }
            for first in 0..log.len() {
                let total: u128 = log[first..].iter().map(|(_, tokens)| u128::from(*tokens) * 60_000_000_000).sum();
                let passed = u128::from(log[log.len() - 1].0 - log[first].0);
                prop_assert!(total <= u128::from(limit) * (60_000_000_000 + passed), "{:?}", &log[first..]);
            }
        }
    }
}
