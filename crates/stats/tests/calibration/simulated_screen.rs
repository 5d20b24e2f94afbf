//! Simulates programs that fail under conditions, and runs screens on them.

use provoke_stats::screen::{
    Condition, ConditionRole, ConditionVerdict, Limits, Next, Outcome, Screen, SeedTest,
    SuiteScreen,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// A program and the conditions of its screen.
#[derive(Clone)]
pub(crate) struct World {
    /// The failure rates of plain trials: one for 20 trials, the other for the next 20, and so on.
    pub(crate) base: [f64; 2],
    /// Conditions with an effect, and the failure rate under them.
    pub(crate) effects: Vec<(usize, f64)>,
    /// Conditions that only have an effect together, and the failure rate under them.
    pub(crate) joint_effect: Option<(Vec<usize>, f64)>,
    /// Number of seeds that always fail, if the others always pass; otherwise seeds have no effect.
    pub(crate) failing_seeds: Option<usize>,
    /// The conditions.
    pub(crate) conditions: Vec<Condition>,
    /// Number of parallel trials.
    pub(crate) parallel: usize,
    /// Share of inconclusive trials.
    pub(crate) inconclusive: f64,
}

/// The end of a screen.
pub(crate) struct Ended {
    /// Number of trials.
    pub(crate) trials: u64,
    /// Number of trials at the first correct claim of a condition.
    pub(crate) first_claim: Option<u64>,
    /// Number of conditions with an effect that are claimed, in the true direction.
    pub(crate) found: usize,
    /// Whether there is a claim for a condition without an effect, or in the wrong direction.
    pub(crate) is_wrong: bool,
    /// Number of trials at the claim of the seed test.
    pub(crate) seed_claim: Option<u64>,
    /// The screen itself.
    pub(crate) screen: Screen,
}

impl World {
    /// Returns a program without an effect, with this number of conditions of as many families.
    pub(crate) fn harmless(base: f64, count: usize) -> Self {
        let conditions = (0..count).map(|family| Condition {
            family,
            sham: None,
            is_harsh: false,
            role: ConditionRole::Tried,
        });
        Self {
            base: [base; 2],
            effects: Vec::new(),
            joint_effect: None,
            failing_seeds: None,
            conditions: conditions.collect(),
            parallel: 1,
            inconclusive: 0.0,
        }
    }

    /// Gives three conditions a common sham that raises the failure rate to this one, as they do.
    pub(crate) fn with_raising_sham(mut self, rate: f64) -> Self {
        let sham = self.conditions.len();
        self.effects.push((sham, rate));
        for condition in [2, 7, 11] {
            self.conditions[condition].sham = Some(sham);
            self.effects.push((condition, rate));
        }
        self.conditions.push(Condition {
            family: sham,
            sham: None,
            is_harsh: false,
            role: ConditionRole::ShamOnly,
        });
        self
    }

    /// Adds effects.
    pub(crate) fn with_effects(mut self, effects: &[(usize, f64)]) -> Self {
        self.effects = effects.to_vec();
        self
    }

    /// Adds an effect of conditions that only matter together.
    pub(crate) fn with_joint_effect(mut self, conditions: &[usize], rate: f64) -> Self {
        self.joint_effect = Some((conditions.to_vec(), rate));
        self
    }

    /// Makes the first conditions harsh.
    pub(crate) fn with_harsh(mut self, count: usize) -> Self {
        for condition in &mut self.conditions[..count] {
            condition.is_harsh = true;
        }
        self
    }

    /// Adds twelve seeds of a family of their own.
    pub(crate) fn with_seeds(mut self) -> Self {
        let family = self.conditions.len();
        self.conditions.extend((0..12).map(|_| Condition {
            family,
            sham: None,
            is_harsh: false,
            role: ConditionRole::Seed,
        }));
        self
    }

    fn rate(&self, set: &[usize], trial: u64) -> f64 {
        let is_seed = |i: &usize| self.conditions[*i].role == ConditionRole::Seed;
        if let (Some(failing), [condition]) = (self.failing_seeds, set)
            && is_seed(condition)
        {
            let mut failing = (0..self.conditions.len()).filter(is_seed).take(failing);
            return f64::from(u8::from(failing.any(|seed| seed == *condition)));
        }
        let base = self.base[usize::from((trial / 20) % 2 == 1)];
        let present = self
            .effects
            .iter()
            .filter(|(condition, _)| set.contains(condition));
        let joint = self.joint_effect.as_ref();
        let joint = joint.filter(|(joint, _)| joint.iter().all(|one| set.contains(one)));
        let rates = present.map(|(_, rate)| *rate);
        let rates = rates.chain(joint.map(|(_, rate)| *rate));
        let (raising, removing): (Vec<f64>, Vec<f64>) = rates.partition(|rate| *rate >= base);
        let raised = raising.into_iter().fold(base, f64::max);
        removing.into_iter().fold(raised, f64::min)
    }

    fn outcome(&self, set: &[usize], trial: u64, random: &mut Pcg64Mcg) -> Outcome {
        if random.random_bool(self.inconclusive) {
            return Outcome::NotCounted;
        }
        if random.random_bool(self.rate(set, trial)) {
            Outcome::Failed
        } else {
            Outcome::Passed
        }
    }

    /// Returns whether a claim is correct: the condition differs from its reference in this direction.
    fn is_correct(&self, condition: usize, verdict: ConditionVerdict) -> bool {
        let sham: Vec<usize> = self.conditions[condition].sham.into_iter().collect();
        let differences =
            [0, 20].map(|trial| self.rate(&[condition], trial) - self.rate(&sham, trial));
        match verdict {
            ConditionVerdict::Raises => differences.iter().any(|d| *d > 0.0),
            ConditionVerdict::Removes => differences.iter().any(|d| *d < 0.0),
            _ => true,
        }
    }

    /// Runs a screen.
    pub(crate) fn run_screen(&self, seed: u64, trials: u64) -> Ended {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let limits = Limits {
            trials,
            parallel: self.parallel,
        };
        let mut screen = Screen::new(self.conditions.clone(), 0.05, limits, random.random());
        let mut running: Vec<(Vec<usize>, Outcome)> = Vec::new();
        let (mut launched, mut ended) = (0, 0);
        let mut claims = Vec::new();
        let mut seeds = None;
        loop {
            let sets: Vec<Vec<usize>> = running.iter().map(|(set, _)| set.clone()).collect();
            let next = screen.next(&sets);
            if let (Next::Trial(set), true) = (&next, running.len() < self.parallel) {
                let outcome = self.outcome(set, launched, &mut random);
                running.push((set.clone(), outcome));
                launched += 1;
                continue;
            }
            if running.is_empty() {
                assert_eq!(next, Next::Done);
                break;
            }
            let (set, outcome) = running.swap_remove(random.random_range(0..running.len()));
            screen.record(&set, outcome);
            ended += 1;
            claims.resize(screen.claimed_conditions().len(), ended);
            let has_seeds = screen.seed_tests().iter().any(SeedTest::is_claimed);
            seeds = seeds.or(has_seeds.then_some(ended));
        }
        let claimed = screen.claimed_conditions();
        let is_right: Vec<bool> = claimed
            .iter()
            .map(|&condition| self.is_correct(condition, screen.result_of(condition).verdict))
            .collect();
        let right: Vec<u64> = claims
            .iter()
            .zip(&is_right)
            .filter(|c| *c.1)
            .map(|c| *c.0)
            .collect();
        Ended {
            trials: ended,
            first_claim: right.first().copied(),
            found: right.len(),
            is_wrong: is_right.contains(&false)
                || screen.joint_claim().is_some_and(|claim| {
                    let rate = |set: &[usize]| self.rate(set, 0);
                    rate(&claim.conditions).total_cmp(&rate(&[])).is_eq()
                })
                || (seeds.is_some() && self.failing_seeds.is_none()),
            seed_claim: seeds,
            screen,
        }
    }
}

/// A suite: each test is a program of its own, under the same conditions.
pub(crate) struct SuiteWorld {
    /// The tests.
    pub(crate) tests: Vec<World>,
    /// Whether tests with the same rate fail in the same trials.
    pub(crate) fail_together: bool,
}

/// The end of a screen of a suite.
pub(crate) struct SuiteEnded {
    /// Number of trials.
    pub(crate) trials: u64,
    /// Number of tests with an effect that is claimed, in the true direction.
    pub(crate) found: usize,
    /// Whether there is a wrong claim about any test.
    pub(crate) is_wrong: bool,
    /// The tests whose outcome is claimed to depend on the seed.
    pub(crate) seed_claims: Vec<usize>,
    /// The screen itself.
    pub(crate) screen: SuiteScreen,
}

impl SuiteWorld {
    fn outcomes(&self, set: &[usize], trial: u64, random: &mut Pcg64Mcg) -> Vec<Outcome> {
        let shared = Pcg64Mcg::seed_from_u64(random.random());
        let outcomes = self.tests.iter().map(|test| {
            if self.fail_together {
                test.outcome(set, trial, &mut shared.clone())
            } else {
                test.outcome(set, trial, random)
            }
        });
        outcomes.collect()
    }

    /// Runs a screen, with one trial at a time.
    pub(crate) fn run_screen(&self, seed: u64, trials: u64) -> SuiteEnded {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let limits = Limits {
            trials,
            parallel: 1,
        };
        let conditions = self.tests[0].conditions.clone();
        let mut screen = SuiteScreen::new(conditions, 0.05, limits, random.random());
        let mut trials = 0;
        while let Next::Trial(set) = screen.next(&[]) {
            let outcomes = self.outcomes(&set, trials, &mut random);
            screen.record(&set, outcomes);
            trials += 1;
        }
        let is_right: Vec<bool> = screen
            .claims()
            .map(|(test, condition, _)| {
                let verdict = screen.result_of(test, condition).verdict;
                self.tests[test].is_correct(condition, verdict)
            })
            .collect();
        let seed_claims: Vec<usize> = screen.seed_claims().map(|(test, _)| test).collect();
        let is_fixed = |test: &usize| self.tests[*test].failing_seeds.is_some();
        SuiteEnded {
            trials,
            found: is_right.iter().filter(|is_right| **is_right).count(),
            is_wrong: is_right.contains(&false) || !seed_claims.iter().all(is_fixed),
            seed_claims,
            screen,
        }
    }
}
