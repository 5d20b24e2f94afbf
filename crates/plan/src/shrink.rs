//! Makes the question of `load --shrink` from a plan that puts a service under load.

use provoke_model::{
    LoadLimit, LoadPart, LoadPlan, Plan, Question, ReducibleLoad, RequestBody, RequestKindSizes,
    RequestPace, RequestPlan, SearchSpace, ShrinkQuestion, StopLimits, Subset, Text,
    VariantChoices,
};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
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
) -> Result<Plan, Diagnostic> {
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
fn cuts_of_load(load: &LoadPlan, requests: Option<u64>) -> Result<ReducibleLoad, Diagnostic> {
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
