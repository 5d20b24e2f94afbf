use super::*;
use provoke_model::{ActorPlan, ActorRole};
use provoke_words::diagnostic::Diagnostic;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, SystemTime};

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        bench.write("base/config.ini", "threads = 4\nmode = fast\nthreads = 4\n");
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        fs::canonicalize(self.folder.path()).unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns a plan of two variants, of which the second has these changes.
    fn plan(&self, edits: Vec<EditPlan>) -> TrialsPlan {
        let text = "command = ['x']\n[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\n";
        let scenario: provoke_plan::Scenario = text.parse().unwrap();
        let plan_context = provoke_plan::PlanContext {
            environment: Vec::new(),
            base: self.path("base"),
            seed: 1,
            baseline: None,
            held: None,
            searched: None,
        };
        let mut plan = provoke_questions::plan(&scenario, plan_context)
            .unwrap()
            .trials;
        plan.variants[1].edits = edits;
        plan
    }

    fn make(&self, plan: &mut TrialsPlan) -> Result<(), Diagnostic> {
        check_plan(plan, &[])?;
        make_variants(
            plan,
            &self.path("base/run/variants"),
            &[&self.path("base/run")],
        )
    }
}

fn edit(file: &str, find: &str, with: &str) -> EditPlan {
    EditPlan {
        file: file.into(),
        change: FileChange::Replace {
            find: find.to_owned(),
            with: with.to_owned(),
        },
    }
}

fn refusal(done: Result<(), Diagnostic>, bench: &Bench) -> String {
    let error = done.unwrap_err();
    let text = format!("{error}\n{}", error.hint());
    text.replace(&bench.path("").display().to_string(), "/")
}

#[test]
fn an_edited_variant_runs_in_a_copy_and_the_original_is_unchanged() {
    let bench = Bench::new();
    bench.write("base/sub/data", "x");
    bench.write("base/in.txt", "input");
    let mut plan = bench.plan(vec![edit("./config.ini", "threads = 4", "threads = 1")]);
    plan.variants[1].actors[0].stdin = Some(bench.path("base/in.txt").into());
    let helper = ActorPlan {
        role: ActorRole::Helper,
        cwd: bench.path("base/sub").into(),
        ..plan.variants[1].actors[0].clone()
    };
    plan.variants[1].actors.push(helper);
    bench.make(&mut plan).unwrap();
    let copy = bench.path("base/run/variants/1");
    assert_eq!(plan.variants[0].actors[0].cwd, bench.path("base/").into());
    let [main, helper] = plan.variants[1].actors.as_slice() else {
        panic!("two")
    };
    assert_eq!(main.cwd, (&copy).into());
    assert_eq!(main.stdin, Some(copy.join("in.txt").into()));
    assert_eq!(helper.cwd, copy.join("sub").into());
    assert_eq!(plan.hooks.cwd, None, "the first variant has no copy");
    assert_eq!(
        bench.read("base/run/variants/1/config.ini"),
        "threads = 1\nmode = fast\nthreads = 1\n"
    );
    assert_eq!(
        bench.read("base/config.ini"),
        "threads = 4\nmode = fast\nthreads = 4\n"
    );
}

#[test]
fn general_hooks_run_in_the_original_directory() {
    let bench = Bench::new();
    let mut plan = bench.plan(vec![edit("config.ini", "fast", "safe")]);
    plan.variants.swap(0, 1);
    let before = plan.variants[0].actors[0].cwd.clone();
    bench.make(&mut plan).unwrap();
    assert_eq!(plan.hooks.cwd, Some(before));
}

#[test]
fn a_copy_keeps_modes_times_and_links_and_leaves_out_runs_and_sockets() {
    let bench = Bench::new();
    let script = bench.write("base/script", "#!/bin/sh\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let file = fs::File::open(&script).unwrap();
    file.set_modified(long_ago).unwrap();
    symlink("script", bench.path("base/link")).unwrap();
    symlink("/nowhere", bench.path("base/broken")).unwrap();
    bench.write("base/provoke-out/RUN/events.jsonl", "");
    bench.write("base/run/events.jsonl", "");
    let _socket = std::os::unix::net::UnixListener::bind(bench.path("base/socket")).unwrap();
    let mut plan = bench.plan(vec![edit("config.ini", "fast", "safe")]);
    bench.make(&mut plan).unwrap();
    let copy = bench.path("base/run/variants/1");
    let mut names: Vec<_> = fs::read_dir(&copy)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["broken", "config.ini", "link", "script"]);
    let metadata = fs::metadata(copy.join("script")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o755);
    assert_eq!(metadata.modified().unwrap(), long_ago);
    assert_eq!(
        fs::read_link(copy.join("link")).unwrap(),
        Path::new("script")
    );
}

#[test]
fn a_file_can_be_replaced_and_then_edited() {
    let bench = Bench::new();
    let other = bench.write("other.ini", "mode = other\n");
    let copy = EditPlan {
        file: "config.ini".into(),
        change: FileChange::Copy(other.into()),
    };
    let mut plan = bench.plan(vec![copy, edit("config.ini", "other", "third")]);
    bench.make(&mut plan).unwrap();
    assert_eq!(
        bench.read("base/run/variants/1/config.ini"),
        "mode = third\n"
    );
}

#[test]
fn no_edit_changes_an_original_file_through_a_symlink() {
    let bench = Bench::new();
    let outside = bench.write("outside/x.ini", "fast");
    symlink(&outside, bench.path("base/x.ini")).unwrap();
    let mut plan = bench.plan(vec![edit("x.ini", "fast", "safe")]);
    bench.make(&mut plan).unwrap();
    assert_eq!(bench.read("base/run/variants/1/x.ini"), "safe");
    assert_eq!(bench.read("outside/x.ini"), "fast");

    symlink(bench.path("outside"), bench.path("base/away")).unwrap();
    let mut plan = bench.plan(vec![edit("away/x.ini", "fast", "safe")]);
    insta::assert_snapshot!(refusal(bench.make(&mut plan), &bench), @"
    the variant `b`: `away/x.ini` is reached through a symlink that leaves the working directory
    name the file itself, and set `cwd` to its directory
    ");
    // A link within the directory leads to the same file in the copy.
    bench.write("base/real/x.ini", "fast");
    symlink(bench.path("base/real"), bench.path("base/back")).unwrap();
    fs::remove_dir_all(bench.path("base/run")).unwrap();
    let mut plan = bench.plan(vec![edit("back/x.ini", "fast", "safe")]);
    bench.make(&mut plan).unwrap();
    assert_eq!(bench.read("base/run/variants/1/real/x.ini"), "safe");
    assert_eq!(bench.read("base/real/x.ini"), "fast");
}

#[test]
fn an_invalid_edit_is_refused_before_anything_is_copied() {
    let bench = Bench::new();
    let refuse_edit = |edit: EditPlan| {
        let refusal_text = refusal(bench.make(&mut bench.plan(vec![edit])), &bench);
        assert!(!bench.path("base/run").exists());
        refusal_text
    };
    insta::assert_snapshot!(refuse_edit(edit("config.ini", "threads=4", "")), @"
    the variant `b`: `config.ini` does not contain the text `threads=4`
    `find` must match exactly: check spaces, quotes and line ends
    ");
    insta::assert_snapshot!(refuse_edit(edit("conf.ini", "x", "y")), @"
    the variant `b`: there is no file `conf.ini` in `/base`
    `files` and `edit` name existing files, relative to the working directory
    ");
    let nowhere = EditPlan {
        file: "config.ini".into(),
        change: FileChange::Copy("/nowhere".into()),
    };
    insta::assert_snapshot!(refuse_edit(nowhere), @"
    the variant `b`: cannot read `/nowhere`: No such file or directory (os error 2)
    `files` replaces the first file by the second, a path relative to the scenario file
    ");
    let mut plan = bench.plan(vec![edit("config.ini", "x", "y")]);
    plan.variants[1].actors[0].cwd = "/nowhere".into();
    insta::assert_snapshot!(refusal(check_plan(&plan, &[]), &bench), @"
    the variant `b`: cannot copy its working directory `/nowhere`: No such file or directory (os error 2)
    a variant with `files` or `edit` runs in a copy of its `cwd`, created before any command runs
    ");
}

#[test]
fn a_directory_that_is_too_large_is_not_copied() {
    let bench = Bench::new();
    let huge = fs::File::create(bench.path("base/huge")).unwrap();
    huge.set_len(3 << 30).unwrap();
    let mut plan = bench.plan(vec![edit("config.ini", "fast", "safe")]);
    check_plan(&plan, &[]).unwrap();
    plan.variants[0].edits = plan.variants[1].edits.clone();
    insta::assert_snapshot!(refusal(check_plan(&plan, &[]), &bench), @"
    2 copies of `/base`, one for each variant that changes files, would have more than 100,000 files or 4 GiB
    set `cwd` to a smaller directory: only the working directory is copied
    ");
    let root = bench.path("base");
    let tree = FileTree::new(&root, &[]);
    let most = |files, bytes| {
        tree.weigh_up_to(TreeSize { files, bytes })
            .unwrap()
            .is_some()
    };
    assert!(most(2, u64::MAX));
    assert!(!most(1, u64::MAX));
}

#[test]
fn git_work_trees_are_created_one_at_a_time() {
    let bench = Bench::new();
    // A git that fails if two of them run at once.
    let text = "#!/bin/sh\nmkdir busy || exit 9\nsleep 0.1\nrmdir busy\n";
    let git = bench.write("tools/git", text);
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    let tools = git.parent().unwrap().display().to_string();
    let path = format!("{tools}:{}", std::env::var("PATH").unwrap());
    bench.write("variants/repository/HEAD", "");
    let root = bench.path("base");
    let script = work_tree(&root, &root, None, &[])
        .script
        .unwrap()
        .to_string();
    let start = |number: u32| {
        let made = bench.path("variants").join(number.to_string());
        fs::create_dir(&made).unwrap();
        let mut sh = std::process::Command::new("sh");
        sh.args(["-c", &script]).current_dir(&root);
        sh.env("PROVOKE_MADE", made).env("PATH", &path);
        sh.spawn().unwrap()
    };
    let all: Vec<_> = (0..4).map(start).collect();
    for mut one in all {
        assert!(one.wait().unwrap().success());
    }
}
