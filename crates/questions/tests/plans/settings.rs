//! The plans that settings give, and the settings that are refused.

use provoke_levers as levers;
use provoke_model::{
    ActorPlan, ActorRole, Alpha, CaptureMode, EditPlan, ExpectedResult, FileChange, Hooks,
    LeakRule, MeasuredBaseline, Plan, Rules, Text, Timeout, TrialSettings,
};
use provoke_plan::{DEFAULT_DURATION, DEFAULT_RUNS, PlanContext, Scenario};
use provoke_questions as questions;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn plan_context() -> PlanContext {
    PlanContext {
        environment: vec![("PATH".into(), "/bin".into())],
        base: PathBuf::from("/base"),
        seed: 7,
        baseline: None,
        held: None,
        searched: None,
    }
}

fn scenario(text: &str) -> Scenario {
    text.parse().unwrap()
}

fn plan(text: &str) -> Plan {
    questions::plan(&scenario(text), plan_context()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn refusal(text: &str) -> (String, String) {
    let refusal = questions::plan(&scenario(text), plan_context()).unwrap_err();
    assert!(!refusal.hint().is_empty());
    (refusal.message, refusal.position.join("."))
}

fn command_words(actor: &ActorPlan) -> Vec<String> {
    actor.command.iter().map(ToString::to_string).collect()
}

fn variables(actor: &ActorPlan) -> Vec<(String, Option<String>)> {
    let shown = |(name, value): &(Text, Option<Text>)| {
        (name.to_string(), value.as_ref().map(ToString::to_string))
    };
    actor.env.iter().map(shown).collect()
}

#[test]
fn a_command_alone_gives_a_plan_with_defaults() {
    let plan = plan("command = ['prog', 'arg']");
    assert_eq!(plan.trials.variants.len(), 1);
    assert_eq!(plan.trials.variants[0].name, "");
    let [actor] = plan.trials.variants[0].actors.as_slice() else {
        panic!("one process")
    };
    assert_eq!(command_words(actor), ["prog", "arg"]);
    assert_eq!(
        (actor.role, actor.copies, &actor.stdin),
        (ActorRole::Main, 1, &None)
    );
    assert_eq!(Path::new(actor.cwd.as_os_str()), Path::new("/base"));
    assert_eq!(plan.trials.environment, plan_context().environment);
    assert_eq!(plan.trials.settings, TrialSettings::default());
    assert_eq!(
        (
            plan.trials.jobs,
            plan.trials.waves,
            plan.trials.warmup,
            levers::delay_of(&plan.trials.conditions)
        ),
        (1, false, 0, Duration::ZERO)
    );
    assert_eq!(
        (plan.trials.seed, plan.goal.expect, plan.goal.alpha),
        (7, ExpectedResult::Pass, Alpha::default())
    );
    assert_eq!(
        (
            plan.trials.rules,
            plan.trials.hooks,
            plan.trials.settings.scratch
        ),
        (Rules::default(), Hooks::default(), false)
    );
}

#[test]
fn every_run_has_a_limit() {
    let default = plan("shell = 'x'").stop;
    assert_eq!(
        (default.trials, default.time_budget()),
        (Some(DEFAULT_RUNS), Some(DEFAULT_DURATION))
    );
    for (field, trials, seconds, failures) in [
        ("runs = 5", Some(5), None, None),
        ("duration = '1m'", None, Some(60), None),
        ("fail-fast = true", None, Some(600), Some(1)),
        ("max-fail = 3", None, Some(600), Some(3)),
        ("width = '5%'", None, Some(600), None),
        (
            "runs = 5\nduration = 9\nmax-fail = 1\nfail-fast = true",
            Some(5),
            Some(9),
            Some(1),
        ),
    ] {
        let stop = plan(&format!("shell = 'x'\n{field}")).stop;
        let duration = seconds.map(Duration::from_secs);
        assert_eq!(
            (stop.trials, stop.time_budget(), stop.failures),
            (trials, duration, failures),
            "{field}"
        );
    }
}

#[test]
fn variables_of_actors_override_variants_and_variants_override_the_file() {
    let plan = plan(
        "
        env = { A = 'file', B = 'file', C = 'file', D = false }
        [[actor]]
        name = 'm'
        shell = 'x'
        env = { C = 'actor' }
        [[variant]]
        name = 'v'
        env = { B = 'variant', C = 'variant', D = 1 }
        ",
    );
    let value = |text: &str| Some(text.to_owned());
    assert_eq!(
        variables(&plan.trials.variants[0].actors[0]),
        [
            ("A".to_owned(), value("file")),
            ("B".to_owned(), value("variant")),
            ("C".to_owned(), value("actor")),
            ("D".to_owned(), value("1")),
        ]
    );
}

#[test]
fn a_variant_changes_only_the_main_process() {
    let plan = plan(
        "
        cwd = 'all'
        stdin = 'all.txt'
        copies = 2
        [[actor]]
        name = 'm'
        command = ['main']
        [[actor]]
        name = 'h'
        role = 'helper'
        command = ['helper']
        [[variant]]
        name = 'plain'
        [[variant]]
        name = 'other'
        shell = 'other'
        cwd = '/elsewhere'
        stdin = 'other.txt'
        copies = 3
        [[variant]]
        name = 'more'
        args = ['-v']
        ",
    );
    let show = |actor: &ActorPlan| {
        let input = actor
            .stdin
            .as_ref()
            .map_or(String::new(), ToString::to_string);
        format!(
            "{} in {} from {input} x{}",
            command_words(actor).join(" "),
            actor.cwd,
            actor.copies
        )
    };
    let shown: Vec<_> = plan
        .trials
        .variants
        .iter()
        .map(|variant| show(&variant.actors[0]))
        .collect();
    assert_eq!(
        shown,
        [
            "main in /base/all from /base/all.txt x2",
            "sh -c other in /elsewhere from /base/other.txt x3",
            "main -v in /base/all from /base/all.txt x2",
        ]
    );
    for variant in &plan.trials.variants {
        assert_eq!(
            show(&variant.actors[1]),
            "helper in /base/all from  x1",
            "{}",
            variant.name
        );
    }
}

#[test]
fn every_variant_can_have_its_own_command() {
    let plan =
        plan("[[variant]]\nname = 'a'\ncommand = ['a']\n[[variant]]\nname = 'b'\nshell = 'b'");
    let commands: Vec<_> = plan
        .trials
        .variants
        .iter()
        .map(|variant| command_words(&variant.actors[0]))
        .collect();
    assert_eq!(commands, [vec!["a"], vec!["sh", "-c", "b"]]);
}

#[test]
fn a_command_prefix_applies_only_to_the_main_process() {
    let text = "
        wrap = \"rr record -o '{dir}/the trace'\"
        [[actor]]
        name = 'm'
        command = ['main']
        [[actor]]
        name = 'h'
        role = 'helper'
        command = ['helper']
        ";
    let plan = plan(text);
    let actors = &plan.trials.variants[0].actors;
    assert_eq!(
        command_words(&actors[0]),
        ["rr", "record", "-o", "{dir}/the trace", "main"]
    );
    assert_eq!(command_words(&actors[1]), ["helper"]);
    assert!(plan.trials.settings.scratch);
}

#[test]
fn a_command_with_the_dir_placeholder_gets_a_directory() {
    assert!(
        plan("command = ['prog', '--tmp={dir}']")
            .trials
            .settings
            .scratch
    );
    assert!(plan("shell = 'ls {dir}'").trials.settings.scratch);
    assert!(
        plan("shell = 'x'\ntmp-per-run = true")
            .trials
            .settings
            .scratch
    );
    assert!(
        !plan("command = ['prog', '{seed}', '{directory}']")
            .trials
            .settings
            .scratch
    );
}

#[test]
fn a_wave_implies_its_jobs() {
    let concurrency_of = |text: &str| {
        let plan = plan(&format!("shell = 'x'\n{text}"));
        (plan.trials.jobs, plan.trials.waves)
    };
    assert_eq!(concurrency_of("jobs = 3"), (3, false));
    assert_eq!(concurrency_of("wave = 4"), (4, true));
    assert_eq!(concurrency_of("wave = 4\njobs = 4"), (4, true));
    let (what, at) = refusal("shell = 'x'\nwave = 4\njobs = 3");
    assert_eq!(
        (what.as_str(), at.as_str()),
        (
            "`wave` starts 4 trials together, and `jobs` allows 3",
            "wave"
        )
    );
}

#[test]
fn rules_and_limits_of_the_scenario_are_in_the_plan() {
    let plan = plan(
        "
        shell = 'x'
        env-clear = true
        ok = [0, 3]
        skip = []
        only = ['SIGSEGV', 'hang']
        fail-if-out = ['race']
        leaks = 'report'
        max-rate = '1%'
        timeout = 'auto'
        [rlimit]
        core = 'unlimited'
        as = '4G'
        ",
    );
    assert_eq!(plan.trials.environment, []);
    assert_eq!(plan.trials.rules.ok, BTreeSet::from([0, 3]));
    assert!(plan.trials.rules.skip.is_empty());
    assert_eq!(
        (plan.trials.rules.only.len(), plan.trials.rules.leaks),
        (2, LeakRule::Report)
    );
    assert_eq!(plan.trials.rules.fail_if_out, ["race"]);
    assert_eq!(
        (plan.goal.expect, plan.trials.settings.timeout),
        (ExpectedResult::MaxRate(10_000), Timeout::Auto)
    );
    assert_eq!(
        (
            plan.trials.settings.capture,
            plan.trials.settings.cores.limit
        ),
        (CaptureMode::On, u64::MAX),
        "whoever sets a limit for cores wants them"
    );
    // The limit for cores belongs to their capture.
    let limits = plan.trials.conditions.get("rlimit");
    assert_eq!(limits, Some("as=4294967296"));
}

#[test]
fn contradictory_fields_are_refused_with_their_position() {
    let actor = |rest: &str| format!("[[actor]]\nname = 'm'\nshell = 'x'\n{rest}");
    let variant = |rest: &str| format!("shell = 'x'\n[[variant]]\nname = 'a'\n{rest}");
    for (text, wanted, place) in [
        ("", "there is no command to run", ""),
        ("command = []", "there is no command to run", "command"),
        (
            "command = ['x']\nshell = 'x'",
            "`command` and `shell` are both given",
            "shell",
        ),
        ("shell = 'x'\nruns = 0", "`runs` must be at least 1", "runs"),
        (
            "shell = 'x'\nmax-fail = 0",
            "`max-fail` must be at least 1",
            "max-fail",
        ),
        (
            "shell = 'x'\nexpect = 'fail'\nmax-rate = 1",
            "`expect` and `max-rate` both define the exit code",
            "max-rate",
        ),
        (
            "shell = 'x'\nmax-rate = 1",
            "`max-rate` is 100 %, which every program meets",
            "max-rate",
        ),
        (
            "shell = 'x'\nwrap = \"rr '\"",
            "`wrap` is not a command prefix",
            "wrap",
        ),
        (
            "shell = 'x'\nenv = { '' = 1 }",
            "`` cannot be the name of a variable",
            "env.",
        ),
        (
            "[[variant]]\nname = 'a'\nshell = 'x'\n[[variant]]\nname = 'b'",
            "there is no command to run",
            "variant.1",
        ),
        (
            &variant("[[variant]]\nname = 'a'"),
            "two variants have the name `a`",
            "variant.1.name",
        ),
        (
            &variant("[[variant]]"),
            "a variant has no name",
            "variant.1.name",
        ),
        (
            &variant("shell = 'y'\ncommand = ['y']"),
            "`command` and `shell` are both given",
            "variant.0.shell",
        ),
        (
            &variant("args = ['y']"),
            "`args` cannot be added to a `shell` line",
            "variant.0.args",
        ),
        (
            &variant("env = { 'A=' = 1 }"),
            "`A=` cannot be the name of a variable",
            "variant.0.env.A=",
        ),
        (
            &actor("[[actor]]\nname = 'm'\nshell = 'y'"),
            "two actors have the name `m`",
            "actor.1.name",
        ),
        (
            &actor("[[actor]]\nshell = 'y'"),
            "an actor has no name",
            "actor.1.name",
        ),
        (
            &actor("[[actor]]\nname = 'n'"),
            "there is no command to run",
            "actor.1.command",
        ),
        (
            &actor("[[actor]]\nname = 'n'\nrole = 'service'\nshell = 'y'"),
            "there is a service, but no [load] table",
            "actor.1.role",
        ),
        (
            &actor("role = 'helper'"),
            "no actor has the role `main`",
            "actor",
        ),
        (
            &format!("command = ['x']\n{}", actor("")),
            "`command` and actors are both given",
            "actor",
        ),
    ] {
        let (what, at) = refusal(text);
        assert_eq!((what.as_str(), at.as_str()), (wanted, place), "{text}");
    }
}

#[test]
fn fail_fast_contradicts_max_fail_3() {
    let (_, at) = refusal("shell = 'x'\nfail-fast = true\nmax-fail = 3");
    assert_eq!(at, "max-fail");
    assert_eq!(
        plan("shell = 'x'\nfail-fast = false\nmax-fail = 3")
            .stop
            .failures,
        Some(3)
    );
}

fn names(plan: &Plan) -> Vec<&str> {
    let names = plan
        .trials
        .variants
        .iter()
        .map(|variant| variant.name.as_str());
    names.collect()
}

#[test]
fn a_matrix_gives_every_combination_in_the_order_of_the_file() {
    let plan = plan(
        "
        command = ['prog', '--threads={threads}', '{mode}']
        [matrix]
        threads = ['1', 8]
        mode = ['fast', 'safe']
        ",
    );
    assert_eq!(
        names(&plan),
        [
            "threads=1 mode=fast",
            "threads=1 mode=safe",
            "threads=8 mode=fast",
            "threads=8 mode=safe"
        ]
    );
    let shown: Vec<String> = plan
        .trials
        .variants
        .iter()
        .map(|variant| {
            format!(
                "{} {:?}",
                command_words(&variant.actors[0]).join(" "),
                variant.levels
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "prog --threads=1 fast [0, 0]",
            "prog --threads=1 safe [0, 1]",
            "prog --threads=8 fast [1, 0]",
            "prog --threads=8 safe [1, 1]"
        ]
    );
    let factors: Vec<_> = plan
        .trials
        .factors
        .iter()
        .map(|factor| (factor.name.as_str(), factor.levels.join(" ")))
        .collect();
    let wanted = [("threads", "1 8"), ("mode", "fast safe")];
    assert_eq!(
        factors,
        wanted.map(|(name, levels)| (name, levels.to_owned()))
    );
    assert!(plan.is_sound());
}

#[test]
fn with_a_matrix_the_variants_are_the_first_factor() {
    let text = "
        shell = 'x {n}'
        [matrix]
        n = [1, 2]
        [[variant]]
        name = 'gcc'
        [[variant]]
        name = 'clang'
        ";
    let both = plan(text);
    assert_eq!(
        names(&both),
        ["gcc n=1", "gcc n=2", "clang n=1", "clang n=2"]
    );
    let factors: Vec<_> = both
        .trials
        .factors
        .iter()
        .map(|factor| &factor.name)
        .collect();
    assert_eq!(factors, ["variant", "n"]);
    assert_eq!(both.trials.factors[0].levels, ["gcc", "clang"]);
    let levels: Vec<_> = both
        .trials
        .variants
        .iter()
        .map(|variant| &variant.levels[..])
        .collect();
    assert_eq!(levels, [[0, 0], [0, 1], [1, 0], [1, 1]]);
    assert!(both.is_sound());

    let alone = plan("shell = 'x'\n[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'");
    assert!(alone.trials.factors.is_empty());
    assert!(
        alone
            .trials
            .variants
            .iter()
            .all(|variant| variant.levels.is_empty())
    );
}

#[test]
fn a_matrix_value_replaces_every_placeholder() {
    let plan = plan(
        "
        cwd = 'in {v}'
        stdin = '{v}.txt'
        wrap = 'time -o {v}'
        setup = 'make {v}'
        prepare = 'rm {v}'
        conclude = 'mv {v}'
        cleanup = 'make clean'
        [env]
        OPT = '-O{v}'
        [matrix]
        v = ['a b', '/c{v}']
        [[actor]]
        name = 'm'
        command = ['prog', 'x{v}{trial}{w}{']
        [[actor]]
        name = 'h'
        role = 'helper'
        command = ['help', '{v}']
        cwd = '{v}'
        [[variant]]
        name = 'one'
        args = ['-{v}']
        setup = 'own {v}'
        files = { 'x{v}.ini' = '{v}/b.ini' }
        [[variant.edit]]
        file = 'e{v}'
        find = 'f{v}'
        replace = 'r{v}'
        ",
    );
    let [first, second] = plan.trials.variants.as_slice() else {
        panic!("two values")
    };
    let [main, helper] = first.actors.as_slice() else {
        panic!("two actors")
    };
    assert_eq!(
        command_words(main),
        ["time", "-o", "a b", "prog", "xa b{trial}{w}{", "-a b"]
    );
    assert_eq!(command_words(helper), ["help", "a b"]);
    assert_eq!(
        variables(main),
        [("OPT".to_owned(), Some("-Oa b".to_owned()))]
    );
    assert_eq!(main.cwd, "/base/in a b".into());
    assert_eq!(main.stdin, Some("/base/a b.txt".into()));
    assert_eq!(helper.cwd, "/base/a b".into());
    // Marks in inserted values are not replaced, and an absolute path is kept.
    assert_eq!(command_words(&second.actors[1]), ["help", "/c{v}"]);
    assert_eq!(second.actors[1].cwd, "/c{v}".into());

    let hooks = &first.hooks;
    assert_eq!(hooks.setup, Some("(\nmake a b\n) && (\nown a b\n)".into()));
    assert_eq!(hooks.prepare, Some("rm a b".into()));
    assert_eq!(hooks.conclude, Some("mv a b".into()));
    assert_eq!(hooks.cleanup, None);
    assert_eq!(
        (&plan.trials.hooks.setup, &plan.trials.hooks.prepare),
        (&None, &None)
    );
    assert_eq!(
        plan.trials.hooks.cleanup,
        Some("make clean".into()),
        "it is the same for all"
    );
    assert_eq!(
        first.edits,
        [
            EditPlan {
                file: "xa b.ini".into(),
                change: FileChange::Copy("/base/a b/b.ini".into())
            },
            EditPlan {
                file: "ea b".into(),
                change: FileChange::Replace {
                    find: "fa b".to_owned(),
                    with: "ra b".to_owned()
                }
            }
        ]
    );
}

#[test]
fn a_matrix_variable_without_a_placeholder_is_an_environment_variable() {
    let plan = plan(
        "
        command = ['prog', '{a}']
        env = { B = 'file' }
        setup = 'setup'
        prepare = 'prepare'
        [matrix]
        B = [1, 2]
        a = ['x']
        ",
    );
    let first = &plan.trials.variants[0];
    assert_eq!(
        variables(&first.actors[0]),
        [("B".to_owned(), Some("1".to_owned()))]
    );
    // The hooks of its trials are its own, and see the variable.
    assert_eq!(first.hooks.prepare, Some("prepare".into()));
    assert_eq!(
        (&first.hooks.setup, &plan.trials.hooks.setup),
        (&None, &Some("setup".into()))
    );
}

#[test]
fn a_variant_has_its_own_hooks() {
    let plan = plan(
        "
        shell = 'x'
        setup = 'general'
        prepare = 'general'
        [[variant]]
        name = 'a'
        [[variant]]
        name = 'b'
        setup = 'own'
        prepare = 'own'
        conclude = 'own'
        cleanup = 'own'
        ",
    );
    assert_eq!(plan.trials.variants[0].hooks, Hooks::default());
    let own = || Some("own".into());
    let wanted = Hooks {
        setup: own(),
        prepare: own(),
        conclude: own(),
        cleanup: own(),
        cwd: None,
    };
    assert_eq!(plan.trials.variants[1].hooks, wanted);
    assert_eq!(plan.trials.hooks.setup, Some("general".into()));
}

#[test]
fn kinds_of_requests_and_their_bodies_are_items() {
    let load = "command = ['app']\nask = 'reduce'\n[load]\nurl = 'http://127.0.0.1:1'\n\
                [[request]]\npath = '/a'\n\
                [[request]]\nname = 'c'\nbody-files = ['x', 'sub/y']\n\
                [[request]]\nname = 'd'\nbody-files = ['x']\n";
    let mut scenario = scenario(load);
    scenario.items.requests = Some("last".to_owned());
    let plan = questions::plan(&scenario, plan_context()).unwrap();
    assert!(plan.is_sound());
    let items = plan.trials.space.as_ref().unwrap().choices.as_items();
    let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["GET /a", "c with x", "c with sub/y", "d"]);
    let load = plan.trials.load_of(&plan.trials.variants[0]);
    assert_eq!(load, plan.trials.load);

    scenario.load = None;
    scenario.outline.requests.clear();
    let refused = questions::plan(&scenario, plan_context()).unwrap_err();
    assert_eq!(refused.message, "there is no load to reduce");
}

#[test]
fn a_baseline_in_shared_processes_needs_independent_trials() {
    let confirm = |text: &str| {
        let baseline = MeasuredBaseline {
            failures: 5,
            trials: 50,
            one_life: true,
            ..MeasuredBaseline::default()
        };
        let context = PlanContext {
            baseline: Some(baseline),
            ..plan_context()
        };
        let text = format!("shell = 'x'\nask = 'confirm'\n{text}");
        questions::plan(&scenario(&text), context)
    };
    let refusal = confirm("").unwrap_err();
    assert_eq!(
        (refusal.message.as_str(), refusal.hint()),
        (
            "the 50 trials of the baseline shared the processes that `setup` started, so they may count as a single trial",
            "measure it again with `prepare` instead of `setup`, so that each trial starts its own processes; if trials cannot influence each other through them, add --independent"
        )
    );
    assert!(confirm("independent = true").is_ok());
}
