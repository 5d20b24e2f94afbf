//! Tests with temporary folders.

use super::{
    FactGroup, HostFacts, RunFacts, TrialSimilarity, add_files, compare_variants, find_differences,
    find_unchanged_program, survey_plan,
};
use provoke_model::{
    ActorPlan, ActorRole, CaptureMode, Container, Hooks, Host, Rules, Survey, Text,
    TrialConditions, TrialSettings, TrialsPlan, VariantId, VariantPlan,
};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

fn plan(cwd: &Path, commands: &[&[&str]]) -> TrialsPlan {
    let variants = commands
        .iter()
        .enumerate()
        .map(|(index, command)| VariantPlan {
            name: match commands.len() {
                1 => String::new(),
                _ => format!("v{index}"),
            },
            actors: vec![ActorPlan {
                name: String::new(),
                role: ActorRole::Main,
                command: command.iter().map(Text::from).collect(),
                copies: 1,
                env: Vec::new(),
                cwd: cwd.into(),
                stdin: None,
                container: None,
            }],
            ..VariantPlan::default()
        });
    TrialsPlan {
        hosts: None,
        facts: std::collections::BTreeMap::new(),
        factors: Vec::new(),
        space: None,
        load: None,
        make_limit: std::time::Duration::ZERO,
        wrapped: 0,
        variants: variants.collect(),
        environment: vec![("PATH".into(), "/bin:/usr/bin".into())],
        hooks: Hooks::default(),
        conditions: TrialConditions::default(),
        settings: TrialSettings::default(),
        rules: Rules::default(),
        cases: None,
        jobs: 1,
        waves: false,
        warmup: 0,
        held: None,
        seed: 1,
    }
}

/// A temporary folder with files.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn program(&self, name: &str, text: &str) -> String {
        let path = self.file(name, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn survey(&self, command: &[&str]) -> Survey {
        survey_plan(&plan(self.0.path(), &[command]))
    }
}

#[test]
fn a_script_is_recorded_with_its_hash_and_interpreter() {
    let folder = Folder::new();
    let script = folder.program("run", "#!/bin/sh -e\ntrue\n");
    let before = folder.survey(&[&script]);
    assert_eq!(before.get_fact("program.path"), Some(script.as_str()));
    assert_eq!(before.get_fact("program.interpreter.path"), Some("/bin/sh"));
    folder.program("run", "#!/bin/sh -e\nfalse\n");
    let after = folder.survey(&[&script]);
    assert_ne!(
        before.get_fact("program.hash"),
        after.get_fact("program.hash")
    );
    let interpreter = "program.interpreter.path";
    assert_eq!(before.get_fact(interpreter), after.get_fact(interpreter));
}

#[test]
fn env_in_the_first_line_is_resolved_in_path() {
    let folder = Folder::new();
    let script = folder.program("run", "#!/usr/bin/env -S A=1 sh\n");
    let found = folder.survey(&[&script]);
    let path = found.get_fact("program.interpreter.path").unwrap();
    assert!(path.ends_with("/sh"), "{path}");
}

#[test]
fn launched_programs_and_interpreted_scripts_are_recorded() {
    let folder = Folder::new();
    let script = folder.file("x.sh", "true\n");
    let found = folder.survey(&["env", "A=1", "sh", "-e", "x.sh"]);
    assert!(found.get_fact("program.path").unwrap().ends_with("/env"));
    assert!(
        found
            .get_fact("program.launched.path")
            .unwrap()
            .ends_with("/sh")
    );
    let known = found.get_fact("program.script.path");
    assert_eq!(known, script.to_str());
}

#[test]
fn the_program_of_a_shell_line_is_recorded() {
    let folder = Folder::new();
    let program = folder.program("in/program", "#!/bin/sh\n");
    let line = "export A=1; cd in && B=/x ./program x | tee log";
    let found = folder.survey(&["sh", "-c", line]);
    let known = fs::canonicalize(found.get_fact("program.launched.path").unwrap());
    assert_eq!(known.unwrap(), fs::canonicalize(program).unwrap());
    for line in ["for i in 1; do ./in/program; done", "./no/such/program", ""] {
        let found = folder.survey(&["sh", "-c", line]);
        assert_eq!(found.get_fact("program.launched.path"), None, "{line}");
    }
}

#[test]
fn a_missing_program_is_recorded_as_not_found() {
    let found = Folder::new().survey(&["no-such-program"]);
    assert_eq!(
        found.get_fact("program.path"),
        Some("no-such-program (not found)")
    );
}

#[test]
fn libraries_of_a_dynamic_program_are_recorded_with_their_builds() {
    let found = Folder::new().survey(&["sh"]);
    let libraries: Vec<_> = found
        .0
        .iter()
        .filter(|(name, _)| name.starts_with("library."))
        .collect();
    for (name, build) in libraries {
        assert_ne!(build, "(missing)", "{name}");
    }
}

#[test]
fn packages_of_a_virtual_environment_are_recorded() {
    let folder = Folder::new();
    let base = folder.program("base/bin/python3.11", "");
    folder.file(
        "base/lib/python3.11/site-packages/outer-1.0.dist-info/METADATA",
        "",
    );
    folder.file("venv/pyvenv.cfg", "include-system-site-packages = false\n");
    let site = "venv/lib/python3.11/site-packages";
    folder.file(&format!("{site}/Foo_Bar-2.0.dist-info/METADATA"), "");
    folder.file(&format!("{site}/old-1.2-py3.11.egg-info"), "");
    folder.file(
        &format!("{site}/mine.egg-info/PKG-INFO"),
        "Name: mine\nVersion: 0.3\n",
    );
    fs::create_dir_all(folder.path("venv/bin")).unwrap();
    let python = folder.path("venv/bin/python");
    symlink(&base, &python).unwrap();
    let script = format!("#!{}\n", python.display());
    let script = folder.program("venv/bin/tool", &script);
    let packages = |found: &Survey| {
        let all = found
            .0
            .iter()
            .filter(|(name, _)| name.starts_with("python."));
        all.map(|(name, version)| format!("{name} {version}"))
            .collect::<Vec<_>>()
    };
    let expected = [
        "python.foo-bar 2.0",
        "python.mine 0.3",
        "python.old 1.2",
        "python.version 3.11",
    ];
    assert_eq!(
        packages(&folder.survey(&[python.to_str().unwrap()])),
        expected
    );
    assert_eq!(packages(&folder.survey(&[&script])), expected);
    folder.file("venv/pyvenv.cfg", "include-system-site-packages = true\n");
    let found = packages(&folder.survey(&[&script]));
    assert!(found.contains(&"python.outer 1.0".to_owned()), "{found:?}");
}

#[test]
fn the_first_package_in_pythonpath_is_recorded() {
    let folder = Folder::new();
    let python = folder.program("base/bin/python3.11", "");
    folder.file(
        "base/lib/python3.11/site-packages/a-1.0.dist-info/METADATA",
        "",
    );
    let front = folder.file("front/a-2.0.dist-info/METADATA", "");
    let front = front.parent().unwrap().parent().unwrap();
    let mut plan = plan(folder.0.path(), &[&[&python]]);
    plan.environment.push(("PYTHONPATH".into(), front.into()));
    assert_eq!(survey_plan(&plan).get_fact("python.a"), Some("2.0"));
}

#[test]
fn node_packages_of_the_nearest_directory_are_recorded() {
    let folder = Folder::new();
    let node = folder.program("bin/node", "");
    folder.file("node_modules/far/package.json", r#"{"version":"9.0.0"}"#);
    folder.file(
        "in/node_modules/near/package.json",
        r#"{"version":"1.0.0"}"#,
    );
    folder.file(
        "in/node_modules/@scope/x/package.json",
        r#"{"version":"2.0.0","x":[1]}"#,
    );
    folder.file("in/node_modules/broken/package.json", "{");
    folder.file("in/node_modules/.bin/tool", "");
    let found = survey_plan(&plan(&folder.path("in"), &[&[&node, "x.js"]]));
    let packages: Vec<_> = found
        .0
        .iter()
        .filter(|(name, _)| name.starts_with("node."))
        .collect();
    assert_eq!(packages.len(), 2, "{packages:?}");
    assert_eq!(found.get_fact("node.near"), Some("1.0.0"));
    assert_eq!(found.get_fact("node.@scope/x"), Some("2.0.0"));
}

#[test]
fn a_program_built_by_cargo_has_the_packages_of_its_lock_file() {
    let folder = Folder::new();
    folder.file(
        "Cargo.lock",
        "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n",
    );
    let program = folder.program("target/debug/deps/a", "");
    let found = survey_plan(&plan(Path::new("/"), &[&[&program]]));
    assert_eq!(found.get_fact("cargo.a"), Some("1.0.0"));
}

#[test]
fn commands_of_variants_are_recorded_where_they_differ() {
    let folder = Folder::new();
    let [one, two] = ["one", "two"].map(|name| folder.program(name, name));
    let found = survey_plan(&plan(folder.0.path(), &[&[&one], &[&two], &[&one, "x"]]));
    assert_eq!(found.get_fact("program.path"), Some(one.as_str()));
    assert_eq!(found.get_fact("program[v1].path"), Some(two.as_str()));
    assert!(found.get_fact("program[v1].hash").is_some());
    assert!(
        !found.0.keys().any(|name| name.contains("[v2]")),
        "{found:?}"
    );
}

/// Returns a folder with a fake emulator that logs its arguments.
#[cfg(target_arch = "x86_64")]
fn with_emulator() -> Folder {
    let folder = Folder::new();
    let script = "#!/bin/sh\n\
                  echo \"$*${LEFT-}\" >> \"${0%/*}/asked\"\n\
                  [ \"$2\" != wrong ] || exit 1\n\
                  printf 'model name\\t: a %s\\nflags\\t\\t: aes avx\\n' \"$2\"\n";
    folder.program("qemu-x86_64", script);
    folder
}

/// Returns the recorded facts about the CPUs of commands, and the log of the emulator.
#[cfg(target_arch = "x86_64")]
fn survey_emulated(
    commands: &[&[&str]],
    change: impl Fn(&mut TrialsPlan),
) -> (Vec<String>, Vec<String>) {
    let folder = with_emulator();
    let mut plan = plan(folder.0.path(), commands);
    plan.environment[0].1 = folder.0.path().into();
    plan.environment.push(("LEFT".into(), "left".into()));
    change(&mut plan);
    let mut all = Survey::default();
    super::processor::survey_processors(&plan, Path::new("/provoke"), &mut all);
    let facts = all.0.iter().map(|(name, value)| format!("{name}: {value}"));
    let asked = fs::read_to_string(folder.path("asked")).unwrap_or_default();
    (facts.collect(), asked.lines().map(str::to_owned).collect())
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_cpu_of_an_emulator_is_recorded_for_its_variant() {
    let old: &[&str] = &["qemu-x86_64", "-L", "/x", "-cpu", "old", "./a", "-cpu", "b"];
    let (facts, asked) = survey_emulated(
        &[
            &["./a"],
            old,
            &["env", "A=1", "qemu-x86_64", "-cpu", "new", "./a"],
        ],
        |_| {},
    );
    let own = provoke_sys::processor::visible_processor().unwrap();
    let expected = [
        format!("cpu[v0].flags: {}", own.flags.join(" ")),
        format!("cpu[v0].model: {}", own.model),
        "cpu[v1].flags: aes avx".to_owned(),
        "cpu[v1].model: a old".to_owned(),
        "cpu[v2].flags: aes avx".to_owned(),
        "cpu[v2].model: a new".to_owned(),
    ];
    assert_eq!(facts, expected);
    assert_eq!(
        asked,
        ["-cpu old /provoke processor", "-cpu new /provoke processor"]
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
fn an_emulator_is_run_once_for_each_cpu_model() {
    let one: &[&str] = &["qemu-x86_64", "-cpu", "one", "./a"];
    let (_, asked) = survey_emulated(
        &[one, &["qemu-x86_64", "./a"], one, &["qemu-x86_64", "./b"]],
        |plan| {
            plan.environment.push(("QEMU_CPU".into(), "one".into()));
        },
    );
    assert_eq!(asked, ["-cpu one /provoke processor"]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn qemu_cpu_is_used_if_there_is_no_option() {
    let set: &[&str] = &["env", "QEMU_CPU=two", "qemu-x86_64", "./a"];
    let (facts, _) = survey_emulated(&[&["qemu-x86_64", "./a"], set], |plan| {
        plan.variants[0].actors[0]
            .env
            .push(("QEMU_CPU".into(), Some("one".into())));
    });
    assert!(
        facts.contains(&"cpu[v0].model: a one".to_owned()),
        "{facts:?}"
    );
    assert!(
        facts.contains(&"cpu[v1].model: a two".to_owned()),
        "{facts:?}"
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_cpu_of_a_failing_emulator_is_not_recorded() {
    let commands: [&[&str]; 4] = [
        &["qemu-x86_64", "-cpu", "wrong", "./a"],
        &["qemu-aarch64", "./a"],
        &["/no/such/qemu-x86_64", "./a"],
        &["./runner", "qemu-x86_64", "./a"],
    ];
    for command in commands {
        assert_eq!(
            survey_emulated(&[&["./a"], command], |_| {}).0,
            [""; 0],
            "{command:?}"
        );
    }
    // The other emulators answer.
    let good: &[&str] = &["qemu-x86_64", "-cpu", "good", "./a"];
    let (facts, _) = survey_emulated(&[commands[0], good], |_| {});
    assert_eq!(facts, ["cpu[v1].flags: aes avx", "cpu[v1].model: a good"]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_program_behind_an_emulator_is_recorded() {
    let folder = with_emulator();
    let emulator = folder.path("qemu-x86_64");
    let program = folder.program("program", "#!/bin/sh\n");
    let found = folder.survey(&[emulator.to_str().unwrap(), "-cpu", "x", "./program"]);
    let known = fs::canonicalize(found.get_fact("program.launched.path").unwrap());
    assert_eq!(known.unwrap(), fs::canonicalize(program).unwrap());
}

/// Compares a run with a changed copy of it.
fn compare(change: impl Fn(&mut TrialsPlan, &mut Survey)) -> Vec<(FactGroup, String)> {
    let mut survey = Survey::default();
    for (name, value) in [
        ("cpu.flags", "fpu avx2 old"),
        ("program.build_id", "aa"),
        ("library.libc.so.6", "bb"),
        ("kernel.release", "6.1"),
        ("kernel.aslr", "2"),
    ] {
        survey.set_fact(name, value);
    }
    let plan = plan(Path::new("/"), &[&["a"]]);
    let (mut other_plan, mut other_survey) = (plan.clone(), survey.clone());
    change(&mut other_plan, &mut other_survey);
    let host = Host::default();
    let left = RunFacts {
        plan: &plan,
        host: &host,
        survey: &survey,
    };
    let right = RunFacts {
        plan: &other_plan,
        host: &host,
        survey: &other_survey,
    };
    let found = find_differences(left, right);
    found.into_iter().map(|one| (one.group, one.name)).collect()
}

#[test]
fn equal_runs_have_no_differences() {
    assert_eq!(compare(|_, _| {}), []);
}

#[test]
fn differences_are_sorted_by_likelihood_of_being_the_cause() {
    let found = compare(|plan, survey| {
        survey.set_fact("kernel.release", "6.2");
        survey.set_fact("kernel.aslr", "0");
        survey.set_fact("cpu.flags", "fpu new");
        survey.set_fact("library.libc.so.6", "cc");
        survey.set_fact("program.build_id", "dd");
        survey.set_fact("python.numpy", "2.0");
        plan.environment.push(("OLDPWD".into(), "/x".into()));
        plan.environment.push(("X".into(), "1".into()));
        plan.jobs = 8;
    });
    let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
    let expected = [
        "program.build_id",
        "library.libc.so.6",
        "python.numpy",
        "X",
        "jobs",
        "kernel.aslr",
        "cpu.flags",
        "kernel.release",
        "OLDPWD",
    ];
    assert_eq!(names, expected);
    assert_eq!(found.last().unwrap().0, FactGroup::Trifle);
}

#[test]
fn only_different_cpu_flags_are_shown() {
    let mut one = Survey::default();
    one.set_fact("cpu.flags", "fpu sse avx2 fma");
    let mut other = Survey::default();
    other.set_fact("cpu.flags", "fpu sse hypervisor");
    let plan = plan(Path::new("/"), &[&["a"]]);
    let host = Host::default();
    let side = |survey| RunFacts {
        plan: &plan,
        host: &host,
        survey,
    };
    let found = find_differences(side(&one), side(&other));
    assert_eq!(found[0].left.as_deref(), Some("avx2 fma"));
    assert_eq!(found[0].right.as_deref(), Some("hypervisor"));
    assert!(found[0].note.as_ref().unwrap().contains("avx2 fma"));
}

#[test]
fn facts_missing_in_one_survey_are_not_differences() {
    let found = compare(|_, survey| survey.0.clear());
    assert_eq!(found, []);
}

#[test]
fn possible_secrets_are_not_shown() {
    let mut one = plan(Path::new("/"), &[&["a"]]);
    let other = one.clone();
    one.environment.push(("API_TOKEN".into(), "hunter2".into()));
    let (host, survey) = (Host::default(), Survey::default());
    let side = |plan| RunFacts {
        plan,
        host: &host,
        survey: &survey,
    };
    let found = find_differences(side(&one), side(&other))
        .remove(0)
        .hide_secrets();
    assert_eq!(found.left.as_deref(), Some("(not shown)"));
    assert_eq!(found.right, None);
}

/// Returns the facts that distinguish failing hosts, given names, flags, and whether they fail.
fn distinguishing_facts(hosts: &[(&str, &str, bool)]) -> Vec<String> {
    let plan = plan(Path::new("/"), &[&["x"]]);
    let known: Vec<(Host, Survey, bool)> = hosts
        .iter()
        .map(|(name, flags, failed)| {
            let host = Host {
                name: (*name).to_owned(),
                ..Host::default()
            };
            let flags = ("cpu.flags".to_owned(), (*flags).to_owned());
            (host, Survey([flags].into_iter().collect()), *failed)
        })
        .collect();
    let sides = known.iter().map(|(host, survey, failed)| {
        let plan = &plan;
        (RunFacts { plan, host, survey }, *failed)
    });
    let found = super::find_distinguishing_facts(&sides.collect::<Vec<_>>()).into_iter();
    found.map(|one| one.name).collect()
}

#[test]
fn a_flag_missing_on_all_failing_hosts_is_found() {
    let hosts = [
        ("a", "sse2 avx aes", true),
        ("b", "sse2 avx", true),
        ("c", "sse2 avx avx2 fma aes", false),
        ("d", "sse2 avx avx2 bmi2", false),
    ];
    assert_eq!(distinguishing_facts(&hosts), ["avx2"]);
}

#[test]
fn a_host_name_is_not_a_distinguishing_fact() {
    let hosts = ["a", "b", "c", "d"].map(|name| (name, "sse2", name < "c"));
    assert_eq!(distinguishing_facts(&hosts), [""; 0]);
}

/// Returns the facts that distinguish failing variants of these commands, and the facts in which
/// the variants differ.
fn distinguishing_and_differing_facts(
    facts: &[(&str, &str)],
    variants: &[(&str, bool)],
    change: impl Fn(&mut TrialsPlan),
) -> (Vec<String>, Vec<String>) {
    let commands: Vec<Vec<&str>> = variants.iter().map(|(command, _)| vec![*command]).collect();
    let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
    let mut plan = plan(Path::new("/"), &commands);
    change(&mut plan);
    let facts = facts
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut all = Survey(facts.collect());
    if all.get_fact("program.path").is_none() {
        all.set_fact("program.path", "/a");
    }
    let known: Vec<(VariantId, bool)> = (0..)
        .map(VariantId)
        .zip(variants.iter().map(|(_, failed)| *failed))
        .collect();
    let ids: Vec<VariantId> = known.iter().map(|(id, _)| *id).collect();
    let by = super::distinguishing_facts_of_variants(&plan, &all, &known).into_iter();
    let differing = super::differing_facts(&plan, &all, &ids).into_iter();
    (
        by.map(|one| one.name).collect(),
        differing.map(|one| one.name).collect(),
    )
}

/// CPUs of three variants, of which the first lacks AVX2.
const PROCESSORS: [(&str, &str); 7] = [
    ("cpu.flags", "fpu vme of the machine"),
    ("cpu[v0].flags", "aes avx"),
    ("cpu[v0].model", "old"),
    ("cpu[v1].flags", "aes avx avx2"),
    ("cpu[v1].model", "new"),
    ("cpu[v2].flags", "aes avx avx2 rtm"),
    ("cpu[v2].model", "newest"),
];

#[test]
fn variants_are_distinguished_by_cpu_flags_and_not_by_cpu_models() {
    let variants = [("a", true), ("b", false), ("c", false)];
    let (by, differing) = distinguishing_and_differing_facts(&PROCESSORS, &variants, |_| {});
    assert_eq!(by, ["avx2"]);
    assert_eq!(differing, ["cpu.flags", "cpu.model"]);
}

#[test]
fn only_cpu_flags_that_some_variants_lack_are_shown() {
    let plan = plan(Path::new("/"), &[&["a"], &["b"]]);
    let survey = PROCESSORS.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let survey = Survey(survey.into_iter().collect());
    let found = super::differing_facts(&plan, &survey, &[VariantId(0), VariantId(1)]);
    let shown: Vec<(&str, Option<&str>)> = found[0]
        .values
        .iter()
        .map(|(variant, flags)| (variant.as_str(), flags.as_deref()))
        .collect();
    assert_eq!(shown, [("v0", Some("")), ("v1", Some("avx2"))]);
}

#[test]
fn with_one_unknown_cpu_no_cpu_facts_are_reported() {
    let variants = [("a", true), ("b", false), ("c", false), ("d", false)];
    let (by, differing) = distinguishing_and_differing_facts(&PROCESSORS, &variants, |_| {});
    assert_eq!((by, differing), (Vec::new(), Vec::new()));
}

#[test]
fn facts_that_the_variants_set_themselves_are_not_distinguishing() {
    let facts = [
        ("program.build_id", "aa"),
        ("program[v1].path", "/b"),
        ("program[v1].build_id", "bb"),
        ("program[v2].path", "/b"),
        ("program[v2].build_id", "bb"),
        ("library.libm.so.6", "11"),
        ("library[v1].libm.so.6", "22"),
        ("library[v2].libm.so.6", "22"),
        ("python.numpy", "2.0"),
        ("python[v1].numpy", "(none)"),
        ("python[v2].numpy", "(none)"),
        ("image[v1]", "app:1"),
    ];
    let one = [("a", true), ("a", false), ("a", false)];
    let (by, _) = distinguishing_and_differing_facts(&facts, &one, |plan| {
        plan.variants[1].actors[0]
            .env
            .push(("X".into(), Some("1".into())));
    });
    assert_eq!(
        by,
        ["program.build_id", "library.libm.so.6", "python.numpy"]
    );
    let other = [("a", true), ("b", false), ("b", false)];
    let (by, _) = distinguishing_and_differing_facts(&facts, &other, |_| {});
    assert_eq!(by, ["library.libm.so.6", "python.numpy"]);
}

#[test]
fn facts_that_are_unique_to_each_variant_are_not_distinguishing() {
    let facts = [
        ("python.numpy", "1.0"),
        ("python[v1].numpy", "2.0"),
        ("python[v2].numpy", "3.0"),
    ];
    let three = [("a", true), ("a", false), ("a", false)];
    let (by, differing) = distinguishing_and_differing_facts(&facts, &three, |_| {});
    assert_eq!(
        (by, differing),
        (Vec::new(), vec!["python.numpy".to_owned()])
    );
    // With two variants, every difference may be the cause.
    assert_eq!(
        distinguishing_and_differing_facts(&facts, &three[..2], |_| {}).0,
        ["python.numpy"]
    );
}

#[test]
fn a_program_that_does_not_exist_yet_has_no_missing_libraries() {
    let facts = [
        ("program.path", "a (not found)"),
        ("program[v1].path", "/b"),
        ("library[v1].libm.so.6", "22"),
    ];
    let (by, _) = distinguishing_and_differing_facts(&facts, &[("a", true), ("b", false)], |_| {});
    assert_eq!(by, [""; 0]);
}

/// Data of a run: plan, host and survey.
struct RunData(TrialsPlan, Host, Survey);

impl RunData {
    fn of(plan: TrialsPlan) -> Self {
        let mut survey = survey_plan(&plan);
        add_files(&mut survey, &plan, &[]);
        Self(plan, Host::default(), survey)
    }

    fn similarity_to(&self, other: &Self) -> TrialSimilarity {
        let [here, there] = [self, other].map(|run_data| {
            let Self(plan, host, survey) = run_data;
            (RunFacts { plan, host, survey }, VariantId(0))
        });
        compare_variants(here, there)
    }
}

impl Folder {
    fn run_data(&self, change: impl Fn(&mut TrialsPlan)) -> RunData {
        let mut plan = plan(self.0.path(), &[&["sh", "-c", "cat input; ./tool"]]);
        change(&mut plan);
        RunData::of(plan)
    }
}

fn unlike(why: &str) -> TrialSimilarity {
    TrialSimilarity::Unlike(why.to_owned())
}

#[test]
fn runs_with_equal_command_settings_and_files_are_similar() {
    let folder = Folder::new();
    folder.file("input", "1");
    let before = folder.run_data(|_| {});
    assert_eq!(
        before.similarity_to(&folder.run_data(|_| {})),
        TrialSimilarity::Same(Vec::new())
    );
    let other = folder.run_data(|plan| plan.variants[0].actors[0].command.push("x".into()));
    assert_eq!(before.similarity_to(&other), TrialSimilarity::OtherCommand);
    for (change, why) in [
        (
            (|plan| plan.jobs = 8) as fn(&mut TrialsPlan),
            "parallel trials: 8 instead of 1",
        ),
        (|plan| plan.seed = 9, ""),
        (|plan| plan.warmup = 3, "`warmup` differs"),
        (
            |plan| plan.settings.capture = CaptureMode::On,
            "`capture` differs",
        ),
        (
            |plan| plan.rules.ok = [0, 1].into(),
            "a rule for passing or failing differs",
        ),
        (
            |plan| plan.hooks.prepare = Some("true".into()),
            "a hook differs",
        ),
        (
            |plan| plan.environment.push(("X".into(), "1".into())),
            "the environment variable X differs",
        ),
        (
            |plan| plan.environment.push(("SSH_TTY".into(), "1".into())),
            "",
        ),
    ] {
        let expected = if why.is_empty() {
            TrialSimilarity::Same(Vec::new())
        } else {
            unlike(why)
        };
        assert_eq!(
            before.similarity_to(&folder.run_data(change)),
            expected,
            "{why}"
        );
    }
}

#[test]
fn runs_without_recorded_files_are_not_similar() {
    let folder = Folder::new();
    let with = |change: fn(&mut TrialsPlan)| {
        let [one, other] = [folder.run_data(change), folder.run_data(change)];
        one.similarity_to(&other)
    };
    let container = |plan: &mut TrialsPlan| {
        plan.variants[0].actors[0].container = Some(Container::default());
    };
    let why = "the files in its container are not recorded";
    assert_eq!(with(container), unlike(why));
    let missing = |plan: &mut TrialsPlan| {
        plan.variants[0].actors[0].command = vec!["./not-there-yet".into()];
    };
    let why = "the program did not exist before `setup`";
    assert_eq!(with(missing), unlike(why));
    let mut old = folder.run_data(|_| {});
    old.2.0.retain(|name, _| !name.starts_with("files."));
    assert_eq!(
        old.similarity_to(&old),
        unlike("its files are not recorded")
    );
}

#[test]
fn every_file_that_the_program_may_read_changes_the_digest() {
    let folder = Folder::new();
    let elsewhere = Folder::new();
    folder.file("input", "1");
    folder.file("src/deep/module.py", "1");
    let named = elsewhere.file("data", "1");
    let module = elsewhere.file("lib/module.py", "1");
    let digest = || {
        let run_data = folder.run_data(|plan| {
            let command = &mut plan.variants[0].actors[0].command;
            command.push(format!("--data={}", named.display()).into());
            let folder = module.parent().unwrap();
            plan.environment.push(("PYTHONPATH".into(), folder.into()));
        });
        run_data.2.get_fact("files.digest").unwrap().to_owned()
    };
    let mut known = vec![digest()];
    assert!(known[0].starts_with("hash:"), "{}", known[0]);
    let mut is_new = |what: &str| {
        let new = digest();
        assert!(!known.contains(&new), "{what}");
        known.push(new);
    };
    folder.file("input", "2");
    is_new("a file in the working directory");
    folder.file("src/deep/module.py", "2");
    is_new("a file below it");
    folder.file(".hidden", "");
    is_new("a new file");
    fs::remove_file(folder.path(".hidden")).unwrap();
    folder.file("input", "3");
    is_new("a file that changed again");
    fs::write(&named, "2").unwrap();
    is_new("a file that the command names");
    fs::write(&module, "2").unwrap();
    is_new("a module");
    folder.program("input", "3");
    is_new("a mode");
    symlink("input", folder.path("link")).unwrap();
    is_new("a link");
    folder.file("large", &"x".repeat(1 << 20));
    is_new("a large file");
}

#[test]
fn a_new_file_in_the_working_directory_keeps_runs_similar() {
    let folder = Folder::new();
    folder.file("input", "1");
    folder.file("data/one", "1");
    let before = folder.run_data(|_| {});
    folder.file("issue.md", "1");
    folder.file("logs/one", "1");
    assert_eq!(
        before.similarity_to(&folder.run_data(|_| {})),
        TrialSimilarity::Same(vec!["issue.md".to_owned(), "logs/one".to_owned()])
    );
    folder.file("data/two", "1");
    assert!(matches!(
        before.similarity_to(&folder.run_data(|_| {})),
        TrialSimilarity::Same(_)
    ));
    folder.file("data/one", "2");
    assert_eq!(
        before.similarity_to(&folder.run_data(|_| {})),
        unlike("`data/one` in the working directory differs")
    );
    folder.file("input", "2");
    assert_eq!(
        before.similarity_to(&folder.run_data(|_| {})),
        unlike("`input` differs")
    );
    // A file that the command names may be read.
    let named = |plan: &mut TrialsPlan| plan.variants[0].actors[0].command.push("named".into());
    let before = folder.run_data(named);
    folder.file("named", "1");
    assert_eq!(
        before.similarity_to(&folder.run_data(named)),
        unlike("`named` differs")
    );
    // So may the files of a folder that it names.
    let names_folder =
        |plan: &mut TrialsPlan| plan.variants[0].actors[0].command.push("data".into());
    let before = folder.run_data(names_folder);
    folder.file("data/three", "1");
    assert_eq!(
        before.similarity_to(&folder.run_data(names_folder)),
        unlike("`data/three` differs")
    );
}

#[test]
fn differences_of_files_are_those_of_the_program_or_of_its_directory() {
    let folder = Folder::new();
    folder.file("input", "1");
    folder.file("notes", "1");
    let before = folder.run_data(|_| {});
    folder.file("input", "2");
    folder.file("notes", "2");
    folder.file("new", "1");
    let after = folder.run_data(|_| {});
    let [left, right] =
        [&before, &after].map(|RunData(plan, host, survey)| RunFacts { plan, host, survey });
    let differences = find_differences(left, right);
    let differences: Vec<(FactGroup, &str)> = differences
        .iter()
        .map(|difference| (difference.group, difference.name.as_str()))
        .collect();
    assert_eq!(
        differences,
        [
            (FactGroup::Program, "input"),
            (FactGroup::WorkingDirectory, "notes"),
            (FactGroup::Trifle, "new")
        ]
    );
}

#[test]
fn files_that_are_not_recorded_one_by_one_differ_in_diff_as_well() {
    let folder = Folder::new();
    for number in 0..400 {
        folder.file(&number.to_string(), "");
    }
    let before = folder.run_data(|_| {});
    folder.file("0", "1");
    let after = folder.run_data(|_| {});
    let reason = "a file of the command or of its working directory differs";
    assert_eq!(before.similarity_to(&after), unlike(reason));
    let [left, right] =
        [&before, &after].map(|RunData(plan, host, survey)| RunFacts { plan, host, survey });
    let differences = find_differences(left, right);
    let [difference] = differences.as_slice() else {
        panic!("{differences:?}");
    };
    assert_eq!(difference.group, FactGroup::WorkingDirectory);
    assert_eq!(difference.note.as_deref(), Some(reason));
}

/// Returns the changed files if the program of the first run is the one of the second.
fn unchanged_program(now: &RunData, before: &RunData) -> Option<Vec<String>> {
    let [now, before] = [now, before].map(|RunData(plan, host, survey)| {
        let side = RunFacts { plan, host, survey };
        (side, VariantId(0))
    });
    find_unchanged_program(now, before).map(|unchanged| unchanged.changed_files)
}

#[test]
fn a_program_that_was_not_rebuilt_is_found_although_its_source_changed() {
    let folder = Folder::new();
    let program = folder.path("program");
    fs::copy("/bin/true", &program).unwrap();
    folder.file("source.c", "1");
    let run = |command: &str, capture| {
        folder.run_data(|plan| {
            plan.variants[0].actors[0].command = vec![command.into()];
            plan.settings.capture = capture;
        })
    };
    let before = run("./program", CaptureMode::Auto);
    let again = || run("./program", CaptureMode::On);
    assert_eq!(unchanged_program(&again(), &before), Some(Vec::new()));
    let measured = again();
    folder.file("source.c", "2");
    assert_eq!(
        unchanged_program(&again(), &before),
        Some(vec!["source.c".to_owned()])
    );
    assert_eq!(
        again().similarity_to(&measured),
        TrialSimilarity::Same(vec!["source.c".to_owned()])
    );
    fs::copy("/bin/false", &program).unwrap();
    assert_eq!(unchanged_program(&again(), &before), None);
    // A program of the system may read any file.
    folder.file("input", "1");
    let before = run("/bin/true", CaptureMode::Auto);
    let again = || run("/bin/true", CaptureMode::On);
    assert_eq!(unchanged_program(&again(), &before), Some(Vec::new()));
    folder.file("input", "2");
    assert_eq!(unchanged_program(&again(), &before), None);
}

#[test]
fn files_of_caches_and_of_provoke_are_ignored() {
    let folder = Folder::new();
    folder.file("input", "1");
    let before = folder.run_data(|_| {}).2;
    for file in [
        ".git/index",
        "provoke-out/20200101-000000-aaaa/events.jsonl",
        "other/events.jsonl",
        "target/CACHEDIR.TAG",
        "venv/pyvenv.cfg",
        "__pycache__/a.pyc",
        "core",
        "core.123",
        "run.log",
        ".input.swp",
        "input~",
        ".#input",
        ".vscode/settings.json",
    ] {
        folder.file(file, "1");
    }
    assert_eq!(folder.run_data(|_| {}).2, before);
    folder.file("core.rs", "1");
    assert_ne!(folder.run_data(|_| {}).2, before);
}

#[test]
fn too_many_files_have_no_digest() {
    let folder = Folder::new();
    fs::create_dir(folder.path("many")).unwrap();
    for number in 0..10_000 {
        fs::File::create(folder.path(&format!("many/{number}"))).unwrap();
    }
    let run_data = folder.run_data(|_| {});
    let known = run_data.2.get_fact("files.digest").unwrap();
    assert!(known.starts_with("unknown: there are more than 10000 files in"));
    let TrialSimilarity::Unlike(why) = run_data.similarity_to(&run_data) else {
        panic!("not known");
    };
    assert!(why.starts_with("its files are not recorded: there are more than"));
}

#[test]
fn facts_of_the_same_hosts_are_one_division() {
    let plan = plan(Path::new("/"), &[&["x"]]);
    let machine = Host::default();
    let survey = |flags: &str, kernel: &str| {
        let mut survey = Survey::default();
        survey.set_fact("cpu.flags", flags);
        survey.set_fact("kernel.release", kernel);
        survey
    };
    let surveys = [
        survey("sse2 avx2 bmi2", "6.1"),
        survey("sse2", "6.1"),
        survey("sse2", "5.10"),
    ];
    let hosts = surveys.each_ref().map(|survey| RunFacts {
        plan: &plan,
        host: &machine,
        survey,
    });
    let facts = HostFacts::of_hosts(&hosts);
    let divisions = facts.divisions();
    assert_eq!(divisions, [[false, false, true], [false, true, true]]);
    let names = |division: &[bool]| -> Vec<String> {
        let facts = facts.facts_of_division(division);
        facts.into_iter().map(|fact| fact.name).collect()
    };
    assert_eq!(names(&divisions[0]), ["kernel.release"]);
    assert_eq!(names(&divisions[1]), ["avx2", "bmi2"]);
}

#[test]
fn another_commit_matters_only_if_the_program_differs() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), &[&["true"]]);
    let groups = |left: &[(&str, &str)], right: &[(&str, &str)]| -> Vec<FactGroup> {
        let [left, right] = [left, right].map(|facts| {
            let facts = facts
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Survey(facts.collect())
        });
        let host = Host::default();
        let facts = |survey| RunFacts {
            plan: &plan,
            host: &host,
            survey,
        };
        let differences = find_differences(facts(&left), facts(&right));
        differences
            .iter()
            .map(|difference| difference.group)
            .collect()
    };
    let (old, new) = (("commit", "aa"), ("commit", "bb"));
    let (build, rebuilt) = (("program.build_id", "1"), ("program.build_id", "2"));
    assert_eq!(groups(&[old, build], &[new, build]), [FactGroup::Trifle]);
    assert_eq!(
        groups(&[old, build], &[new, rebuilt]),
        [FactGroup::Program; 2]
    );
}
