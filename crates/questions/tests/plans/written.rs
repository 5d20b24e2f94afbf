//! Scenarios that are written from plans.

use provoke_model::{Plan, VariantId};
use provoke_plan::{PlanContext, Scenario, under_load};
use provoke_questions as questions;
use std::path::PathBuf;

fn plan_of(text: &str) -> Plan {
    let scenario: Scenario = text.parse().unwrap_or_else(|error| panic!("{error}"));
    let plan_context = PlanContext {
        environment: vec![("HOME".into(), "/root".into())],
        base: PathBuf::from("/base"),
        seed: 1,
        searched: None,
        baseline: None,
        held: None,
    };
    questions::plan(&scenario, plan_context).unwrap()
}

fn scenario_text(plan: &Plan) -> String {
    let load = plan.trials.load.as_ref().unwrap();
    under_load(&plan.goal, &plan.trials, VariantId(0), load, "again").unwrap()
}

#[test]
fn a_written_scenario_gives_the_same_plan() {
    let plan = plan_of(
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
find = "refusal"
refusal-share = "20%"
refusal-status = [500, 502]
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
    let again = plan_of(&scenario_text(&plan));
    assert_eq!(again, plan);
}

#[test]
fn a_written_scenario_contains_all_processes() {
    let plan = plan_of(
        "[[actor]]\nname = 'db'\nrole = 'helper'\ncommand = ['db']\n\
         [[actor]]\nname = 'app'\ncommand = ['app']\n\
         [load]\nurl = 'http://127.0.0.1:1/x'\nclients = 3\nready = '2s'\n",
    );
    let again = plan_of(&scenario_text(&plan));
    assert_eq!(again, plan);
}

#[test]
fn a_kind_without_weight_is_left_out() {
    let mut plan = plan_of(
        "command = ['app']\n[load]\nurl = 'http://127.0.0.1:1'\n\
         [[request]]\npath = '/a'\n[[request]]\npath = '/b'\n",
    );
    plan.trials.load.as_mut().unwrap().requests[0].weight = 0;
    let again = plan_of(&scenario_text(&plan)).trials.load.unwrap();
    let paths: Vec<&str> = again.requests.iter().map(|one| &one.path[..]).collect();
    assert_eq!(paths, ["/b"]);
}
