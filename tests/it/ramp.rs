//! Tests the search for the lowest failing concurrency: its trials and its report.

use provoke::model::{
    Event, LoadObservation, Observation, Outcome, Plan, Question, RampQuestion, RequestsAtFailure,
    SlotId, StopLimits, Trial, VariantId, VariantPlan,
};
use provoke::questions::{self, Step, Verdict};
use provoke::questions::{Answer, Threshold};
use provoke::report::Report;
use provoke::state::State;
use std::time::Duration;

use crate::answers::failure;
use crate::loop_and_fold::{begin, plan};

/// Returns a search among these levels.
pub(crate) fn levels_of_load(levels: &[u32], above: bool) -> Plan {
    let mut plan = plan("");
    let level = |clients: &u32| VariantPlan {
        name: clients.to_string(),
        clients: Some(*clients),
        ..plan.variants[0].clone()
    };
    plan.variants = levels.iter().map(level).collect();
    plan.stop = StopLimits::default();
    let detect = 100_000;
    plan.question = Question::Ramp(RampQuestion { detect, above });
    plan
}

/// Runs trials one after another until the question is answered; `life` returns the number of responses before a crash.
fn run(plan: Plan, life: impl Fn(u32, u64) -> Option<u64>) -> State {
    let (_, mut state) = begin(plan);
    while !state.decided {
        let Step::Launch(variant) = questions::policy_of_plan(&state.plan).next_step(&state) else {
            break;
        };
        let trial = Trial {
            id: state.next_id(),
            variant,
            lane: SlotId(0),
            seed: 0,
            timeout: Duration::from_secs(1),
            capture: false,
            hold: None,
            explores: false,
            alone: None,
        };
        let id = trial.id;
        let clients = state.plan.variant_plan(variant).clients.unwrap();
        let served = life(clients, state.tally_of(variant).counted_trials());
        state.apply_event(&Event::TrialStarted(trial), questions::is_done);
        let load = LoadObservation {
            clients,
            served: served.unwrap_or(2000),
            death: served.map(|_| RequestsAtFailure::default()),
            ..LoadObservation::default()
        };
        let finished = Event::TrialFinished {
            trial: id,
            at: Duration::ZERO,
            seen: Box::new(Observation {
                load: Some(Box::new(load)),
                ..Observation::default()
            }),
            outcome: match served {
                Some(_) => {
                    let mut failure = failure(1);
                    "SIGSEGV, in parse".clone_into(&mut failure.signature.title);
                    Outcome::Fail(Box::new(failure))
                }
                None => Outcome::Pass,
            },
        };
        state.apply_event(&finished, questions::is_done);
    }
    state
}

fn verdict(state: &State) -> Verdict {
    questions::policy_of_plan(&state.plan).verdict_of(state)
}

fn answer(state: &State) -> Threshold {
    match Report::new(state, true).answer {
        Some(Answer::Ramp(answer)) => *answer,
        other => panic!("{other:?}"),
    }
}

const LEVELS: [u32; 9] = [1, 2, 4, 6, 8, 9, 10, 12, 16];

/// From this number of clients on, every other trial crashes.
fn crash_from(least: u32) -> impl Fn(u32, u64) -> Option<u64> {
    move |clients, turn| (clients >= least && turn % 2 == 0).then_some(700 + 100 * turn)
}

#[test]
fn the_answer_names_the_failing_level_and_the_clean_level_below() {
    let state = run(levels_of_load(&LEVELS, false), crash_from(10));
    assert_eq!(verdict(&state), Verdict::Found);
    let seen = answer(&state);
    insta::assert_snapshot!(seen.sentence, @"It dies from 10 clients on: SIGSEGV, in parse (with 9 it survived 29 of 29 trials)");
    assert_eq!((seen.clean_to, seen.fails_from), (Some(9), Some(10)));
    assert_eq!((seen.missing, seen.not_monotone), (None, None));
    let nine = &seen.levels[5];
    assert_eq!((nine.lives, nine.one_sided), (29, true));
    let summary = provoke::term::format_summary(
        &Report::new(&state, true),
        "x".as_ref(),
        "last",
        None,
        Vec::new(),
        None,
    );
    insta::assert_snapshot!(console::strip_ansi_codes(&summary), @"
    It dies from 10 clients on: SIGSEGV, in parse (with 9 it survived 29 of 29 trials)
      with 9 clients, it dies in less than 9.9 % of the trials (95 %, one-sided)

      clients  trials  died           95 %      served before  signature
            6       1     0   at most 95 %
            9      29     0  at most 9.9 %
           10      15     8     18 to 86 %  700 / 1300 / 2100  SIGSEGV, in parse
           16       1     1   2.5 to 100 %    700 / 700 / 700  SIGSEGV, in parse
      at most: upper limit, because no trial failed; served before: responses before the death (min / median / max)

      at level 10:
      8x    SIGSEGV, in parse: the program reported failure
            trials 4, 17, 19, 22, 28, 34, 40, 46

      assumes: more clients never make it safer

    continue   provoke resume last
    saved in   x
    ");
}

#[test]
fn without_failures_the_answer_is_an_upper_bound_of_the_rate() {
    let state = run(levels_of_load(&LEVELS, false), |_, _| None);
    assert_eq!(verdict(&state), Verdict::NotThere);
    let seen = answer(&state);
    insta::assert_snapshot!(seen.sentence, @"It does not die in 10 % or more of the trials at any level up to 16 clients (95 %, one-sided): at 16, 9.9 % or more is excluded");
    assert_eq!((seen.clean_to, seen.fails_from), (Some(16), None));
}

#[test]
fn the_lowest_level_can_be_the_answer() {
    let state = run(levels_of_load(&LEVELS, false), crash_from(1));
    assert_eq!(verdict(&state), Verdict::Found);
    insta::assert_snapshot!(answer(&state).sentence, @"It dies with 1 client already: SIGSEGV, in parse (3 of 5 trials; no lower level could be tried)");
}

#[test]
fn too_few_trials_are_reported_with_the_missing_number() {
    let mut output = Vec::new();
    for lives in [0, 2, 6, 12, 24, 36] {
        let mut plan = levels_of_load(&LEVELS, false);
        plan.stop.trials = Some(lives);
        let state = run(plan, crash_from(10));
        output.push(format!(
            "{:?}: {}",
            verdict(&state),
            answer(&state).sentence
        ));
    }
    insta::assert_snapshot!(output.join("\n"), @"
    CouldNotTest: NOT TESTED: no trial was conclusive
    Undecided: NOT KNOWN YET: 16 clients kill it (1 of 1 trial), 6 did not in 1 trial; the levels between are not known
    Undecided: NOT KNOWN YET: at 10 clients 1 of 1 trial died, at 9 0 of 3; the two do not differ significantly yet; 26 more passing trials at 9 would settle it
    Undecided: NOT KNOWN YET: at 10 clients 1 of 2 trials died, at 9 0 of 8; the two do not differ significantly yet; 21 more passing trials at 9 would settle it
    Undecided: NOT KNOWN YET: at 10 clients 4 of 7 trials died, at 9 0 of 15; 14 more passing trials at 9 would exclude a rate of 10 % there
    Undecided: NOT KNOWN YET: at 10 clients 6 of 11 trials died, at 9 0 of 23; 6 more passing trials at 9 would exclude a rate of 10 % there
    ");
}

/// Returns how many clean service runs of the level below are missing after each service run.
fn promised_clean_trials(least: u32) -> (Vec<u64>, u64) {
    let all = run(levels_of_load(&LEVELS, false), crash_from(least));
    let seen = answer(&all);
    let below = seen.clean_to.unwrap();
    let at = |state: &State| {
        let levels = answer(state).levels;
        levels
            .iter()
            .find(|level| level.clients == below)
            .unwrap()
            .lives
    };
    let mut promised = Vec::new();
    for lives in (8..all.completed_trials()).step_by(5) {
        let mut plan = levels_of_load(&LEVELS, false);
        plan.stop.trials = Some(lives);
        let state = run(plan, crash_from(least));
        let output = answer(&state);
        if let Some(missing) = output
            .missing
            .filter(|_| output.sentence.contains("more passing"))
        {
            promised.push(missing + at(&state));
        }
    }
    (promised, at(&all))
}

#[test]
fn the_reported_number_of_missing_trials_is_correct() {
    let (promised, taken) = promised_clean_trials(10);
    assert_eq!(taken, 29);
    assert!(promised.len() > 4, "{promised:?}");
    assert!(
        promised.iter().all(|promised| *promised == taken),
        "{promised:?}"
    );
}

#[test]
fn distinguished_levels_are_not_reported_as_equal() {
    let mut plan = levels_of_load(&LEVELS, false);
    plan.stop.trials = Some(28);
    let state = run(plan, |clients, turn| {
        (clients >= 9 && turn != 3).then_some(1)
    });
    insta::assert_snapshot!(answer(&state).sentence, @"NOT KNOWN YET: at 9 clients 8 of 9 trials died, at 8 0 of 17; 12 more passing trials at 8 would exclude a rate of 10 % there");
}

#[test]
fn the_table_of_levels_names_the_crashes() {
    let state = run(levels_of_load(&LEVELS, false), crash_from(10));
    let summary = provoke::term::format_summary(
        &Report::new(&state, true),
        "x".as_ref(),
        "last",
        None,
        Vec::new(),
        None,
    );
    let summary = console::strip_ansi_codes(&summary);
    let row = summary.lines().find(|line| line.trim().starts_with("10 "));
    assert!(row.unwrap().ends_with("  SIGSEGV, in parse"), "{summary}");
}

#[test]
fn a_level_with_a_lower_rate_than_a_lower_level_is_reported() {
    let state = run(levels_of_load(&[1, 2, 4, 8], true), |clients, turn| {
        (clients == 2 || clients == 4 && turn > 20).then_some(1)
    });
    insta::assert_snapshot!(answer(&state).sentence, @"It dies from 2 clients on: SIGSEGV, in parse (with 1 it survived 30 of 30 trials); but 8 clients kill it less often (0 of 28) than 2 (3 of 3): the failure rate does not rise with the load");
}

#[test]
fn invalid_levels_make_the_plan_unsound() {
    let sound = |levels: &[u32]| levels_of_load(levels, false).is_sound();
    assert!(sound(&LEVELS) && sound(&[5]));
    assert!(!sound(&[0, 1]) && !sound(&[2, 1]) && !sound(&[2, 2]));
    let mut plan = levels_of_load(&LEVELS, false);
    plan.variants[3].clients = None;
    assert!(!plan.is_sound());
}

#[test]
fn an_untestable_level_is_skipped() {
    let (_, mut state) = begin(levels_of_load(&LEVELS, false));
    let why = "no such thing".to_owned();
    let at = Duration::ZERO;
    let variant = VariantId(8);
    state.apply_event(
        &Event::VariantUntestable { variant, why, at },
        questions::is_done,
    );
    let next = questions::policy_of_plan(&state.plan).next_step(&state);
    assert_eq!(next, Step::Launch(VariantId(7)));
}
