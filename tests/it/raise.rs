//! Tests the settings that are tried before a search: turns, the choice, and the search after it.

use crate::loop_and_fold::{begin, exited, plan, run};
use provoke_model::{Event, Observation, Plan, Trial, TrialId, VariantId};
use provoke_questions as questions;
use provoke_questions::{BisectAnswer, ReduceAnswer};
use provoke_report::Report;
use provoke_state::State;
use provoke_stats::search::Bisection;
use std::collections::BTreeMap;
use std::time::Duration;

/// The variants: the failing one in the search; under the conditions of the plan; and under each setting.
const FAILING: VariantId = VariantId(0);
const NATURAL: VariantId = VariantId(1);
const COPIES: VariantId = VariantId(2);
const PARALLEL: VariantId = VariantId(3);
const WAVES: VariantId = VariantId(4);

/// Returns a search among 16 candidates that tries `--copies 4`, `-j 4` and `--wave 4`.
fn search(more: &str) -> Plan {
    let mut plan = plan(&format!(
        "ask = 'bisect'\nrange = '0..16'\nraise-rate = true\n{more}"
    ));
    plan.trials.add_settings(2);
    plan
}

/// Returns a trial that takes a second, and fails or passes.
fn one_second_trial(fails: bool) -> (Duration, Observation) {
    (Duration::from_secs(1), exited(i32::from(fails)))
}

/// Runs a search; returns its end and its events.
fn run_search(
    plan: Plan,
    script: impl Fn(&Trial) -> (Duration, Observation) + Send + Sync + 'static,
) -> (State, Vec<Event>) {
    let (_, mut state) = begin(plan);
    let events = run(&mut state, script, None);
    (state, events)
}

fn chosen_setting(state: &State) -> Option<VariantId> {
    state.raise.as_ref().and_then(|raise| raise.chosen)
}

fn sentence(state: &State) -> String {
    let report = Report::new(state, true);
    let answer = report.answer.unwrap();
    let along_list = answer
        .numbers::<BisectAnswer>()
        .map(|answer| &answer.raised);
    let of_set = || {
        answer
            .numbers::<ReduceAnswer>()
            .map(|answer| &answer.raised)
    };
    let raised = along_list.or_else(of_set).unwrap().as_ref();
    raised.expect("settings were tried").sentence.clone()
}

/// Fails in every eighth trial, and in all trials under these settings.
fn raised_by(settings: &'static [VariantId]) -> impl Fn(&Trial) -> (Duration, Observation) {
    |trial| one_second_trial(settings.contains(&trial.variant) || trial.id.0 % 8 == 3)
}

#[test]
fn the_setting_that_raises_the_rate_is_used() {
    for setting in [COPIES, PARALLEL, WAVES] {
        let settings: &'static [VariantId] = match setting {
            COPIES => &[COPIES],
            PARALLEL => &[PARALLEL],
            _ => &[WAVES],
        };
        let (state, _) = run_search(search("seed = 7"), raised_by(settings));
        assert_eq!(
            chosen_setting(&state),
            Some(setting),
            "{}",
            sentence(&state)
        );
        let main = &state.trials.variant_plan(FAILING).actors[0];
        let used = (state.trials.jobs, state.trials.waves, main.copies);
        let wanted = match setting {
            COPIES => (1, false, 4),
            PARALLEL => (4, false, 1),
            _ => (4, true, 1),
        };
        assert_eq!(used, wanted);
        // Versions that the search chooses later run under the setting, too.
        for variant in state
            .trials
            .variants
            .iter()
            .filter(|one| one.choice.is_some())
        {
            assert_eq!(variant.actors[0].copies, wanted.2);
        }
    }
}

#[test]
fn trials_of_one_setting_run_alone_with_its_concurrency() {
    let (state, events) = run_search(search("seed = 3"), raised_by(&[WAVES]));
    let planned = search("");
    let jobs = |id: VariantId| planned.trials.jobs_of(planned.trials.variant_plan(id)) as usize;
    let mut running: BTreeMap<TrialId, VariantId> = BTreeMap::new();
    let (mut most, mut over) = (BTreeMap::new(), false);
    for event in &events {
        match event {
            Event::SettingChosen(_) => {
                assert!(running.is_empty());
                over = true;
            }
            Event::TrialStarted(trial) => {
                running.insert(trial.id, trial.variant);
                let limit = if over { 4 } else { jobs(trial.variant) };
                assert!(running.len() <= limit, "{} at {trial:?}", running.len());
                assert!(trial.slot.index() < limit, "{trial:?}");
                if !over {
                    assert!(running.values().all(|id| *id == trial.variant));
                    let most: &mut usize = most.entry(trial.variant).or_default();
                    *most = running.len().max(*most);
                }
            }
            Event::TrialFinished { trial, .. } => drop(running.remove(trial)),
            _ => {}
        }
    }
    assert!(over);
    let all: BTreeMap<VariantId, usize> = [NATURAL, COPIES, PARALLEL, WAVES]
        .map(|id| (id, jobs(id)))
        .into();
    assert_eq!(most, all);
    assert_eq!(chosen_setting(&state), Some(WAVES));
}

#[test]
fn trials_without_a_setting_count_for_the_search_if_no_setting_helps() {
    let (state, events) = run_search(search("seed = 3"), raised_by(&[]));
    assert_eq!(
        chosen_setting(&state),
        Some(NATURAL),
        "{}",
        sentence(&state)
    );
    assert_eq!(state.trials.jobs, 1);
    // The trials before the search count as the first trials of the failing variant.
    let starts = events.iter().filter_map(|event| match event {
        Event::TrialStarted(trial) => Some(trial.variant),
        _ => None,
    });
    let before = starts.filter(|id| *id == NATURAL).count() as u64;
    assert!(before >= 12);
    assert!(state.tally_of(FAILING).counted_trials() >= before);
    assert_eq!(state.tally_of(NATURAL).counted_trials(), 0);
    let known = state.learned::<Bisection>().unwrap().failures_and_runs(16);
    assert!(known.1 >= before, "{known:?}");
}

#[test]
fn a_frequent_failure_is_searched_without_trying_settings() {
    let (state, events) = run_search(search(""), |trial| one_second_trial(trial.id.0 % 2 == 1));
    assert_eq!(chosen_setting(&state), Some(NATURAL));
    let tried = |id: VariantId| {
        let of =
            |event: &&Event| matches!(event, Event::TrialStarted(trial) if trial.variant == id);
        events.iter().filter(of).count()
    };
    assert_eq!((tried(COPIES), tried(PARALLEL), tried(WAVES)), (0, 0, 0));
    assert_eq!(
        sentence(&state),
        "no setting was tried: the failure is frequent (4 of 8)"
    );
}

#[test]
fn another_failure_under_a_setting_is_not_the_bug() {
    let (state, _) = run_search(search("seed = 3"), |trial| {
        let another = trial.variant == COPIES;
        let bug = trial.id.0 % 8 == 3;
        let code = if another { 4 } else { i32::from(bug) };
        (Duration::from_secs(1), exited(code))
    });
    assert_eq!(
        chosen_setting(&state),
        Some(NATURAL),
        "{}",
        sentence(&state)
    );
    assert!(
        sentence(&state).contains(" in another way"),
        "{}",
        sentence(&state)
    );
}

#[test]
fn failures_that_are_not_the_bug_do_not_count_for_a_setting() {
    let (state, _) = run_search(search("seed = 3\nonly = ['code:3']"), |trial| {
        let bug = trial.id.0 % 8 == 3;
        let code = match trial.variant {
            COPIES => 1,
            _ if bug => 3,
            _ => 0,
        };
        (Duration::from_secs(1), exited(code))
    });
    assert_eq!(
        chosen_setting(&state),
        Some(NATURAL),
        "{}",
        sentence(&state)
    );
}

#[test]
fn a_failure_that_occurs_only_under_a_setting_may_be_another_bug() {
    let only_with_copies = |trial: &Trial| one_second_trial(trial.variant == COPIES);
    let plan = || search("seed = 3\nreproduce-limit = 40");
    let (state, _) = run_search(plan(), only_with_copies);
    assert_eq!(chosen_setting(&state), Some(NATURAL));
    assert!(
        sentence(&state).contains("--any-failure"),
        "{}",
        sentence(&state)
    );
    // With `any-failure`, every failure is the bug, so the setting is used.
    let (state, _) = run_search(search("seed = 3\nany-failure = true"), only_with_copies);
    assert_eq!(chosen_setting(&state), Some(COPIES), "{}", sentence(&state));
}

#[test]
fn a_setting_under_which_failures_take_longer_is_not_used() {
    let (state, _) = run_search(search("seed = 3"), |trial| {
        let slow = trial.variant == COPIES;
        let fails = slow || trial.id.0 % 8 == 3;
        (
            Duration::from_secs(if slow { 10 } else { 1 }),
            exited(i32::from(fails)),
        )
    });
    assert_eq!(
        chosen_setting(&state),
        Some(NATURAL),
        "{}",
        sentence(&state)
    );
}

#[test]
fn waves_that_fail_together_once_do_not_raise_the_rate() {
    // The first waves fail completely, and the later ones do not.
    let (state, _) = run_search(search("seed = 3"), |trial| {
        let wave = trial.variant == WAVES && trial.id.0 < 21;
        one_second_trial(wave || trial.id.0 % 13 == 3)
    });
    let decision = questions::RaiseDecision::of_state(&state).unwrap();
    let (_, sample, _) = &decision.settings[2];
    assert!(sample.failure_count() >= 4, "{}", sentence(&state));
    assert_ne!(chosen_setting(&state), Some(WAVES), "{}", sentence(&state));
}

#[test]
fn if_both_ends_fail_under_a_setting_a_search_without_it_is_suggested() {
    // With copies every version fails.
    let (state, _) = run_search(search("seed = 3"), |trial| {
        let before = trial.variant != FAILING && trial.variant <= WAVES;
        let copies = trial.variant == COPIES || !before;
        one_second_trial(copies || trial.id.0 % 8 == 3)
    });
    assert_eq!(chosen_setting(&state), Some(COPIES));
    let report = Report::new(&state, true);
    let sentence = report.answer.unwrap().text().sentence().to_owned();
    let wanted =
        "0, the good end, fails as 16 does with --copies 4; search again without --raise-rate";
    assert_eq!(sentence, wanted);
}

#[test]
fn a_trial_limit_also_ends_the_trials_of_settings() {
    for limit in [5, 20, 30] {
        let (state, _) = run_search(search(&format!("runs = {limit}")), raised_by(&[]));
        let ran: u64 = state
            .all_tallies()
            .map(|(_, tally)| tally.finished_trials())
            .sum();
        assert_eq!(ran, limit);
        assert!(chosen_setting(&state).is_some());
    }
}

#[test]
fn the_journal_restores_the_chosen_setting() {
    let (first, mut state) = begin(search("seed = 5"));
    let events = run(&mut state, raised_by(&[PARALLEL]), None);
    let text: Vec<String> = [&first]
        .into_iter()
        .chain(&events)
        .map(|event| serde_json::to_string(event).unwrap())
        .collect();
    let mut read = text.iter().map(|line| serde_json::from_str(line).unwrap());
    let mut again = State::begin_fold(read.next().unwrap(), questions::begin_memory).unwrap();
    for event in read {
        again.apply_event(&event, questions::is_done);
    }
    assert_eq!(
        (again.trials.jobs, chosen_setting(&again)),
        (4, Some(PARALLEL))
    );
    assert_eq!(again.plan(), state.plan());
    assert_eq!(sentence(&again), sentence(&state));
}

#[test]
fn a_search_cut_while_it_tries_settings_is_resumed_with_them() {
    for seconds in [14, 19] {
        let (first, mut state) = begin(search("seed = 5"));
        let cut = Some(Duration::from_millis(seconds * 1000 + 500));
        let mut events = run(&mut state, raised_by(&[PARALLEL]), cut);
        // As after a kill: trials that were running are retried.
        let ended =
            |event: &Event| matches!(event, Event::RunStopped { .. } | Event::RunFinished { .. });
        events.retain(|event| !ended(event));
        let mut state = State::begin_fold(first, questions::begin_memory).unwrap();
        for event in &events {
            state.apply_event(event, questions::is_done);
        }
        state.apply_event(&Event::RunResumed { at: 0 }, |_| false);
        run(&mut state, raised_by(&[PARALLEL]), None);
        assert_eq!(
            chosen_setting(&state),
            Some(PARALLEL),
            "{}",
            sentence(&state)
        );
        assert!(state.stage.is_finished());
    }
}

#[test]
fn a_plan_with_enough_processes_has_no_settings_to_try() {
    for full in ["wave = 8\ncopies = 16", "wave = 4\ncopies = 4"] {
        let plan = search(full);
        assert_eq!(plan.trials.variants.len(), 1, "{full}");
        let (_, state) = begin(plan);
        assert!(state.raise.is_none());
    }
    let names = |more: &str| {
        let plan = search(more);
        let names = plan
            .trials
            .variant_settings()
            .skip(1)
            .map(|(_, setting)| setting.to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["--copies 4", "-j 4", "--wave 4"]);
    assert_eq!(names("jobs = 3"), ["--copies 4", "-j 4", "--wave 4"]);
    assert_eq!(names("jobs = 6"), ["--copies 4", "--wave 6"]);
    assert_eq!(names("wave = 2\ncopies = 9"), ["--wave 4"]);
}
