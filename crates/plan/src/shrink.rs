//! Makes the question of `load --shrink` from a plan that puts a service under load.

use super::plan_error::{PlanError, refuse_at};
use provoke_model::{
    LoadLimit, LoadPart, LoadPlan, Plan, Question, ReducibleLoad, RequestBody, RequestKindSizes,
    RequestPace, RequestPlan, SearchSpace, ShrinkQuestion, StopLimits, Subset, Text,
    VariantChoices,
};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

/// Number of trials without a crash after which the search is given up.
const REPRODUCE: u64 = 20;
/// Default time limit.
const DURATION: Duration = Duration::from_secs(3600);

/// Returns a plan with this question. `requests` is the number of requests of a trial, if it was not planned. If the user
/// limited the run (`bounded`), no other limit is added.
pub fn shrink_plan(
    mut plan: Plan,
    requests: Option<u64>,
    bounded: bool,
) -> Result<Plan, PlanError> {
    let hint = "name a run of `provoke load`: provoke load --shrink last";
    let Some(load) = &plan.trials.load else {
        return Err(refuse_at("there is no load to shrink", &["load"], hint));
    };
    let (true, [_]) = (
        plan.goal.question.is_rate(),
        plan.trials.variants.as_slice(),
    ) else {
        let message = "--shrink works for one variant only";
        let hint = "give one number of clients and no variants";
        return Err(refuse_at(message, &["load", "clients"], hint));
    };
    let cuts = cuts_of_load(load, requests)?;
    let choices = VariantChoices::LoadParts(Box::new(cuts));
    let space = SearchSpace::new(plan.trials.variants.remove(0), choices);
    plan.trials
        .variants
        .push(space.variant_of_choice(&space.failing_choice()));
    plan.trials.space = Some(space);
    plan.goal.question = Question::Shrink(ShrinkQuestion {
        reproduce: REPRODUCE,
    });
    if !bounded {
        plan.stop = StopLimits {
            duration_us: u64::try_from(DURATION.as_micros()).ok(),
            ..StopLimits::default()
        };
    }
    Ok(plan)
}

/// Returns the parts of a load.
fn cuts_of_load(load: &LoadPlan, requests: Option<u64>) -> Result<ReducibleLoad, PlanError> {
    let clients = match load.pace {
        RequestPace::Closed { clients } => clients,
        RequestPace::Open { connections, .. } => connections,
    };
    let requests = match load.amount {
        LoadLimit::Requests(requests) => Some(requests),
        LoadLimit::Time(_) => requests,
    };
    let Some(requests) = requests.filter(|requests| *requests > 0) else {
        let message = "the number of requests per trial is unknown";
        let hint = "add --requests 2000";
        return Err(refuse_at(message, &["load", "requests"], hint));
    };
    let kinds = load.requests.iter();
    let sent = (0..).zip(kinds.clone()).filter(|(_, kind)| kind.weight > 0);
    Ok(ReducibleLoad {
        whole: LoadPart {
            kinds: Subset(sent.map(|(index, _)| index).collect()),
            clients: clients.max(1),
            requests,
            fresh: load.target.connections == provoke_model::ConnectionReuse::For(1),
            ..LoadPart::default()
        },
        kinds: kinds.map(kind_of).collect(),
    })
}

fn kind_of(plan: &RequestPlan) -> RequestKindSizes {
    // A missing file is reported when it is sent.
    let size = |file: &Text| fs::metadata(file.as_os_str()).map_or(0, |metadata| metadata.len());
    let bodies = match (&plan.raw, &plan.body) {
        (Some(file), RequestBody::None) => {
            body_of(file).filter(|size| *size > 0).into_iter().collect()
        }
        (_, RequestBody::Text(text)) => vec![text.len() as u64],
        (_, RequestBody::Files { files, .. }) => files.iter().map(size).collect(),
        (_, RequestBody::None | RequestBody::Column(_)) => Vec::new(),
    };
    RequestKindSizes {
        name: plan.name.clone(),
        bodies,
    }
}

/// Returns the length of the body in the bytes of a request.
fn body_of(file: &Text) -> Option<u64> {
    const END: &[u8] = b"\r\n\r\n";
    const LONGEST: u64 = 1 << 20;
    let file = File::open(Path::new(file.as_os_str())).ok()?;
    let length = file.metadata().ok()?.len();
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    let head = bytes.windows(END.len()).position(|four| four == END)?;
    length.checked_sub((head + END.len()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PlanContext, Scenario};

    fn plan_of(text: &str) -> Plan {
        let scenario: Scenario = text.parse().unwrap();
        let plan_context = PlanContext {
            environment: Vec::new(),
            base: "/base".into(),
            seed: 1,
            searched: None,
            baseline: None,
            held: None,
        };
        scenario.to_plan(plan_context).unwrap()
    }

    const SERVICE: &str = "command = ['app']\n[load]\nurl = 'http://127.0.0.1:1'\nclients = 8\n";

    #[test]
    fn the_parts_of_a_load_become_the_choices_of_shrink() {
        let text = format!(
            "{SERVICE}requests = 50\n[[request]]\npath = '/a'\n\
             [[request]]\nname = 'b'\nbody-files = ['x', 'y']\n[[request]]\nbody = 'abc'"
        );
        let plan = plan_of(&text);
        let plan = shrink_plan(plan, None, false).unwrap();
        assert!(plan.is_sound());
        let cuts = plan
            .trials
            .space
            .as_ref()
            .unwrap()
            .choices
            .as_cuts()
            .unwrap();
        assert_eq!((cuts.whole.clients, cuts.whole.requests), (8, 50));
        assert_eq!(cuts.whole.kinds, Subset(vec![0, 1, 2]));
        let bodies: Vec<usize> = cuts.kinds.iter().map(|kind| kind.bodies.len()).collect();
        assert_eq!(bodies, [0, 2, 1]);
        assert_eq!(plan.trials.variants[0].name, "the whole");
        assert_eq!(plan.stop.time_budget(), Some(DURATION));
        let load = plan.trials.load_of(&plan.trials.variants[0]);
        assert_eq!(load, plan.trials.load);

        let mut cut = cuts.whole.clone();
        (cut.kinds, cut.clients) = (Subset(vec![1]), 3);
        cut.bodies.insert(1, Subset(vec![1]));
        cut.fresh = true;
        let space = plan.trials.space.as_ref().unwrap();
        let variant = space.variant_of_choice(&provoke_model::VariantChoice::Cut(Box::new(cut)));
        assert_eq!(variant.name, "b with body 2, 3 clients, fresh");
        let load = plan.trials.load_of(&variant).unwrap();
        assert_eq!(load.pace, RequestPace::Closed { clients: 3 });
        let weights: Vec<u32> = load.requests.iter().map(|kind| kind.weight).collect();
        assert_eq!(weights, [0, 1, 0]);
        assert!(
            matches!(&load.requests[1].body, RequestBody::Files { files, .. } if files.len() == 1)
        );
    }

    #[test]
    fn a_load_limited_by_time_needs_a_number_of_requests() {
        let plan = plan_of(&format!("{SERVICE}time = '5s'"));
        let refused = shrink_plan(plan.clone(), None, false).unwrap_err();
        assert_eq!(
            refused.message,
            "the number of requests per trial is unknown"
        );
        let plan = shrink_plan(plan, Some(700), true).unwrap();
        let cuts = plan
            .trials
            .space
            .as_ref()
            .unwrap()
            .choices
            .as_cuts()
            .unwrap();
        assert_eq!(cuts.whole.requests, 700);
        let load = plan.trials.load_of(&plan.trials.variants[0]).unwrap();
        assert_eq!(load.amount, LoadLimit::Requests(700));
    }

    #[test]
    fn only_parts_of_the_load_are_valid_choices() {
        let plan = plan_of(&format!("{SERVICE}requests = 50"));
        let plan = shrink_plan(plan, None, false).unwrap();
        let space = plan.trials.space.unwrap();
        let whole = space.choices.as_cuts().unwrap().whole.clone();
        let has = |change: &dyn Fn(&mut LoadPart)| {
            let mut cut = whole.clone();
            change(&mut cut);
            space.has_choice(&provoke_model::VariantChoice::Cut(Box::new(cut)))
        };
        assert!(has(&|_| ()) && has(&|cut| cut.clients = 1));
        assert!(!has(&|cut| cut.clients = 9) && !has(&|cut| cut.clients = 0));
        assert!(!has(&|cut| cut.requests = 51) && !has(&|cut| cut.requests = 0));
        assert!(!has(&|cut| cut.kinds = Subset(vec![1])));
        assert!(!has(&|cut| cut.kinds = Subset::default()));
        assert!(!has(&|cut| drop(cut.bodies.insert(0, Subset(vec![0])))));
    }
}
