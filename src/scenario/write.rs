//! Writes the plan of a run as a scenario file.

use super::restore::{NonUtf8Argument, utf8_text};
use super::{Frequency, LimitValue, ResourceName};
use crate::model::{
    self, ActorPlan, ActorRole, BugFilter, ConnectionReuse, FilePick, HttpVersion, LeakRule,
    LoadPlan, Plan, ReadyCondition, RequestBody, RequestPace, RequestPlan, ServiceOwner, Text,
    VariantPlan,
};
use std::time::Duration;
use toml::{Table, Value};

/// Returns a scenario file that puts a service of a plan under this load. Like any other file, it uses the environment
/// of the user who runs it, with the plan's own changes.
pub fn under_load(
    plan: &Plan,
    variant: &VariantPlan,
    load: &LoadPlan,
    description: &str,
) -> Result<String, NonUtf8Argument> {
    let mut all = Table::new();
    all.insert("description".to_owned(), description.into());
    write_surroundings(&mut all, plan, variant)?;
    match variant.actors.as_slice() {
        [only] if only.name.is_empty() && only.role.decides_outcome() => {
            write_actor(&mut all, only)?;
        }
        several => {
            let several = several.iter().map(|one| {
                let mut table = Table::new();
                table.insert("name".to_owned(), one.name.as_str().into());
                if one.role == ActorRole::Helper {
                    table.insert("role".to_owned(), "helper".into());
                }
                write_actor(&mut table, one)?;
                Ok(Value::Table(table))
            });
            let several = several.collect::<Result<Vec<_>, _>>()?;
            all.insert("actor".to_owned(), Value::Array(several));
        }
    }
    all.insert("load".to_owned(), Value::Table(target_table(load)?));
    // A kind without weight is not sent.
    let sent = load.requests.iter().filter(|kind| kind.weight > 0);
    let requests = sent.map(|kind| request_table(kind).map(Value::Table));
    let requests = requests.collect::<Result<Vec<_>, _>>()?;
    all.insert("request".to_owned(), Value::Array(requests));
    toml::to_string(&all).map_err(|_| NonUtf8Argument)
}

/// Adds the hooks and the rules of judgement.
fn write_surroundings(
    all: &mut Table,
    plan: &Plan,
    variant: &VariantPlan,
) -> Result<(), NonUtf8Argument> {
    let (own, general) = (&variant.hooks, &plan.hooks);
    let both = |first: &Option<Text>, second: &Option<Text>| {
        let all = first.iter().chain(second).map(utf8_text);
        let all: Vec<String> = all.collect::<Result<_, NonUtf8Argument>>()?;
        Ok(Some(all.join("\n")).filter(|all| !all.is_empty()))
    };
    let either = |own: &Option<Text>, general: &Option<Text>| {
        own.as_ref().or(general.as_ref()).map(utf8_text).transpose()
    };
    for (name, hook) in [
        ("setup", both(&general.setup, &own.setup)?),
        ("prepare", either(&own.prepare, &general.prepare)?),
        ("conclude", either(&own.conclude, &general.conclude)?),
        ("cleanup", both(&own.cleanup, &general.cleanup)?),
    ] {
        put_value(all, name, hook);
    }
    put_value(
        all,
        "env-clear",
        plan.environment.is_empty().then_some(true),
    );
    put_value(all, "tmp-per-run", plan.scratch.then_some(true));
    put_value(all, "grace", Some(format_span(plan.grace)));
    put_value(all, "leak-grace", Some(format_span(plan.settle)));
    let mut limits = Table::new();
    for limit in &plan.limits {
        let LimitValue(value) = LimitValue(limit.value);
        let value = value.map_or("unlimited".to_owned(), |value| value.to_string());
        put_value(
            &mut limits,
            ResourceName::of_resource(limit.resource).0,
            Some(value),
        );
    }
    put_value(all, "rlimit", (!limits.is_empty()).then_some(limits));
    put_value(all, "memory", plan.memory.map(|bytes| bytes.to_string()));
    let rules = &plan.rules;
    put_value(all, "fail-if-out", text_list(&rules.fail_if_out));
    put_value(all, "ok-if-out", text_list(&rules.ok_if_out));
    let named = rules.only.iter();
    let named = named.filter(|only| !matches!(only, BugFilter::Signature(_)));
    put_value(
        all,
        "only",
        text_list(&named.map(BugFilter::to_string).collect::<Vec<_>>()),
    );
    let leaks = match rules.leaks {
        LeakRule::Off => "off",
        LeakRule::Report => "report",
        LeakRule::Fail => "fail",
    };
    put_value(all, "leaks", Some(leaks));
    put_value(all, "user", plan.user.clone());
    put_value(all, "watch-engine", plan.watch_engine.then_some(true));
    let ignored = rules.ignore_child_crashes.then_some(true);
    put_value(all, "ignore-child-crashes", ignored);
    Ok(())
}

fn write_actor(to: &mut Table, plan: &ActorPlan) -> Result<(), NonUtf8Argument> {
    let command = plan.command.iter().map(utf8_text);
    let command: Vec<String> = command.collect::<Result<_, _>>()?;
    put_value(to, "command", text_list(&command));
    put_value(
        to,
        "copies",
        (plan.copies > 1).then(|| i64::from(plan.copies)),
    );
    put_value(to, "cwd", Some(utf8_text(&plan.cwd)?));
    put_value(to, "stdin", plan.stdin.as_ref().map(utf8_text).transpose()?);
    let mut env = Table::new();
    for (name, value) in &plan.env {
        let value = match value {
            Some(value) => Value::String(utf8_text(value)?),
            None => Value::Boolean(false),
        };
        env.insert(utf8_text(name)?, value);
    }
    put_value(to, "env", (!env.is_empty()).then_some(env));
    Ok(())
}

/// Returns the target and the pace of the requests.
fn target_table(load: &LoadPlan) -> Result<Table, NonUtf8Argument> {
    let mut to = Table::new();
    let target = &load.target;
    put_value(&mut to, "url", Some(target.base.clone()));
    put_value(
        &mut to,
        "unix",
        target.unix.as_ref().map(utf8_text).transpose()?,
    );
    put_value(&mut to, "own-target", target.owned.clone());
    let http = match target.http {
        HttpVersion::One => None,
        HttpVersion::Two => Some("2"),
        HttpVersion::TwoPrior => Some("2-prior-knowledge"),
    };
    put_value(&mut to, "http", http);
    if let ConnectionReuse::For(requests) = target.connections {
        let requests = i64::from(requests.max(1));
        put_value(&mut to, "requests-per-connection", Some(requests));
    }
    put_value(
        &mut to,
        "connect-limit",
        Some(format_span(target.connect_limit)),
    );
    put_value(
        &mut to,
        "request-limit",
        Some(format_span(target.request_limit)),
    );
    put_value(&mut to, "resolve-each", target.resolve_each.then_some(true));
    put_value(
        &mut to,
        "ca",
        target.ca.as_ref().map(utf8_text).transpose()?,
    );
    put_value(&mut to, "insecure", target.insecure.then_some(true));
    if let Some((certificate, key)) = &target.identity {
        put_value(&mut to, "certificate", Some(utf8_text(certificate)?));
        put_value(&mut to, "key", Some(utf8_text(key)?));
    }
    match load.owner {
        ServiceOwner::Provoke => {}
        ServiceOwner::Somebody => put_value(&mut to, "attach", Some("listener")),
        ServiceOwner::Process(pid) => put_value(&mut to, "attach", Some(pid.to_string())),
    }
    let (ready, status) = match &load.ready {
        ReadyCondition::Connects => ("tcp".to_owned(), None),
        ReadyCondition::Http { path, status } => (path.clone(), *status),
        ReadyCondition::Log(line) => (format!("log:{line}"), None),
        ReadyCondition::After(time) => (format_span(*time), None),
    };
    put_value(&mut to, "ready", Some(ready));
    put_value(&mut to, "ready-status", status.map(i64::from));
    put_value(&mut to, "ready-limit", Some(format_span(load.ready_limit)));
    match load.pace {
        RequestPace::Closed { clients } => put_value(&mut to, "clients", Some(i64::from(clients))),
        RequestPace::Open {
            millihertz,
            connections,
        } => {
            put_value(&mut to, "rate", Some(Frequency(millihertz).to_string()));
            put_value(&mut to, "connections", Some(i64::from(connections)));
        }
    }
    match load.amount {
        model::LoadLimit::Requests(requests) => {
            put_value(&mut to, "requests", Some(to_integer(requests)));
        }
        model::LoadLimit::Time(time) => put_value(&mut to, "time", Some(format_span(time))),
    }
    put_value(
        &mut to,
        "warm-requests",
        Some(to_integer(load.warm_up.requests)),
    );
    put_value(&mut to, "think", Some(format_span(load.think)));
    put_value(&mut to, "spread", Some(format_span(load.spread)));
    put_value(&mut to, "quiet-time", Some(format_span(load.settle)));
    put_value(&mut to, "hang-after", Some(format_span(load.hang_after)));
    put_value(
        &mut to,
        "rows",
        load.rows.as_ref().map(utf8_text).transpose()?,
    );
    put_value(&mut to, "log-requests", load.log_all.then_some(true));
    Ok(to)
}

fn request_table(plan: &RequestPlan) -> Result<Table, NonUtf8Argument> {
    let mut to = Table::new();
    put_value(&mut to, "name", Some(plan.name.clone()));
    put_value(&mut to, "weight", Some(i64::from(plan.weight)));
    let pairs = |pairs: &[(String, String)]| {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        Some(pairs.collect::<Table>()).filter(|pairs| !pairs.is_empty())
    };
    if let Some(file) = &plan.raw {
        put_value(&mut to, "raw", Some(utf8_text(file)?));
    } else {
        put_value(&mut to, "method", Some(plan.method.clone()));
        put_value(&mut to, "path", Some(plan.path.clone()));
        put_value(&mut to, "headers", pairs(&plan.headers));
    }
    match &plan.body {
        RequestBody::None => {}
        RequestBody::Text(body) => put_value(&mut to, "body", Some(body.clone())),
        RequestBody::Column(column) => put_value(&mut to, "body-column", Some(column.clone())),
        RequestBody::Files { files, pick } => {
            let files = files.iter().map(utf8_text).collect::<Result<Vec<_>, _>>()?;
            put_value(&mut to, "body-files", text_list(&files));
            let pick = match pick {
                FilePick::Random => "random",
                FilePick::Cycle => "cycle",
                FilePick::Once => "once",
            };
            put_value(&mut to, "pick", Some(pick));
        }
    }
    let expect = &plan.expect;
    let status = expect.status.iter().map(|one| Value::from(i64::from(*one)));
    let status: Vec<Value> = status.collect();
    put_value(&mut to, "status", (!status.is_empty()).then_some(status));
    put_value(&mut to, "expect-headers", pairs(&expect.headers));
    put_value(&mut to, "expect-body", expect.body_regex.clone());
    put_value(&mut to, "expect-sha256", expect.body_sha256.clone());
    let mut json = Table::new();
    for (at, value) in &expect.json {
        let value = value.as_ref().map_or(Ok("*".to_owned()), utf8_text)?;
        json.insert(at.clone(), Value::String(value));
    }
    put_value(&mut to, "expect-json", (!json.is_empty()).then_some(json));
    put_value(&mut to, "max-bytes", expect.max_bytes.map(to_integer));
    Ok(to)
}

fn put_value(to: &mut Table, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        to.insert(name.to_owned(), value.into());
    }
}

fn text_list(all: &[String]) -> Option<Value> {
    let values = all.iter().map(|one| Value::from(one.as_str()));
    (!all.is_empty()).then(|| Value::Array(values.collect()))
}

/// Formats a time to the microsecond for a scenario.
fn format_span(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0 => "0s".to_owned(),
        _ if micros.is_multiple_of(1_000_000) => format!("{}s", micros / 1_000_000),
        _ if micros.is_multiple_of(1000) => format!("{}ms", micros / 1000),
        _ => format!("{micros}us"),
    }
}

fn to_integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{PlanContext, Scenario};
    use std::path::PathBuf;

    fn planned(text: &str) -> Plan {
        let scenario: Scenario = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        let around = PlanContext {
            environment: vec![("HOME".into(), "/root".into())],
            base: PathBuf::from("/work"),
            seed: 1,
            searched: None,
            baseline: None,
        };
        scenario.to_plan(around).unwrap()
    }

    fn written(plan: &Plan) -> String {
        let load = plan.load.as_ref().unwrap();
        under_load(plan, &plan.variants[0], load, "again").unwrap()
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let plan = planned(
            r#"
command = ["./app", "a \"b\"\\", "{slot}"]
cwd = "there"
env = { A = "1", B = false }
only = ["SIGSEGV", "hang"]
setup = "make\ntest"
prepare = "true"
leaks = "report"
rlimit = { nofile = "100" }
grace = "1500us"
[load]
url = "http://127.0.0.1:80{slot}/base"
ready = "/healthz"
ready-status = 204
rate = "2.5/s"
connections = 7
time = "1500ms"
requests-per-connection = 1
http = "2"
rows = "rows.csv"
think = "1ms"
[[request]]
name = "text"
weight = 3
path = "/a?{seq}"
headers = { X-A = "b" }
body = "{\"a\": {rand}}"
status = [200, 204]
expect-json = { "/a" = "*", "/b" = "c" }
max-bytes = 1024
[[request]]
body-files = ["a.jpg", "b.jpg"]
pick = "cycle"
[[request]]
body-column = "id"
[[request]]
raw = "requests/one.http"
expect-body = "a.*b"
"#,
        );
        let again = planned(&written(&plan));
        assert_eq!(again, plan);
    }

    #[test]
    fn several_processes_are_written_too() {
        let plan = planned(
            "[[actor]]\nname = 'db'\nrole = 'helper'\ncommand = ['db']\n\
             [[actor]]\nname = 'app'\ncommand = ['app']\n\
             [load]\nurl = 'http://127.0.0.1:1/x'\nclients = 3\nready = '2s'\n",
        );
        let again = planned(&written(&plan));
        assert_eq!(again, plan);
    }

    #[test]
    fn a_kind_without_weight_is_left_out() {
        let mut plan = planned(
            "command = ['app']\n[load]\nurl = 'http://127.0.0.1:1'\n\
             [[request]]\npath = '/a'\n[[request]]\npath = '/b'\n",
        );
        plan.load.as_mut().unwrap().requests[0].weight = 0;
        let again = planned(&written(&plan)).load.unwrap();
        let paths: Vec<&str> = again.requests.iter().map(|one| &one.path[..]).collect();
        assert_eq!(paths, ["/b"]);
    }
}
