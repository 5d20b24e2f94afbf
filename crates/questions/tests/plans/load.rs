//! The plans of loads.

use provoke_model::{Plan, ReadyCondition, RequestPace};
use provoke_plan::{Concurrency, PlanContext, ReadyWhen, Scenario};
use provoke_questions as questions;
use std::path::PathBuf;
use std::time::Duration;

fn plan_context() -> PlanContext {
    PlanContext {
        environment: Vec::new(),
        base: PathBuf::from("/base"),
        seed: 1,
        searched: None,
        baseline: None,
        held: None,
    }
}

fn plan_of(text: &str) -> Result<Plan, String> {
    let scenario: Scenario = text.parse()?;
    let plan = questions::plan(&scenario, plan_context());
    plan.map_err(|refusal| {
        format!(
            "{} at {}: {}",
            refusal.message,
            refusal.position.join("."),
            refusal.hint()
        )
    })
}

fn load(text: &str) -> provoke_model::LoadPlan {
    plan_of(text).unwrap().trials.load.unwrap()
}

const SERVICE: &str = "command = ['./app']\n[load]\nurl = 'http://127.0.0.1:8080/a/b?c=d'\n";

#[test]
fn the_path_of_the_url_is_requested() {
    let load = load(SERVICE);
    assert_eq!(load.target.base, "http://127.0.0.1:8080");
    assert_eq!(load.requests.len(), 1);
    assert_eq!(load.requests[0].path, "/a/b?c=d");
    assert_eq!(load.requests[0].name, "GET /a/b?c=d");
    let bare = SERVICE.replace("/a/b?c=d", "");
    assert_eq!(self::load(&bare).requests[0].path, "/");
}

#[test]
fn paths_of_requests_are_appended_to_the_path_of_the_url() {
    let text = format!("{SERVICE}[[request]]\npath = '/x'\nbody = 'hello'\nweight = 3");
    let load = load(&text.replace("/a/b?c=d", "/api/"));
    assert_eq!(load.target.base, "http://127.0.0.1:8080/api");
    let request = &load.requests[0];
    assert_eq!((request.name.as_str(), request.weight), ("POST /x", 3));
}

#[test]
fn a_single_raw_request_needs_no_path() {
    let load = load(&format!("{SERVICE}[[request]]\nraw = 'one.http'"));
    assert_eq!(load.requests.len(), 1);
    assert_eq!(load.requests[0].raw, Some("/base/one.http".into()));
}

#[test]
fn a_command_under_load_is_a_service() {
    let plan = plan_of(SERVICE).unwrap();
    assert!(plan.is_sound());
    assert_eq!(
        plan.trials.variants[0].actors[0].role,
        provoke_model::ActorRole::Service
    );
    assert!(plan.goal.question.is_rate());
    assert_eq!(plan.stop.trials, Some(20));
}

#[test]
fn load_levels_are_variants_of_one_service() {
    let plan = plan_of(&format!("{SERVICE}clients = '1..64'")).unwrap();
    assert!(plan.goal.question.as_ramp().is_some());
    let levels: Vec<&str> = plan
        .trials
        .variants
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let expected: Vec<String> = (1..=64).map(|level| level.to_string()).collect();
    assert_eq!(levels, expected);
}

#[test]
fn a_range_of_too_many_levels_is_divided_into_steps() {
    let levels = |range: &str| {
        let plan = plan_of(&format!("{SERVICE}clients = '{range}'")).unwrap();
        let levels = plan.trials.variants.iter().filter_map(|one| one.clients);
        levels.collect::<Vec<u32>>()
    };
    assert_eq!(levels("1..1024").len(), 1024);
    let wide = levels("1..1025");
    assert_eq!(wide[wide.len() - 4..], [640, 768, 1024, 1025]);
}

#[test]
fn contradictory_fields_are_refused_with_their_position() {
    for (more, expected) in [
        (
            "clients = 10\nrate = '5/s'",
            "`clients` and `rate` are both given at load.rate",
        ),
        (
            "requests = 10\ntime = '5s'",
            "`requests` and `time` are both given at load.time",
        ),
        (
            "ready-status = 204",
            "`ready-status` needs a path in `ready` at load.ready-status",
        ),
        (
            "key = 'k.pem'",
            "`certificate` and `key` belong together, and only one is given at load.certificate",
        ),
        (
            "attach = 'listener'",
            "`attach` and a command to start the service are both given at load.attach",
        ),
        (
            "[[request]]\nbody = 'a'\nbody-column = 'b'",
            "a request has more than one body at request.0.body",
        ),
        (
            "[[request]]\nraw = 'a.http'\npath = '/b'",
            "a request has both `raw` and `path` at request.0.path",
        ),
        (
            "[[request]]\npick = 'once'",
            "`pick` needs `body-files` at request.0.pick",
        ),
    ] {
        let refused = plan_of(&format!("{SERVICE}{more}")).unwrap_err();
        assert!(refused.starts_with(expected), "{refused}");
    }
    let nowhere = plan_of("command = ['./app']\n[load]\nclients = 3").unwrap_err();
    assert!(
        nowhere.starts_with("the load has no target URL at load.url"),
        "{nowhere}"
    );
    let only = plan_of("command = ['./app']\n[[request]]\npath = '/'").unwrap_err();
    assert!(
        only.starts_with("there are requests, but no [load] table"),
        "{only}"
    );
}

#[test]
fn a_repeated_run_has_the_same_load() {
    let only = provoke_model::VariantId(0);
    let plan = plan_of(&format!(
        "{SERVICE}clients = 7\nrequests = 50\nready = '/ok'"
    ))
    .unwrap();
    let again = Scenario::of_variant(&plan.goal, &plan.trials, only).unwrap();
    assert_eq!(
        questions::plan(&again, plan_context()).unwrap().trials.load,
        plan.trials.load
    );
    let mut more = again.clone();
    let clients = Some(Concurrency::Of(9.try_into().unwrap()));
    more.load.get_or_insert_default().traffic.clients = clients;
    let load = questions::plan(&more, plan_context())
        .unwrap()
        .trials
        .load
        .unwrap();
    assert_eq!(load.pace, RequestPace::Closed { clients: 9 });
    assert_eq!(load.amount, provoke_model::LoadLimit::Requests(50));
}

#[test]
fn the_ready_condition_is_parsed_from_one_word() {
    let ready = |word: &str| word.parse::<ReadyWhen>().map(|ready| ready.0);
    assert_eq!(ready("tcp"), Ok(ReadyCondition::Connects));
    assert_eq!(
        ready("2s"),
        Ok(ReadyCondition::After(Duration::from_secs(2)))
    );
    assert_eq!(ready("log:^up"), Ok(ReadyCondition::Log("^up".to_owned())));
    assert!(ready("log:(").is_err() && ready("soon").is_err());
    assert!(matches!(ready("/healthz"), Ok(ReadyCondition::Http { .. })));
}
