//! Tests the search for the lowest failing concurrency: its trials and its report.

use provoke_judge as judge;
use provoke_model::{
    Event, LoadObservation, LoadStage, Observation, Outcome, Plan, Question, RampQuestion,
    RequestResult, RequestsAtFailure, SlotId, StopLimits, Trial, TrialPurpose, TrialsPlan,
    VariantId, VariantPlan,
};
use provoke_questions as questions;
use provoke_questions::{RampAnswer, Step, Verdict};
use provoke_report::Report;
use provoke_state::State;
use std::time::Duration;

use crate::answers::failure;
use crate::loop_and_fold::{begin, plan};

/// Returns a search among these levels.
pub(crate) fn levels_of_load(levels: &[u32], above: bool) -> Plan {
    let mut plan = plan("");
    let level = |clients: &u32| VariantPlan {
        name: clients.to_string(),
        clients: Some(*clients),
        ..plan.trials.variants[0].clone()
    };
    plan.trials.variants = levels.iter().map(level).collect();
    plan.stop = StopLimits::default();
    let detect = 100_000;
    plan.goal.question = Question::Ramp(RampQuestion { detect, above });
    plan
}

/// Runs trials one after another until the question is answered; `life` returns the number of responses before a crash.
fn run(plan: Plan, life: impl Fn(u32, u64) -> Option<u64>) -> State {
    run_loads(plan, |_, clients, turn| {
        let served = life(clients, turn);
        let load = LoadObservation {
            served: served.unwrap_or(2000),
            death: served.map(|_| RequestsAtFailure::default()),
            ..LoadObservation::default()
        };
        let outcome = served.map_or(Outcome::Pass, |_| crash());
        (load, outcome)
    })
}

fn crash() -> Outcome {
    let mut failure = failure(1);
    "SIGSEGV, in parse".clone_into(&mut failure.signature.title);
    Outcome::Fail(Box::new(failure))
}

/// Runs trials one after another until the question is answered; `life` returns what the clients observe, and the
/// outcome.
fn run_loads(
    plan: Plan,
    life: impl Fn(&TrialsPlan, u32, u64) -> (LoadObservation, Outcome),
) -> State {
    let (_, mut state) = begin(plan);
    while !state.stage.is_decided() {
        let Step::Launch(variant) = questions::policy_of(&state).next_step(&state) else {
            break;
        };
        let trial = Trial {
            id: state.next_id(),
            variant,
            slot: SlotId(0),
            seed: 0,
            timeout: Duration::from_secs(1),
            purpose: TrialPurpose::Measure,
            hold: None,
        };
        let id = trial.id;
        let clients = state.trials.variant_plan(variant).clients.unwrap();
        let turn = state.tally_of(variant).counted_trials();
        let (load, outcome) = life(&state.trials, clients, turn);
        state.apply_event(&Event::TrialStarted(trial), questions::is_done);
        let load = LoadObservation { clients, ..load };
        let finished = Event::TrialFinished {
            trial: id,
            at: Duration::ZERO,
            seen: Box::new(Observation {
                load: Some(Box::new(load)),
                ..Observation::default()
            }),
            outcome,
        };
        state.apply_event(&finished, questions::is_done);
    }
    state
}

fn verdict(state: &State) -> Verdict {
    questions::policy_of(state).verdict_of(state)
}

fn answer(state: &State) -> RampAnswer {
    let answer = Report::new(state, true).answer.unwrap();
    answer.numbers::<RampAnswer>().unwrap().clone()
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
    assert_eq!((nine.trials, nine.one_sided), (29, true));
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
      with 9 clients, it dies in less than 9.9 % of the trials (95 % confidence)

      clients  trials  died           95 %      served before  signature
            6       1     0   at most 95 %
            9      29     0  at most 9.9 %
           10      15     8     18 to 85 %  700 / 1300 / 2100  SIGSEGV, in parse
           16       1     1   2.5 to 100 %    700 / 700 / 700  SIGSEGV, in parse
      at most: upper limit, because no trial failed; served before: responses before the death (min / median / max)

      at level 10:
      8x    SIGSEGV, in parse: the program reported failure
            trials 4, 18, 20, 22, 28, 34, 40, 46

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
    insta::assert_snapshot!(seen.sentence, @"It survives 16 clients (29 of 29 trials)");
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
    for trials in [0, 2, 6, 12, 24, 36] {
        let mut plan = levels_of_load(&LEVELS, false);
        plan.stop.trials = Some(trials);
        let state = run(plan, crash_from(10));
        output.push(format!(
            "{:?}: {}",
            verdict(&state),
            answer(&state).sentence
        ));
    }
    insta::assert_snapshot!(output.join("\n"), @"
    CouldNotTest: NOT TESTED: no trial was conclusive
    Undecided: NOT KNOWN YET: with 16 clients 1 of 1 trial died, with 6 0 of 1; the level at which that begins is not known
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
            .trials
    };
    let mut promised = Vec::new();
    for trials in (8..all.completed_trials()).step_by(5) {
        let mut plan = levels_of_load(&LEVELS, false);
        plan.stop.trials = Some(trials);
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
    insta::assert_snapshot!(answer(&state).sentence, @"It dies from 2 clients on: SIGSEGV, in parse (with 1 it survived 76 of 76 trials); but 8 clients make it fail less often (0 of 28) than 2 (3 of 3): the failure rate does not rise with the load");
}

#[test]
fn invalid_levels_make_the_plan_unsound() {
    let sound = |levels: &[u32]| levels_of_load(levels, false).is_sound();
    assert!(sound(&LEVELS) && sound(&[5]));
    assert!(!sound(&[0, 1]) && !sound(&[2, 1]) && !sound(&[2, 2]));
    let mut plan = levels_of_load(&LEVELS, false);
    plan.trials.variants[3].clients = None;
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
    let next = questions::policy_of(&state).next_step(&state);
    assert_eq!(next, Step::Launch(VariantId(7)));
}

/// Returns the observation of a service that answers eight clients at once and refuses three of four requests of more.
fn busy_load(clients: u32) -> LoadObservation {
    let refused = if clients > 8 { 1500 } else { 0 };
    let ends = [
        (RequestResult::Ok, 2000 - refused),
        (RequestResult::Status(503), refused),
    ];
    LoadObservation {
        stage: LoadStage::Over,
        sent: 2000,
        served: 2000,
        ends: ends.into_iter().filter(|(_, count)| *count > 0).collect(),
        ..LoadObservation::default()
    }
}

fn summary(state: &State) -> String {
    let report = Report::new(state, true);
    let summary =
        provoke::term::format_summary(&report, "x".as_ref(), "last", None, Vec::new(), Some(80));
    console::strip_ansi_codes(&summary).into_owned()
}

fn all_levels(last: u32) -> Plan {
    levels_of_load(&(1..=last).collect::<Vec<u32>>(), false)
}

#[test]
fn a_service_that_survives_but_refuses_requests_is_reported_in_one_line() {
    let state = run_loads(all_levels(64), |_, clients, _| {
        (busy_load(clients), Outcome::Pass)
    });
    assert_eq!(verdict(&state), Verdict::NotThere);
    assert_eq!(state.completed_trials(), 57);
    insta::assert_snapshot!(summary(&state), @"
    It survives 64 clients (29 of 29 trials), but from 9 on it refuses most requests
      (status 503)
      with 64 clients, it dies in less than 9.9 % of the trials (95 % confidence)
      refused: 0 of 6000 requests with 8 clients (3 trials), 4500 of 6000 requests
        with 9 clients (3 trials)

      clients  trials  died           95 %  refused  0                   10 %
       1 to 8      10     0                     0 %
      9 to 63      18     0                    75 %
           64      29     0  at most 9.9 %     75 %  ○──────────────────────┤
      at most: upper limit, because no trial failed; refused: share of the requests

      assumes: more clients never make it safer

    continue   provoke resume last
    saved in   x
    ");
}

#[test]
fn refusals_of_a_stopped_search_are_counted_at_the_tried_levels() {
    let mut plan = all_levels(64);
    plan.stop.trials = Some(5);
    let state = run_loads(plan, |_, clients, _| (busy_load(clients), Outcome::Pass));
    insta::assert_snapshot!(answer(&state).sentence, @"NOT KNOWN YET: 0 of 5 trials with up to 64 clients died, but with 43 or more it refuses most requests (status 503; no lower level was tried)");
}

#[test]
fn a_search_for_refusals_finds_their_level_and_names_deaths_above_it() {
    let mut plan = all_levels(64);
    plan.trials.rules.refusals.fails = true;
    let state = run_loads(plan, |plan, clients, _| {
        let load = busy_load(clients);
        if clients > 40 {
            return (load, crash());
        }
        let observation = Observation {
            load: Some(Box::new(load.clone())),
            ..Observation::default()
        };
        let outcome = judge::judge_trial(&plan.rules, &plan.variants[0], &observation);
        (load, outcome)
    });
    insta::assert_snapshot!(summary(&state), @"
    It refuses most requests from 9 clients on: status 503 (with 8 it did not refuse
      most requests in 29 of 29 trials)
      with 8 clients, that happens in less than 9.9 % of the trials
        (95 % confidence)
      from 64 clients on it also fails in another way: SIGSEGV, in parse (1 trial)

      clients  trials  failed           95 %  refused  signature
            5       1       0   at most 95 %      0 %
            8      29       0  at most 9.9 %      0 %
            9      14      14    70 to 100 %     75 %  refused: status 503
           10       1       1   2.5 to 100 %     75 %  refused: status 503
           12       1       1   2.5 to 100 %     75 %  refused: status 503
           27       1       1   2.5 to 100 %     75 %  refused: status 503
           64       1       1   2.5 to 100 %     75 %  SIGSEGV, in parse
      at most: upper limit, because no trial failed; refused: share of the requests

      at level 9:
      14x   refused: status 503: more of the requests than --refusal-share
            trials 7, 12, 13, 16, 19, 22, 25, 28, 31, 34, 37, 40 and 2 more

      assumes: with more clients it never refuses or dies less often

    continue   provoke resume last
    saved in   x
    ");
}

#[test]
fn a_service_that_also_dies_without_load_gets_the_level_at_which_the_rate_rises() {
    let state = run(all_levels(16), |clients, turn| {
        (clients >= 10 || turn % 15 == 7).then_some(5)
    });
    insta::assert_snapshot!(answer(&state).sentence, @"It dies more often from 10 clients on: SIGSEGV, in parse (15 of 15 trials; with 9 it survived 27 of 29 trials; with 1 client it survived 2 of 2)");
}

#[test]
fn a_service_that_dies_as_often_at_any_load_gets_no_level() {
    let state = run(all_levels(16), |clients, turn| {
        ((turn + 3 * u64::from(clients)) % 20 == 9).then_some(5)
    });
    assert_eq!(verdict(&state), Verdict::NotThere);
    insta::assert_snapshot!(answer(&state).sentence, @"It survives 16 clients (454 of 478 trials; with 1 client it survived 43 of 45)");
}

#[test]
fn the_forecast_of_a_search_is_the_number_of_trials_that_it_takes() {
    let (_, state) = begin(all_levels(64));
    let policy = questions::policy_of(&state);
    assert_eq!(policy.remaining_trials(&state), Some(57));
    let all = run(all_levels(64), |_, _| None);
    assert_eq!(all.completed_trials(), 57);
}
