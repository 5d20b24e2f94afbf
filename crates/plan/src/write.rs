//! Writes the plan of a run as a scenario file.

use super::restore::{NonUtf8Argument, utf8_text};
use super::{
    AttachedProcess, Concurrency, ConnectionSettings, DurationValue, Frequency, JudgeSettings,
    LimitValue, Load, Outline, RateValue, ReadyWhen, Request, Scenario, ServiceSettings,
    StopSettings, TrafficSettings, TrialSettings,
};
use provoke_model::{
    ConnectionReuse, Goal, LoadGoal, LoadLimit, LoadPlan, ReadyCondition, RefusalRules,
    RequestBody, RequestPace, RequestPlan, ServiceOwner, Text, TrialsPlan, VariantId,
};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use toml::{Table, Value};

/// Returns a scenario file that puts the service of a variant under this load. Like any other file, it uses the environment
/// of the user who runs it, with the plan's own changes.
pub fn under_load(
    goal: &Goal,
    trials: &TrialsPlan,
    variant: VariantId,
    load: &LoadPlan,
    description: &str,
) -> Result<String, NonUtf8Argument> {
    let restored = Scenario::of_variant(goal, trials, variant)?;
    // A kind without weight is not sent.
    let sent = load.requests.iter().filter(|kind| kind.weight > 0);
    let mut scenario = Scenario {
        outline: Outline {
            description: Some(description.to_owned()),
            actors: restored.outline.actors,
            requests: sent.map(request_of_plan).collect::<Result<_, _>>()?,
            ..Outline::default()
        },
        load: Some(load_of_plan(load, &trials.rules.refusals)?),
        program: restored.program,
        conditions: restored.conditions,
        trials: TrialSettings {
            copies: restored.trials.copies,
            ..TrialSettings::default()
        },
        stop: StopSettings {
            grace: restored.stop.grace,
            ..StopSettings::default()
        },
        judge: JudgeSettings {
            ok: None,
            skip: None,
            ..restored.judge
        },
        ..Scenario::default()
    };
    if load.owner != ServiceOwner::Provoke {
        scenario.program.command = None;
    }
    let mut fields = Table::try_from(&scenario).map_err(|_| NonUtf8Argument)?;
    remove_empty(&mut fields);
    toml::to_string(&fields).map_err(|_| NonUtf8Argument)
}

/// Removes empty lists and tables, which mean nothing.
fn remove_empty(table: &mut Table) {
    for (_, value) in table.iter_mut() {
        match value {
            Value::Table(inner) => remove_empty(inner),
            Value::Array(items) => {
                let tables = items.iter_mut().filter_map(Value::as_table_mut);
                tables.for_each(remove_empty);
            }
            _ => {}
        }
    }
    table.retain(|_, value| match value {
        Value::Table(inner) => !inner.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    });
}

fn load_of_plan(load: &LoadPlan, refusals: &RefusalRules) -> Result<Load, NonUtf8Argument> {
    let target = &load.target;
    let span = |time| Some(DurationValue(time));
    let path = |path: &Option<Text>| path.as_ref().map(utf8_path).transpose();
    let (certificate, key) = target
        .identity
        .as_ref()
        .map(|(certificate, two)| (certificate, two))
        .unzip();
    let (clients, rate, connections) = match load.pace {
        RequestPace::Closed { clients } => (NonZeroU32::new(clients), None, None),
        RequestPace::Open {
            millihertz,
            connections,
        } => (
            None,
            Some(Frequency(millihertz)),
            NonZeroU32::new(connections),
        ),
    };
    let (requests, time) = match load.amount {
        LoadLimit::Requests(requests) => (NonZeroU64::new(requests), None),
        LoadLimit::Time(time) => (None, span(time)),
    };
    Ok(Load {
        service: ServiceSettings {
            attach: match load.owner {
                ServiceOwner::Provoke => None,
                ServiceOwner::Somebody => Some(AttachedProcess(None)),
                ServiceOwner::Process(pid) => Some(AttachedProcess(Some(pid))),
            },
            ready: Some(ReadyWhen(load.ready.clone())),
            ready_status: match load.ready {
                ReadyCondition::Http { status, .. } => status,
                _ => None,
            },
            ready_limit: span(load.ready_limit),
            hang_after: span(load.hang_after),
            quiet_time: span(load.quiet_time),
        },
        traffic: TrafficSettings {
            url: Some(target.base.clone()),
            clients: clients.map(Concurrency::Of),
            rate,
            connections,
            requests,
            time,
            warm_requests: Some(load.warm_up.requests),
            think: span(load.think),
            spread: span(load.spread),
            rows: path(&load.rows)?,
            find: refusals.fails.then_some(LoadGoal::Refusal),
            refusal_share: Some(RateValue(refusals.share)),
            refusal_status: Some(refusals.status.iter().copied().collect()),
            detect: None,
            exact: None,
        },
        connection: ConnectionSettings {
            http: Some(target.http),
            unix: path(&target.unix)?,
            requests_per_connection: match target.connections {
                ConnectionReuse::For(requests) => NonZeroU32::new(requests.max(1)),
                ConnectionReuse::Kept => None,
            },
            connect_limit: span(target.connect_limit),
            request_limit: span(target.request_limit),
            resolve_each: target.resolve_each.then_some(true),
            ca: path(&target.ca)?,
            insecure: target.insecure.then_some(true),
            certificate: certificate.map(utf8_path).transpose()?,
            key: key.map(utf8_path).transpose()?,
            log_requests: load.log_all.then_some(true),
            own_target: target.owned.clone(),
        },
    })
}

fn request_of_plan(plan: &RequestPlan) -> Result<Request, NonUtf8Argument> {
    let expect = &plan.expect;
    let value = |value: &Option<Text>| value.as_ref().map_or(Ok("*".to_owned()), utf8_text);
    let mut request = Request {
        name: Some(plan.name.clone()),
        weight: NonZeroU32::new(plan.weight),
        status: expect.status.clone(),
        expect_headers: expect.headers.iter().cloned().collect(),
        expect_body: expect.body_regex.clone(),
        expect_sha256: expect.body_sha256.clone(),
        expect_json: expect
            .json
            .iter()
            .map(|(pointer, expected)| Ok((pointer.clone(), value(expected)?)))
            .collect::<Result<_, _>>()?,
        max_bytes: expect.max_bytes.map(|bytes| LimitValue(Some(bytes))),
        ..Request::default()
    };
    if let Some(file) = &plan.raw {
        request.raw = Some(utf8_path(file)?);
    } else {
        request.method = Some(plan.method.clone());
        request.path = Some(plan.path.clone());
        request.headers = plan.headers.iter().cloned().collect();
    }
    match &plan.body {
        RequestBody::None => {}
        RequestBody::Text(body) => request.body = Some(body.clone()),
        RequestBody::Column(column) => request.body_column = Some(column.clone()),
        RequestBody::Files { files, pick } => {
            request.body_files = files.iter().map(utf8_text).collect::<Result<_, _>>()?;
            request.pick = Some(*pick);
        }
    }
    Ok(request)
}

fn utf8_path(path: &Text) -> Result<PathBuf, NonUtf8Argument> {
    utf8_text(path).map(PathBuf::from)
}
