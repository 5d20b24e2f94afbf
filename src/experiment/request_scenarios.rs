//! Writes a scenario that sends the requests before a crash again.

use super::trial_evidence::json_lines;
use provoke_model::{
    Event, FilePick, LoadLimit, LoadObservation, LoadPlan, RequestBody, RequestPace, RequestPlan,
    RequestResult, Text, TrialId, VariantId,
};
use provoke_plan::under_load;
use provoke_state::{EventSink, State};
use provoke_sys::files::create_private;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Name of the scenario file in the directory of a trial.
const REPLAY: &str = "replay.toml";
/// Maximum number of kinds of requests.
const MAX_KINDS: usize = 256;

/// Writes the scenario when a trial ends.
pub(super) struct RequestScenarios {
    /// Parent of the directories of trials.
    trials: PathBuf,
    under_way: BTreeMap<TrialId, VariantId>,
}

impl RequestScenarios {
    pub(super) fn new(trials: PathBuf) -> Self {
        Self {
            trials,
            under_way: BTreeMap::new(),
        }
    }
}

impl EventSink for RequestScenarios {
    fn on_event(&mut self, event: &Event, state: &State) {
        match event {
            Event::TrialStarted(trial) if state.trials.load.is_some() => {
                self.under_way.insert(trial.id, trial.variant);
            }
            Event::TrialFinished { trial, seen, .. } => {
                let variant = self.under_way.remove(trial);
                let load = seen.load.as_ref().filter(|load| load.death.is_some());
                if let (Some(variant), Some(observation)) = (variant, load) {
                    let folder = self.trials.join(trial.0.to_string());
                    let about = format!(
                        "Trial {} of {}: the requests in flight at the crash, and the requests before",
                        trial.0, state.origin.run
                    );
                    let text = replay_scenario(state, variant, observation, &folder, &about);
                    // The evidence itself is stored in any case.
                    let path = folder.join(REPLAY);
                    let _ = text.map(|text| create_private(&path)?.write_all(text.as_bytes()));
                }
            }
            _ => {}
        }
    }
}

/// Returns a scenario that sends the last requests of a trial; `None` if they are not known.
fn replay_scenario(
    state: &State,
    variant: VariantId,
    observation: &LoadObservation,
    folder: &Path,
    about: &str,
) -> Option<String> {
    let planned = state.trials.load_of(state.trials.variant_plan(variant))?;
    let requests = sent_requests(&planned, folder);
    if requests.is_empty() {
        return None;
    }
    let count = |result: &RequestResult| observation.ends.get(result).copied().unwrap_or(0);
    let load = LoadPlan {
        requests,
        rows: None,
        pace: match planned.pace {
            RequestPace::Closed { .. } => RequestPace::Closed {
                clients: observation.clients.max(1),
            },
            open @ RequestPace::Open { .. } => open,
        },
        amount: match observation
            .sent
            .saturating_sub(count(&RequestResult::Unreached))
        {
            0 => planned.amount,
            reached => LoadLimit::Requests(reached),
        },
        ..planned
    };
    under_load(&state.goal, &state.trials, variant, &load, about).ok()
}

/// Returns each request in flight or before the crash once, with its number of occurrences as weight.
fn sent_requests(load: &LoadPlan, folder: &Path) -> Vec<RequestPlan> {
    let mut order: Vec<(String, String, Option<String>, u32)> = Vec::new();
    let mut indices: BTreeMap<String, usize> = BTreeMap::new();
    // Requests in flight come first, then the earlier ones, the latest first.
    let earlier_requests = json_lines(&folder.join("window.jsonl")).into_iter().rev();
    for line in json_lines(&folder.join("in-flight.jsonl"))
        .into_iter()
        .chain(earlier_requests)
    {
        let text = |name: &str| line[name].as_str().map(str::to_owned);
        let (Some(kind), Some(file)) = (text("kind"), text("request")) else {
            continue;
        };
        match indices.get(&file) {
            Some(index) => order[*index].3 += 1,
            None if order.len() < MAX_KINDS => {
                indices.insert(file.clone(), order.len());
                order.push((kind, file, text("body"), 1));
            }
            None => {}
        }
    }
    let alike = |kind: &str| {
        order
            .iter()
            .filter(|(other_kind, ..)| other_kind == kind)
            .count()
    };
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let plans = order.iter().map(|(kind, file, body, weight)| {
        let number = numbers.entry(kind).or_default();
        *number += 1;
        let planned = load.requests.iter().find(|request| request.name == *kind);
        RequestPlan {
            name: match alike(kind) {
                1 => kind.clone(),
                _ => format!("{kind} ({number})"),
            },
            weight: *weight,
            raw: Some(Text::from(file.as_str())),
            body: body
                .as_ref()
                .map_or(RequestBody::None, |body| RequestBody::Files {
                    files: vec![Text::from(body.as_str())],
                    pick: FilePick::default(),
                }),
            expect: planned
                .map(|request| request.expect.clone())
                .unwrap_or_default(),
            ..RequestPlan::default()
        }
    });
    plans.collect()
}
