//! Writes the plan of a run as a scenario file.

use super::again::{NoText, text};
use super::{Amount, Frequency, ResourceName};
use crate::model::{
    self, ActorPlan, Body, Connections, Http, Leaks, Load, Only, Owner, Pace, Pick, Plan, Ready,
    RequestPlan, Role, Text, VariantPlan,
};
use std::time::Duration;
use toml::{Table, Value};

/// Returns a scenario file that puts a service of a plan under this load. Like any other file, it uses the environment
/// of the user who runs it, with the plan's own changes.
pub fn under_load(
    plan: &Plan,
    variant: &VariantPlan,
    load: &Load,
    description: &str,
) -> Result<String, NoText> {
    let mut all = Table::new();
    all.insert("description".to_owned(), description.into());
    around(&mut all, plan, variant)?;
    match variant.actors.as_slice() {
        [only] if only.name.is_empty() && only.role.decides() => actor(&mut all, only)?,
        several => {
            let several = several.iter().map(|one| {
                let mut table = Table::new();
                table.insert("name".to_owned(), one.name.as_str().into());
                if one.role == Role::Helper {
                    table.insert("role".to_owned(), "helper".into());
                }
                actor(&mut table, one)?;
                Ok(Value::Table(table))
            });
            let several = several.collect::<Result<Vec<_>, _>>()?;
            all.insert("actor".to_owned(), Value::Array(several));
        }
    }
    all.insert("load".to_owned(), Value::Table(target(load)?));
    // A kind without weight is not sent.
    let sent = load.requests.iter().filter(|kind| kind.weight > 0);
    let requests = sent.map(|kind| request(kind).map(Value::Table));
    let requests = requests.collect::<Result<Vec<_>, _>>()?;
    all.insert("request".to_owned(), Value::Array(requests));
    toml::to_string(&all).map_err(|_| NoText)
}

/// Adds the hooks and the rules of judgement.
fn around(all: &mut Table, plan: &Plan, variant: &VariantPlan) -> Result<(), NoText> {
    let (own, general) = (&variant.hooks, &plan.hooks);
    let both = |first: &Option<Text>, second: &Option<Text>| {
        let all = first.iter().chain(second).map(text);
        let all: Vec<String> = all.collect::<Result<_, NoText>>()?;
        Ok(Some(all.join("\n")).filter(|all| !all.is_empty()))
    };
    let either = |own: &Option<Text>, general: &Option<Text>| {
        own.as_ref().or(general.as_ref()).map(text).transpose()
    };
    for (name, hook) in [
        ("setup", both(&general.setup, &own.setup)?),
        ("prepare", either(&own.prepare, &general.prepare)?),
        ("conclude", either(&own.conclude, &general.conclude)?),
        ("cleanup", both(&own.cleanup, &general.cleanup)?),
    ] {
        put(all, name, hook);
    }
    put(
        all,
        "env-clear",
        plan.environment.is_empty().then_some(true),
    );
    put(all, "tmp-per-run", plan.scratch.then_some(true));
    put(all, "grace", Some(span(plan.grace)));
    put(all, "leak-grace", Some(span(plan.settle)));
    let mut limits = Table::new();
    for limit in &plan.limits {
        let Amount(value) = Amount(limit.value);
        let value = value.map_or("unlimited".to_owned(), |value| value.to_string());
        put(&mut limits, ResourceName::of(limit.resource).0, Some(value));
    }
    put(all, "rlimit", (!limits.is_empty()).then_some(limits));
    put(all, "memory", plan.memory.map(|bytes| bytes.to_string()));
    let rules = &plan.rules;
    put(all, "fail-if-out", list(&rules.fail_if_out));
    put(all, "ok-if-out", list(&rules.ok_if_out));
    let named = rules.only.iter();
    let named = named.filter(|only| !matches!(only, Only::Signature(_)));
    put(
        all,
        "only",
        list(&named.map(Only::to_string).collect::<Vec<_>>()),
    );
    let leaks = match rules.leaks {
        Leaks::Off => "off",
        Leaks::Report => "report",
        Leaks::Fail => "fail",
    };
    put(all, "leaks", Some(leaks));
    put(all, "user", plan.user.clone());
    put(all, "watch-engine", plan.watch_engine.then_some(true));
    let ignored = rules.ignore_child_crashes.then_some(true);
    put(all, "ignore-child-crashes", ignored);
    Ok(())
}

fn actor(to: &mut Table, plan: &ActorPlan) -> Result<(), NoText> {
    let command = plan.command.iter().map(text);
    let command: Vec<String> = command.collect::<Result<_, _>>()?;
    put(to, "command", list(&command));
    put(
        to,
        "copies",
        (plan.copies > 1).then(|| i64::from(plan.copies)),
    );
    put(to, "cwd", Some(text(&plan.cwd)?));
    put(to, "stdin", plan.stdin.as_ref().map(text).transpose()?);
    let mut env = Table::new();
    for (name, value) in &plan.env {
        let value = match value {
            Some(value) => Value::String(text(value)?),
            None => Value::Boolean(false),
        };
        env.insert(text(name)?, value);
    }
    put(to, "env", (!env.is_empty()).then_some(env));
    Ok(())
}

/// Returns the target and the pace of the requests.
fn target(load: &Load) -> Result<Table, NoText> {
    let mut to = Table::new();
    let target = &load.target;
    put(&mut to, "url", Some(target.base.clone()));
    put(&mut to, "unix", target.unix.as_ref().map(text).transpose()?);
    put(&mut to, "own-target", target.owned.clone());
    let http = match target.http {
        Http::One => None,
        Http::Two => Some("2"),
        Http::TwoPrior => Some("2-prior-knowledge"),
    };
    put(&mut to, "http", http);
    if let Connections::For(requests) = target.connections {
        let requests = i64::from(requests.max(1));
        put(&mut to, "requests-per-connection", Some(requests));
    }
    put(&mut to, "connect-limit", Some(span(target.connect_limit)));
    put(&mut to, "request-limit", Some(span(target.request_limit)));
    put(&mut to, "resolve-each", target.resolve_each.then_some(true));
    put(&mut to, "ca", target.ca.as_ref().map(text).transpose()?);
    put(&mut to, "insecure", target.insecure.then_some(true));
    if let Some((certificate, key)) = &target.identity {
        put(&mut to, "certificate", Some(text(certificate)?));
        put(&mut to, "key", Some(text(key)?));
    }
    match load.owner {
        Owner::Provoke => {}
        Owner::Somebody => put(&mut to, "attach", Some("listener")),
        Owner::Process(pid) => put(&mut to, "attach", Some(pid.to_string())),
    }
    let (ready, status) = match &load.ready {
        Ready::Connects => ("tcp".to_owned(), None),
        Ready::Http { path, status } => (path.clone(), *status),
        Ready::Log(line) => (format!("log:{line}"), None),
        Ready::After(time) => (span(*time), None),
    };
    put(&mut to, "ready", Some(ready));
    put(&mut to, "ready-status", status.map(i64::from));
    put(&mut to, "ready-limit", Some(span(load.ready_limit)));
    match load.pace {
        Pace::Closed { clients } => put(&mut to, "clients", Some(i64::from(clients))),
        Pace::Open {
            millihertz,
            connections,
        } => {
            put(&mut to, "rate", Some(Frequency(millihertz).to_string()));
            put(&mut to, "connections", Some(i64::from(connections)));
        }
    }
    match load.amount {
        model::Amount::Requests(requests) => put(&mut to, "requests", Some(whole(requests))),
        model::Amount::Time(time) => put(&mut to, "time", Some(span(time))),
    }
    put(&mut to, "warm-requests", Some(whole(load.warm_up.requests)));
    put(&mut to, "think", Some(span(load.think)));
    put(&mut to, "spread", Some(span(load.spread)));
    put(&mut to, "quiet-time", Some(span(load.settle)));
    put(&mut to, "hang-after", Some(span(load.hang_after)));
    put(&mut to, "rows", load.rows.as_ref().map(text).transpose()?);
    put(&mut to, "log-requests", load.log_all.then_some(true));
    Ok(to)
}

fn request(plan: &RequestPlan) -> Result<Table, NoText> {
    let mut to = Table::new();
    put(&mut to, "name", Some(plan.name.clone()));
    put(&mut to, "weight", Some(i64::from(plan.weight)));
    let pairs = |pairs: &[(String, String)]| {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
        Some(pairs.collect::<Table>()).filter(|pairs| !pairs.is_empty())
    };
    if let Some(file) = &plan.raw {
        put(&mut to, "raw", Some(text(file)?));
    } else {
        put(&mut to, "method", Some(plan.method.clone()));
        put(&mut to, "path", Some(plan.path.clone()));
        put(&mut to, "headers", pairs(&plan.headers));
    }
    match &plan.body {
        Body::None => {}
        Body::Text(body) => put(&mut to, "body", Some(body.clone())),
        Body::Column(column) => put(&mut to, "body-column", Some(column.clone())),
        Body::Files { files, pick } => {
            let files = files.iter().map(text).collect::<Result<Vec<_>, _>>()?;
            put(&mut to, "body-files", list(&files));
            let pick = match pick {
                Pick::Random => "random",
                Pick::Cycle => "cycle",
                Pick::Once => "once",
            };
            put(&mut to, "pick", Some(pick));
        }
    }
    let expect = &plan.expect;
    let status = expect.status.iter().map(|one| Value::from(i64::from(*one)));
    let status: Vec<Value> = status.collect();
    put(&mut to, "status", (!status.is_empty()).then_some(status));
    put(&mut to, "expect-headers", pairs(&expect.headers));
    put(&mut to, "expect-body", expect.body_regex.clone());
    put(&mut to, "expect-sha256", expect.body_sha256.clone());
    let mut json = Table::new();
    for (at, value) in &expect.json {
        let value = value.as_ref().map_or(Ok("*".to_owned()), text)?;
        json.insert(at.clone(), Value::String(value));
    }
    put(&mut to, "expect-json", (!json.is_empty()).then_some(json));
    put(&mut to, "max-bytes", expect.max_bytes.map(whole));
    Ok(to)
}

fn put(to: &mut Table, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        to.insert(name.to_owned(), value.into());
    }
}

fn list(all: &[String]) -> Option<Value> {
    let values = all.iter().map(|one| Value::from(one.as_str()));
    (!all.is_empty()).then(|| Value::Array(values.collect()))
}

/// Formats a time to the microsecond for a scenario.
fn span(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0 => "0s".to_owned(),
        _ if micros.is_multiple_of(1_000_000) => format!("{}s", micros / 1_000_000),
        _ if micros.is_multiple_of(1000) => format!("{}ms", micros / 1000),
        _ => format!("{micros}us"),
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, Surroundings};
    use std::path::PathBuf;

    fn planned(text: &str) -> Plan {
        let scenario: Scenario = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        let around = Surroundings {
            environment: vec![("HOME".into(), "/root".into())],
            base: PathBuf::from("/work"),
            seed: 1,
            searched: None,
            baseline: None,
        };
        scenario.plan(around).unwrap()
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
