//! HTTP load of a scenario with its defaults, and its conversion into the load of a plan.

use super::{
    AttachedProcess, Concurrency, ConnectionSettings, DurationValue, QuestionSettings, ReadyWhen,
    Request, Scenario, ServiceSettings, TrafficSettings, Variant,
};
use provoke_model::{
    ConnectionReuse, LoadGoal, ReadyCondition, RefusalRules, RequestPace, RequestPlan,
    ServiceOwner, TargetPlan, Text, VariantPlan, WarmUp,
};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use serde::Serialize;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default number of clients.
const CLIENTS: u32 = 10;
/// Default number of requests per trial.
const REQUESTS: u64 = 2000;
/// Default number of requests per trial for each client of the highest level of a search, which takes many trials, and
/// the least number in all.
const REQUESTS_PER_CLIENT: u64 = 20;
const MIN_REQUESTS: u64 = 200;
/// Default warm-up, with one client.
const WARM_UP: WarmUp = WarmUp {
    requests: 20,
    clients: 1,
};
/// Default quiet time: memory that was damaged under load is often detected when threads end.
const QUIET_TIME: Duration = Duration::from_millis(500);
const READY_LIMIT: Duration = Duration::from_secs(60);
const HANG_AFTER: Duration = Duration::from_secs(10);
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// Default number of connections of an open loop.
const CONNECTIONS: u32 = 100;
/// Default failure rate of a failing level, in millionths.
const DETECT: u32 = 100_000;
/// Default range of levels.
const LEVELS: (u64, u64) = (1, 64);

/// Hint at exit codes, which do not matter for a service.
pub(super) const NO_CODES: &str =
    "leave it out: a service that ends under load fails, whatever its exit code";

/// HTTP load on the command, which is a service then: a trial is one start of it until its end.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Load {
    #[serde(flatten)]
    pub service: ServiceSettings,
    #[serde(flatten)]
    pub traffic: TrafficSettings,
    #[serde(flatten)]
    pub connection: ConnectionSettings,
}

impl Scenario {
    /// Asks whether the service is fixed in another build: trials of both builds take turns.
    pub fn compare_builds(&mut self, fixed: &[String]) {
        let variant = |name: &str, command| Variant {
            name: name.to_owned(),
            command,
            ..Variant::default()
        };
        self.outline.ask = Some(QuestionSettings::Compare);
        self.bisect.fixed = Some(true);
        self.outline.variants = vec![variant("old", None), variant("fixed", Some(fixed.to_vec()))];
    }

    /// Returns the load of a plan.
    pub(super) fn plan_load(
        &self,
        base: &Path,
    ) -> Result<Option<provoke_model::LoadPlan>, Diagnostic> {
        let Some(load) = &self.load else {
            if !self.outline.requests.is_empty() && self.again.plan.is_none() {
                let hint = "add a target: [load] url = \"http://127.0.0.1:8080\"";
                return Err(refuse_at(
                    "there are requests, but no [load] table",
                    &["request"],
                    hint,
                ));
            }
            return Ok(self.again.plan.clone());
        };
        self.check_fields_of_load(load)?;
        let earlier_plan = self.again.plan.as_ref();
        let file = |path: &PathBuf| Text::from(base.join(path).as_path());
        let target = load.plan_target(earlier_plan, &file)?;
        let (requests, target) = self.planned_requests(load, earlier_plan, target, base)?;
        let defaults = earlier_plan
            .cloned()
            .unwrap_or_else(|| provoke_model::LoadPlan {
                owner: ServiceOwner::Provoke,
                target: TargetPlan::default(),
                requests: Vec::new(),
                rows: None,
                pace: RequestPace::Closed { clients: CLIENTS },
                amount: provoke_model::LoadLimit::Requests(REQUESTS),
                warm_up: WARM_UP,
                think: Duration::ZERO,
                spread: Duration::ZERO,
                quiet_time: QUIET_TIME,
                ready: ReadyCondition::Connects,
                ready_limit: READY_LIMIT,
                hang_after: HANG_AFTER,
                log_all: false,
            });
        let span =
            |given: Option<DurationValue>, default: Duration| given.map_or(default, |span| span.0);
        Ok(Some(provoke_model::LoadPlan {
            owner: match load.service.attach {
                Some(AttachedProcess(Some(pid))) => ServiceOwner::Process(pid),
                Some(AttachedProcess(None)) => ServiceOwner::Somebody,
                None => defaults.owner.clone(),
            },
            target,
            requests,
            rows: load
                .traffic
                .rows
                .as_ref()
                .map(file)
                .or(defaults.rows.clone()),
            pace: load.plan_pace(defaults.pace)?,
            amount: match (load.traffic.requests, load.traffic.time) {
                (Some(_), Some(_)) => {
                    let hint = "give one of the two";
                    let message = "`requests` and `time` are both given";
                    return Err(refuse_at(message, &["load", "time"], hint));
                }
                (Some(requests), None) => provoke_model::LoadLimit::Requests(requests.get()),
                (None, Some(time)) => provoke_model::LoadLimit::Time(time.0),
                (None, None) if earlier_plan.is_none() && self.has_load_levels() => {
                    provoke_model::LoadLimit::Requests(load.default_requests())
                }
                (None, None) => defaults.amount,
            },
            warm_up: WarmUp {
                requests: load
                    .traffic
                    .warm_requests
                    .unwrap_or(defaults.warm_up.requests),
                ..defaults.warm_up
            },
            think: span(load.traffic.think, defaults.think),
            spread: span(load.traffic.spread, defaults.spread),
            quiet_time: span(load.service.quiet_time, defaults.quiet_time),
            ready: load.plan_ready(&defaults)?,
            ready_limit: span(load.service.ready_limit, defaults.ready_limit),
            hang_after: span(load.service.hang_after, defaults.hang_after),
            log_all: load.connection.log_requests.unwrap_or(defaults.log_all),
        }))
    }

    /// Refuses settings that have no meaning, or another one, for a service.
    fn check_fields_of_load(&self, said: &Load) -> Result<(), Diagnostic> {
        // The settings of an earlier run were not given by the user.
        if self.stop.timeout.is_some() && self.again.plan.is_none() {
            return Err(refuse_at(
                "`timeout` does not apply to a service under load",
                &["timeout"],
                "`requests` or `time` in [load] ends a trial; `hang-after` says when the service is hung",
            ));
        }
        let codes = [
            ("ok", self.judge.ok.is_some()),
            ("skip", self.judge.skip.is_some()),
        ];
        if let Some((field, _)) = codes.iter().find(|(_, is_given)| *is_given)
            && self.again.plan.is_none()
        {
            return Err(refuse_at(
                format!("`{field}` does not apply to a service under load"),
                &[field],
                NO_CODES,
            ));
        }
        if self.trials.copies.is_some_and(|copies| copies.get() > 1) {
            return Err(refuse_at(
                "copies of a service cannot listen on the same address",
                &["copies"],
                "use `clients` for more load",
            ));
        }
        let side_by_side = [self.trials.jobs, self.trials.wave]
            .into_iter()
            .flatten()
            .any(|n| n.get() > 1);
        let target = [
            said.traffic.url.clone(),
            said.connection
                .unix
                .as_ref()
                .map(|path| path.to_string_lossy().into_owned()),
        ];
        let earlier_urls = self.again.plan.iter().map(|load| load.target.base.clone());
        let apart = |target: &String| {
            ["{slot}", "{trial}"]
                .iter()
                .any(|mark| target.contains(mark))
        };
        if side_by_side
            && said.service.attach.is_none()
            && !target
                .into_iter()
                .flatten()
                .chain(earlier_urls)
                .any(|url| apart(&url))
        {
            return Err(refuse_at(
                "parallel trials of the service would listen on the same address",
                &["jobs"],
                "give each trial its own address: put `{slot}` in the URL and in the command",
            ));
        }
        Ok(())
    }

    /// Returns the kinds of requests, and the target without the path of a single request.
    fn planned_requests(
        &self,
        load: &Load,
        earlier_plan: Option<&provoke_model::LoadPlan>,
        mut target: TargetPlan,
        base: &Path,
    ) -> Result<(Vec<RequestPlan>, TargetPlan), Diagnostic> {
        if let (true, None, Some(before)) = (
            self.outline.requests.is_empty(),
            &load.traffic.url,
            earlier_plan,
        ) {
            return Ok((before.requests.clone(), target));
        }
        let only = match self.outline.requests.as_slice() {
            [] => Some(Request::default()),
            [request] if request.path.is_none() && request.raw.is_none() => Some(request.clone()),
            _ => None,
        };
        if let Some(only) = only {
            let base_path = path_of(&target.base).to_owned();
            target.base.truncate(target.base.len() - base_path.len());
            let path = if base_path.is_empty() {
                "/".to_owned()
            } else {
                base_path
            };
            let request = Request {
                path: Some(path),
                ..only
            };
            return Ok((vec![request.to_plan(0, base)?], target));
        }
        let kinds: Result<Vec<_>, _> = self
            .outline
            .requests
            .iter()
            .enumerate()
            .map(|(index, request)| request.to_plan(index, base))
            .collect();
        while target.base.ends_with('/') {
            target.base.pop();
        }
        Ok((kinds?, target))
    }

    /// Returns whether the lowest failing load level is searched.
    pub fn has_load_levels(&self) -> bool {
        let clients = self
            .load
            .as_ref()
            .and_then(|load| load.traffic.clients.as_ref());
        clients.is_some_and(Concurrency::are_levels)
    }

    /// Makes a variant of each load level.
    pub fn level_variants(&self, variants: &[VariantPlan]) -> Result<Vec<VariantPlan>, Diagnostic> {
        let [service] = variants else {
            let message = "several load levels work for one variant only";
            let hint =
                "leave the variants out; or give one number of clients, to compare the variants";
            return Err(refuse_at(message, &["load", "clients"], hint));
        };
        let load_settings = self.load.as_ref();
        if let Some(load) = load_settings.filter(|load| load.traffic.rate.is_some()) {
            let message = format!(
                "load levels and a rate of {} are both given",
                load.traffic
                    .rate
                    .as_ref()
                    .map_or(String::new(), ToString::to_string)
            );
            return Err(refuse_at(message, &["load", "rate"], "give one of the two"));
        }
        let clients = load_settings.and_then(|load| load.traffic.clients.clone());
        let levels = clients
            .unwrap_or(Concurrency::Between(LEVELS.0, LEVELS.1))
            .load_levels();
        let level = |clients: u32| VariantPlan {
            name: clients.to_string(),
            clients: Some(clients),
            ..service.clone()
        };
        Ok(levels.into_iter().map(level).collect())
    }

    /// Returns which requests count as refused, and whether refusals fail a trial.
    pub(super) fn refusal_rules(&self) -> RefusalRules {
        let defaults = self.again.refusals.clone();
        let Some(traffic) = self.load.as_ref().map(|load| &load.traffic) else {
            return defaults;
        };
        let status = traffic.refusal_status.as_ref();
        RefusalRules {
            status: status.map_or(defaults.status, |status| status.iter().copied().collect()),
            share: traffic
                .refusal_share
                .map_or(defaults.share, |share| share.0),
            fails: traffic
                .find
                .map_or(defaults.fails, |find| find == LoadGoal::Refusal),
        }
    }

    /// Returns the failure rate of a failing level, in millionths.
    pub fn detection_rate(&self) -> u32 {
        let rate_given = self.load.as_ref().and_then(|load| load.traffic.detect);
        rate_given.map_or(DETECT, |rate| rate.0)
    }
}

impl Load {
    fn plan_target(
        &self,
        earlier_plan: Option<&provoke_model::LoadPlan>,
        file: &impl Fn(&PathBuf) -> Text,
    ) -> Result<TargetPlan, Diagnostic> {
        let defaults = earlier_plan.map_or_else(
            || TargetPlan {
                connect_limit: CONNECT_LIMIT,
                request_limit: REQUEST_LIMIT,
                ..TargetPlan::default()
            },
            |load| load.target.clone(),
        );
        let base = match (&self.traffic.url, &self.connection.unix) {
            (Some(url), _) => url.clone(),
            (None, Some(_)) if defaults.base.is_empty() => "http://localhost".to_owned(),
            (None, _) => defaults.base,
        };
        if !base.starts_with("http://") && !base.starts_with("https://") {
            let message = if base.is_empty() {
                "the load has no target URL".to_owned()
            } else {
                format!("invalid target URL `{base}`: it must begin with `http://` or `https://`")
            };
            let hint = "add the URL to send requests to, such as http://127.0.0.1:8080/classify";
            return Err(refuse_at(message, &["load", "url"], hint));
        }
        let identity = match (&self.connection.certificate, &self.connection.key) {
            (Some(certificate), Some(key)) => Some((file(certificate), file(key))),
            (None, None) => defaults.identity,
            _ => {
                let message = "`certificate` and `key` belong together, and only one is given";
                let hint = "give both `certificate` and `key`";
                return Err(refuse_at(message, &["load", "certificate"], hint));
            }
        };
        let span =
            |given: Option<DurationValue>, default: Duration| given.map_or(default, |span| span.0);
        Ok(TargetPlan {
            base,
            unix: self.connection.unix.as_ref().map(file).or(defaults.unix),
            owned: self.connection.own_target.clone().or(defaults.owned),
            http: self.connection.http.unwrap_or(defaults.http),
            connections: self
                .connection
                .requests_per_connection
                .map_or(defaults.connections, |number| {
                    ConnectionReuse::For(number.get())
                }),
            connect_limit: span(self.connection.connect_limit, defaults.connect_limit),
            request_limit: span(self.connection.request_limit, defaults.request_limit),
            resolve_each: self
                .connection
                .resolve_each
                .unwrap_or(defaults.resolve_each),
            ca: self.connection.ca.as_ref().map(file).or(defaults.ca),
            insecure: self.connection.insecure.unwrap_or(defaults.insecure),
            identity,
        })
    }

    /// Returns the default number of requests per trial of a search among levels.
    fn default_requests(&self) -> u64 {
        let levels = self.traffic.clients.as_ref().map(Concurrency::load_levels);
        let highest = levels
            .and_then(|levels| levels.last().copied())
            .unwrap_or(0);
        (u64::from(highest) * REQUESTS_PER_CLIENT).clamp(MIN_REQUESTS, REQUESTS)
    }

    fn plan_pace(&self, default: RequestPace) -> Result<RequestPace, Diagnostic> {
        let clients = match &self.traffic.clients {
            Some(Concurrency::Of(clients)) => Some(clients.get()),
            // Each level sets its own number of clients.
            Some(_) => Some(1),
            None => None,
        };
        match (clients, &self.traffic.rate) {
            (Some(_), Some(_)) => Err(refuse_at(
                "`clients` and `rate` are both given",
                &["load", "rate"],
                "give `clients` (each waits for its response) or `rate` (requests are sent on time)",
            )),
            (Some(clients), None) => Ok(RequestPace::Closed { clients }),
            (None, Some(rate)) => Ok(RequestPace::Open {
                millihertz: rate.0,
                connections: self
                    .traffic
                    .connections
                    .map_or(CONNECTIONS, NonZeroU32::get),
            }),
            (None, None) => Ok(default),
        }
    }

    fn plan_ready(&self, defaults: &provoke_model::LoadPlan) -> Result<ReadyCondition, Diagnostic> {
        match (&self.service.ready, self.service.ready_status) {
            (Some(ReadyWhen(ReadyCondition::Http { path, .. })), status) => {
                Ok(ReadyCondition::Http {
                    path: path.clone(),
                    status,
                })
            }
            (_, Some(_)) => Err(refuse_at(
                "`ready-status` needs a path in `ready`",
                &["load", "ready-status"],
                "add the path: ready = \"/healthz\"",
            )),
            (Some(ReadyWhen(ready)), None) => Ok(ready.clone()),
            (None, None) => Ok(defaults.ready.clone()),
        }
    }
}

/// Returns the part of a URL after host and port.
fn path_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or("", |position| &rest[position..])
}
