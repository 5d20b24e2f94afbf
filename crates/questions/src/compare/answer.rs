//! Answer of `compare`: which variants fail, and whether they differ.

use super::contrast_report::ContrastReport;
use super::detectable::{DetectableRates, describe_detectable};
use super::factors::{FactorReport, factor_effects, fails_where};
use super::{RacePolicy, RatesPolicy, VariantVerdict, contrasts};
use crate::answer::{
    AnswerText, DescribedVariants, NOT_KNOWN, RateMeaning, VariantSummary, format_confidence,
    independence_assumptions, sentence_and_assumptions, unrecorded_assumption,
};
use crate::baseline::differing_from_baseline;
use crate::{BaselineReport, Policy as _, StopRule, Verdict};
use provoke_model::{CompareGoal, CompareQuestion, ConditionDifference, VariantId};
use provoke_state::State;
use provoke_stats::{self as stats, real};
use provoke_survey::{
    DifferingFact, DistinguishingFact, chance_of_coincidence, describe_odds, differing_facts,
    distinguishing_facts_of_variants, fact_lines,
};
use provoke_words as words;
use provoke_words::document::{SuggestedCommand, Table};
use provoke_words::untrusted::SafeText;
use serde::Serialize;

/// Maximum number of lines about distinguishing facts, and of names or values in each.
const SHOWN_FACTS: usize = 2;
const NAMED: usize = 8;
/// From this number on, variants that passed are not named individually.
const MANY: usize = 4;
/// The floor that is suggested, and its form on the command line.
const SUGGESTED_FLOOR: (f64, &str) = (0.05, "5%");

/// Which variants fail, and whether they differ, with the numbers behind the answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompareAnswer {
    /// The answer in one sentence.
    pub sentence: String,
    /// The goal of the comparison.
    pub find: CompareGoal,
    /// The result for each variant.
    pub variants: Vec<VariantResult>,
    /// The reference that passing variants were compared with; null if a floor was given, if rates were compared, or if
    /// nothing failed.
    pub baseline: Option<BaselineReport>,
    /// A clean variant fails in a smaller share of its trials than this; null without `--floor`.
    pub floor: Option<f64>,
    /// Passing trials needed to call a variant clean; null until that is known.
    pub clean_needed: Option<u64>,
    /// The pairwise comparisons, if rates were compared.
    pub contrasts: Vec<ContrastReport>,
    /// The nearest rates that would have been distinguished from the measured one.
    #[serde(rename = "detectable")]
    pub could_see: Option<DetectableRates>,
    /// The variants by setting, if they are combinations.
    pub factors: Vec<FactorReport>,
    /// The settings that all failing combinations share and no other combination has; null if not known, or if there
    /// are none. Without a floor, the other combinations may also fail, but less often.
    pub fails_where: Option<String>,
    /// The facts about programs, libraries, packages and processors in which variants differ, the most suspicious
    /// first. Facts that were varied on purpose are left out.
    pub facts: Vec<DifferingFact>,
    /// The facts that distinguish the failing variants from those that fail less often or not at all, the most
    /// suspicious first.
    pub distinguishing_facts: Vec<DistinguishingFact>,
    /// The probability that a fact shared by this many variants belongs to exactly the failing ones by chance; null if
    /// all failed, or none did.
    pub chance: Option<f64>,
    /// The probability that any part of the answer is wrong.
    pub error_rate: f64,
    /// Conditions that differ from those of the baseline run.
    pub differences: Vec<ConditionDifference>,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
}

/// The result for one variant.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariantResult {
    /// Its name.
    pub name: String,
    /// Whether it fails.
    pub standing: VariantVerdict,
    /// The upper end of the interval of its failure rate, if it passed often enough.
    pub rate_below: Option<f64>,
    /// Why it is not testable.
    pub why: Option<String>,
}

impl CompareAnswer {
    pub(super) fn new(state: &State) -> Option<Self> {
        let question = state.goal.question.as_compare()?;
        let standings = variant_standings(state, question);
        let (baseline, clean_needed) = if question.find == CompareGoal::Failing {
            (
                RacePolicy::reference_counts(state),
                RacePolicy::needed_passes(state),
            )
        } else {
            (None, None)
        };
        let alpha = state.goal.alpha.to_probability();
        let mut answer = Self {
            sentence: String::new(),
            find: question.find,
            variants: standings,
            floor: question.floor.map(|floor| f64::from(floor) / 1e6),
            baseline: baseline.map(|(measured, whose)| {
                let name = whose.map(|id| state.trials.variant_plan(id).name.clone());
                BaselineReport::new(&measured, name)
            }),
            clean_needed,
            contrasts: contrasts(state)
                .iter()
                .map(|contrast| ContrastReport::new(state, contrast))
                .collect(),
            could_see: DetectableRates::of_weakest_contrast(state),
            factors: factor_effects(state),
            fails_where: None,
            facts: facts_of_tried_variants(state),
            distinguishing_facts: Vec::new(),
            chance: None,
            error_rate: alpha,
            assumptions: list_assumptions(state, question),
            differences: differing_from_baseline(state, question.baseline.as_deref()),
        };
        let verdicts: Vec<VariantVerdict> = answer
            .variants
            .iter()
            .map(|result| result.standing)
            .collect();
        answer.fails_where = fails_where(&state.trials, &verdicts);
        answer.find_distinguishing_facts(state);
        answer.sentence = match question.find {
            CompareGoal::Failing => answer.of_race(state),
            CompareGoal::Different => answer.of_rates(state),
        };
        Some(answer)
    }

    /// Finds the facts that distinguish failed variants from variants that passed often enough.
    fn find_distinguishing_facts(&mut self, state: &State) {
        let (failing, passing) = self.failed_and_passed();
        if failing == 0 || passing == 0 {
            return;
        }
        let standings: Vec<(VariantId, bool)> = (0..)
            .map(VariantId)
            .zip(&self.variants)
            .filter_map(|(id, result)| match result.standing {
                VariantVerdict::Fails => Some((id, true)),
                VariantVerdict::FailsLess | VariantVerdict::Clean => Some((id, false)),
                VariantVerdict::Open | VariantVerdict::Untestable => None,
            })
            .collect();
        self.distinguishing_facts =
            distinguishing_facts_of_variants(&state.trials, &state.origin.survey, &standings);
        self.chance = Some(chance_of_coincidence(failing, passing));
    }

    /// Returns the number of variants that failed, and of variants that passed often enough.
    fn failed_and_passed(&self) -> (u64, u64) {
        let failed = self.variant_names(|standing| standing == VariantVerdict::Fails);
        let passed = self.variant_names(VariantVerdict::has_passed);
        (failed.len() as u64, passed.len() as u64)
    }

    fn variant_names(&self, is_wanted: impl Fn(VariantVerdict) -> bool) -> Vec<&str> {
        let matching = self
            .variants
            .iter()
            .filter(|result| is_wanted(result.standing));
        matching.map(|result| result.name.as_str()).collect()
    }

    fn of_race(&self, state: &State) -> String {
        let fails = self.variant_names(|standing| standing == VariantVerdict::Fails);
        let open = self.variant_names(|standing| standing == VariantVerdict::Open);
        let untestable = self.variant_names(|standing| standing == VariantVerdict::Untestable);
        let passed = self.variant_names(VariantVerdict::has_passed);
        let answer = match (fails.as_slice(), passed.as_slice()) {
            ([], []) => "no variant failed".to_owned(),
            ([], passed) => format!("no variant failed: {}", self.say_passed(state, passed)),
            (fails, []) if open.is_empty() => match fails {
                [name] => format!("{name} fails"),
                _ => format!("all variants fail: {}", list_names(fails)),
            },
            (fails, []) => names_with_verb(fails, "fails", "fail"),
            (fails, passed) => {
                let failed = match &self.fails_where {
                    Some(rule) => format!(
                        "It fails with {rule} ({} of {} variants)",
                        fails.len(),
                        fails.len() + passed.len(),
                    ),
                    None => names_with_verb(fails, "fails", "fail"),
                };
                format!("{failed}; {}", self.say_passed(state, passed))
            }
        };
        let unknown = match open.as_slice() {
            [] => String::new(),
            _ if fails.is_empty() && passed.is_empty() => String::new(),
            open => format!("; not known yet: {}", list_names(open)),
        };
        let untested = match untestable.as_slice() {
            [] => String::new(),
            names => format!("; not testable: {}", list_names(names)),
        };
        format!("{answer}{unknown}{untested}")
    }

    /// Describes the variants that passed often enough.
    fn say_passed(&self, state: &State, passed: &[&str]) -> String {
        let confidence = format_confidence(&state.goal);
        let (is_single, names) = match passed {
            [name] => (true, words::sanitize_line(name)),
            _ if self.fails_where.is_some() => (false, format!("the other {}", passed.len())),
            _ if passed.len() >= MANY && self.is_all_known() => {
                (false, format!("the other {} variants", passed.len()))
            }
            _ => (false, list_names(passed)),
        };
        let results = (0..).map(VariantId).zip(&self.variants);
        let trials: Vec<(u64, f64)> = results
            .filter(|(_, result)| result.standing.has_passed())
            .map(|(id, result)| {
                (
                    state.tally_of(id).counted_trials(),
                    result.rate_below.unwrap_or(1.0),
                )
            })
            .collect();
        let fewest_trials = trials.iter().min_by_key(|(trials, _)| *trials);
        let (fewest, bound) = fewest_trials.copied().unwrap_or((0, 1.0));
        let times = words::format_count(fewest, "time");
        let passed = match is_single {
            true => times,
            false if trials.iter().all(|(trials, _)| *trials == fewest) => format!("{times} each"),
            false => format!("at least {times} each"),
        };
        if let Some(floor) = self.floor {
            let be = if is_single { "is" } else { "are" };
            let floor = words::format_percent(floor);
            return format!(
                "{names} {be} clean at {confidence} (passed {passed}: rate below {floor} %)"
            );
        }
        let fail = if is_single { "fails" } else { "fail" };
        let bound_text = words::percent_bound(bound);
        let base = self.baseline.as_ref();
        let reference = match base.map(|base| (&base.variant, base)) {
            // The rule names the reference.
            Some((Some(variant), _)) if self.fails_where.is_none() => {
                format!(" than {}", words::sanitize_line(variant))
            }
            Some((None, base)) => {
                format!(" than the baseline ({} of {})", base.failures, base.trials)
            }
            Some(_) | None => {
                return format!(
                    "{names} passed {passed} ({confidence}: rate below {bound_text} %)"
                );
            }
        };
        format!(
            "{names} {fail} less often{reference}, if at all ({confidence}): passed {passed}, rate below {bound_text} %",
        )
    }

    fn is_all_known(&self) -> bool {
        let is_known =
            |standing: VariantVerdict| standing == VariantVerdict::Fails || standing.has_passed();
        self.variants.iter().all(|result| is_known(result.standing))
    }

    fn of_rates(&self, state: &State) -> String {
        let differing: Vec<&ContrastReport> = self
            .contrasts
            .iter()
            .filter(|contrast| contrast.differs)
            .collect();
        if !differing.is_empty() {
            let sentences: Vec<String> = differing
                .iter()
                .flat_map(|contrast| {
                    let failures = contrast
                        .fails_differently()
                        .then(|| contrast.describe_failures());
                    [contrast.to_sentence()].into_iter().chain(failures)
                })
                .collect();
            let outcome = match RatesPolicy.verdict_of(state) {
                Verdict::Fixed => "THE FIX HOLDS",
                Verdict::NotFixed => "NOT FIXED",
                _ => "DIFFERENT",
            };
            return format!(
                "{outcome} at {}: {}",
                format_confidence(&state.goal),
                sentences.join("; ")
            );
        }
        let verdict = RatesPolicy.verdict_of(state);
        if verdict == Verdict::Different {
            let differing = self
                .contrasts
                .iter()
                .filter(|contrast| contrast.fails_differently());
            let sentences: Vec<String> = differing.map(ContrastReport::describe_failures).collect();
            return format!(
                "DIFFERENT at {}: {}",
                format_confidence(&state.goal),
                sentences.join("; ")
            );
        }
        match verdict {
            Verdict::CouldNotTest => not_tested(state),
            Verdict::NoDifference => {
                format!("NOT KNOWN: no difference found{}", self.describe_power())
            }
            _ if asks_for_a_fix(state) && state.stage.is_finished() => {
                format!("NOT KNOWN whether the fix holds{}", self.describe_power())
            }
            _ => format!("NOT KNOWN YET{}", self.describe_power()),
        }
    }

    /// Returns how many trials would show that a variant fails half as often.
    fn suggest_trials(&self) -> Option<String> {
        if self
            .contrasts
            .iter()
            .any(|contrast| contrast.differs || contrast.fails_differently())
        {
            return None;
        }
        self.could_see?
            .suggest_trials(self.error_rate / real(self.contrasts.len().max(1) as u64))
    }

    /// Describes which differences would have been detected.
    fn describe_power(&self) -> String {
        self.could_see
            .as_ref()
            .map_or_else(String::new, DetectableRates::describe_power)
    }

    /// Suggests a floor, which shows more about variants that fail less often, if at all.
    fn suggest_floor(&self) -> Option<String> {
        let (rate, written) = SUGGESTED_FLOOR;
        let level = stats::race_alpha(self.variants.len() as u64 + 1, self.error_rate);
        let trials = stats::clean_runs_at_known_rate(rate, level)?;
        self.variants.iter().find(|variant| {
            variant.standing == VariantVerdict::FailsLess
                && variant.rate_below.is_none_or(|bound| bound >= rate)
        })?;
        Some(format!(
            "add --floor {written} to show that a variant fails in less than {} % of its trials; this takes {} of each",
            words::format_percent(rate),
            words::format_count(trials, "passing trial"),
        ))
    }

    /// Describes the facts that distinguish the failing variants.
    fn distinguishing_lines(&self) -> Vec<String> {
        let all_lines = fact_lines(&self.distinguishing_facts, NAMED);
        if all_lines.is_empty() {
            return Vec::new();
        }
        let shown_lines = all_lines.iter().take(SHOWN_FACTS);
        let mut lines: Vec<String> = shown_lines
            .map(|line| format!("failing only where {}", line.text))
            .collect();
        if all_lines.len() > SHOWN_FACTS {
            lines.push("further distinguishing facts are in the JSON report".to_owned());
        }
        let (failing, passing) = self.failed_and_passed();
        lines.push(describe_odds("variant", failing, passing));
        lines
    }
}

impl AnswerText for CompareAnswer {
    sentence_and_assumptions!();

    fn detail_lines(&self) -> Vec<String> {
        let base = self.baseline.as_ref();
        let mut lines = base.map_or_else(Vec::new, BaselineReport::say_runs);
        // The table of a single factor says the same; a rule says more.
        let factors = if self.factors.len() > 1 && self.fails_where.is_none() {
            &self.factors[..]
        } else {
            &[]
        };
        for factor in factors {
            let levels: Vec<String> = factor
                .levels
                .iter()
                .map(|level| {
                    format!(
                        "{} in {} of {} variants ({} of {} trials)",
                        level.level, level.failing, level.variants, level.failures, level.trials
                    )
                })
                .collect();
            lines.push(format!("failing by {}: {}", factor.name, levels.join(", ")));
        }
        lines.extend(self.distinguishing_lines());
        lines.extend(self.suggest_floor());
        lines.extend(self.suggest_trials());
        lines
    }

    fn commands(&self, _: &SafeText) -> Vec<SuggestedCommand> {
        // Those that passed may fail less often.
        let any = |is_so: fn(VariantVerdict) -> bool| {
            let mut variants = self.variants.iter();
            variants.any(|variant| is_so(variant.standing))
        };
        let fails = any(|verdict| verdict == VariantVerdict::Fails);
        let is_mixed = fails && any(VariantVerdict::has_passed);
        let is_mixed = is_mixed && self.find == CompareGoal::Failing;
        let rates =
            SuggestedCommand::new("compare their rates", "repeat this with --find different");
        is_mixed.then_some(rates).into_iter().collect()
    }

    fn tables(&self, variants: &[VariantSummary], confidence: f64) -> Vec<Table> {
        let further = [
            self.factor_table(),
            self.contrast_table(),
            self.fact_table(),
        ];
        std::iter::once(self.variant_table(variants, confidence))
            .chain(further.into_iter().flatten())
            .collect()
    }

    fn result(&self, verdict: Verdict, _: &[VariantSummary]) -> String {
        if let Some(rule) = &self.fails_where {
            return rule.replace(" and ", " ");
        }
        let fails = self.variant_names(|standing| standing == VariantVerdict::Fails);
        match (self.find, verdict, fails.as_slice()) {
            (CompareGoal::Different, Verdict::Different, _) => {
                let rates_differ = self.contrasts.iter().any(|contrast| contrast.differs);
                let what = if rates_differ { "rates" } else { "failures" };
                format!("{what} differ")
            }
            (CompareGoal::Different, Verdict::NoDifference, _) => "no difference".to_owned(),
            (CompareGoal::Failing, _, [name]) => format!("{name} fails"),
            (CompareGoal::Failing, _, fails) if fails.len() == self.variants.len() => {
                "all fail".to_owned()
            }
            (CompareGoal::Failing, _, fails) if !fails.is_empty() => {
                format!("{} fail", fails.join(", "))
            }
            (CompareGoal::Failing, Verdict::Clean | Verdict::NoDifference, _) => {
                "none fails".to_owned()
            }
            _ => NOT_KNOWN.to_owned(),
        }
    }

    fn ci_test(&self) -> (&'static str, &'static str) {
        ("compare", "variants do not differ")
    }

    fn described_variants(&self) -> DescribedVariants {
        DescribedVariants::Captured
    }

    fn rate_meaning(&self) -> RateMeaning {
        RateMeaning::Measured
    }
}

/// Describes why nothing could be compared.
fn not_tested(state: &State) -> String {
    let Some(question) = state.goal.question.as_compare() else {
        return String::new();
    };
    let mut untested = (0..)
        .map(VariantId)
        .zip(&state.trials.variants)
        .filter(|(id, _)| *id != question.reference && state.is_testable(*id));
    match untested.next() {
        Some((_, other_variant)) if !state.is_testable(question.reference) => format!(
            "NOT TESTED: the reference {} is not testable; --reference '{}' uses another",
            state.trials.variant_plan(question.reference).name,
            other_variant.name
        ),
        _ => "NOT TESTED: fewer than two variants are testable".to_owned(),
    }
}

fn list_assumptions(state: &State, question: &CompareQuestion) -> Vec<String> {
    let mut assumptions = independence_assumptions(state);
    let named = question
        .baseline
        .as_ref()
        .is_some_and(|base| !base.bugs.is_empty());
    if named && state.trials.rules.only.is_empty() {
        assumptions
            .push("every failure is the bug of the baseline (--only selects failures)".to_owned());
    }
    let runs = question
        .baseline
        .as_ref()
        .map_or(&[][..], |base| &base.runs);
    if runs.len() > 1 {
        assumptions.extend(unrecorded_assumption("the runs of the baseline", runs));
    }
    let differences = differing_from_baseline(state, question.baseline.as_deref()).into_iter();
    assumptions.extend(
        differences.map(|difference| format!("the failure rate does not depend on {difference}")),
    );
    assumptions
}

/// Returns the result of each variant; in a comparison of rates, whether it ever failed.
fn variant_standings(state: &State, question: &CompareQuestion) -> Vec<VariantResult> {
    let alpha = state.goal.alpha.to_probability();
    let standing = |(id, standing): (VariantId, VariantVerdict)| {
        let standing = match question.find {
            CompareGoal::Different if standing.has_passed() => VariantVerdict::Open,
            _ => standing,
        };
        let tally = state.tally_of(id);
        let rate = StopRule::PlannedN.interval(tally.failures, tally.counted_trials(), alpha);
        VariantResult {
            name: state.trials.variant_plan(id).name.clone(),
            standing,
            rate_below: standing.has_passed().then_some(rate.hi),
            why: state.untestable.get(&id).cloned(),
        }
    };
    let standings = (0..).map(VariantId).zip(RacePolicy::all_standings(state));
    standings.map(standing).collect()
}

/// Describes the comparison before it starts; for a comparison of rates also the detectable differences.
pub(super) fn lines_before_start(state: &State, question: &CompareQuestion) -> Vec<String> {
    let variants = state.trials.variants.len();
    let needed =
        || RacePolicy::needed_passes(state).map_or("no number of".to_owned(), |n| n.to_string());
    match (question.find, question.floor, &question.baseline) {
        (CompareGoal::Failing, Some(_), _) => vec![format!(
            "{variants} variants; a variant stops at its first failure or after {} passes",
            needed()
        )],
        (CompareGoal::Failing, None, Some(base)) => {
            let mut lines = vec![format!(
                "{variants} variants; a variant stops at its first failure, or after {} passes: then it fails less often than the baseline",
                needed()
            )];
            lines.extend(BaselineReport::new(base, None).runs_beforehand());
            lines
        }
        (CompareGoal::Failing, None, None) => vec![format!(
            "{variants} variants; a variant stops at its first failure or after enough passes; the first one to fail goes on, to measure its rate"
        )],
        (CompareGoal::Different, ..) => vec![describe_detectable(state)],
    }
}

fn facts_of_tried_variants(state: &State) -> Vec<DifferingFact> {
    let tested: Vec<VariantId> = state
        .all_tallies()
        .map(|(id, _)| id)
        .filter(|id| state.is_testable(*id))
        .collect();
    differing_facts(&state.trials, &state.origin.survey, &tested)
}

fn names_with_verb(names: &[&str], singular: &str, many: &str) -> String {
    let verb = if names.len() == 1 { singular } else { many };
    format!("{} {verb}", list_names(names))
}

/// Joins names for a sentence, at most a few of them.
fn list_names(names: &[&str]) -> String {
    const SHOWN: usize = 6;
    let names: Vec<String> = names
        .iter()
        .map(|name| words::sanitize_line(name))
        .collect();
    if names.len() > SHOWN {
        words::list_first(&names, SHOWN)
    } else {
        words::join_names("and", names)
    }
}

fn asks_for_a_fix(state: &State) -> bool {
    state
        .goal
        .question
        .as_compare()
        .is_some_and(|question| question.fixed)
}
