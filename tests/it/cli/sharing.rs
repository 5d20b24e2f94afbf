//! Tests that exports and bundles contain no secrets.

use super::support::{CommandOutput, Sandbox};
use crate::needs::{needs, program};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

const CANARY: &str = "canary-0123456789/+=\"\\x";

/// Runs failing trials that print a secret and have it in their command, with all exports.
fn run_with_secret() -> Sandbox {
    let sandbox = Sandbox::new();
    let script = "echo \"token $DEPLOY_TOKEN\" >&2; echo \"$DEPLOY_TOKEN\"; exit 3";
    let output: CommandOutput = sandbox
        .command(&[
            "run",
            "-n",
            "2",
            "--progress=none",
            "--export-json",
            "live.json",
            "--export-jsonl",
            "live.jsonl",
            "--export-csv",
            "live.csv",
            "--export-junit",
            "live.junit",
            "--export-md",
            "live.md",
            "--export-html",
            "live.html",
            "-e",
            "SET_VALUE=not-secret-but-private",
            "--",
            "sh",
            "-c",
            script,
            CANARY,
        ])
        .env("DEPLOY_TOKEN", CANARY)
        .env("PLAIN_VALUE", "not-secret-but-private")
        .output()
        .unwrap()
        .into();
    assert_eq!(output.code, Some(1), "{output}");
    sandbox
}

#[test]
fn report_flags_are_equal_in_all_commands_and_name_their_files() {
    let sandbox = Sandbox::new();
    let trials = ["--progress=none", "-n", "2", "--", "true"];
    let stderr_of = |args: &[&str]| sandbox.provoke(args).stderr;
    let run = ["run", "--json=a.json", "--junit=a.xml", "--md=a.md"];
    assert_eq!(
        stderr_of(&[&run[..], &trials].concat()),
        "wrote a.json\nwrote a.xml\nwrote a.md\n"
    );
    assert_eq!(
        stderr_of(&[&["run", "-q", "--csv=q.csv"], &trials[..]].concat()),
        ""
    );
    assert!(!sandbox.read("q.csv").is_empty());
    // An earlier name of the flag.
    let run = ["run", "--export-junit", "b.xml"];
    assert_eq!(stderr_of(&[&run[..], &trials].concat()), "wrote b.xml\n");
    assert_eq!(stderr_of(&["report", "--md=b.md"]), "wrote b.md\n");
    assert_eq!(stderr_of(&["report", "-q", "--jsonl=b.jsonl"]), "");
    assert!(!sandbox.read("b.jsonl").is_empty());
    let output = sandbox.provoke(&[&["run", "--json"], &trials[..]].concat());
    assert!(output.stdout.starts_with("{\n"), "{output}");
    assert!(
        output.stderr.starts_with("0 of 2 trials failed"),
        "{output}"
    );
    let quiet = sandbox.provoke(&["report", "-q"]).stdout;
    assert_eq!(
        quiet,
        "0 of 2 trials failed: rate below 85 % (95 % interval)\n"
    );
}

#[test]
fn a_page_goes_to_a_private_file_or_to_the_directory_of_its_run() {
    let sandbox = Sandbox::new();
    for out in ["one", "two"] {
        sandbox.provoke(&["run", "-q", "-n", "2", "--out", out, "--", "true"]);
    }
    fs::write(sandbox.path("page.html"), "old").unwrap();
    fs::set_permissions(sandbox.path("page.html"), fs::Permissions::from_mode(0o644)).unwrap();
    let output = sandbox.provoke(&["report", "one", "--html=page.html", "--title", "Nightly"]);
    assert_eq!(
        output.stderr,
        "wrote page.html (only you can read it; chmod a+r shares it)\n"
    );
    assert!(
        sandbox
            .read("page.html")
            .contains("<title>Nightly – 0 of 2 trials failed")
    );
    let mode = fs::metadata(sandbox.path("page.html"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    sandbox.provoke(&["report", "one", "--html"]);
    assert!(
        sandbox
            .read("one/report.html")
            .starts_with("<!DOCTYPE html>")
    );
    let output = sandbox.provoke(&["report", "one", "--html=-"]);
    assert!(output.stdout.starts_with("<!DOCTYPE html>"), "{output}");
    let output = sandbox.provoke(&["report", "one", "two", "--html=trend.html"]);
    assert_eq!(
        output.stderr,
        "wrote trend.html (only you can read it; chmod a+r shares it)\n"
    );
    assert!(
        sandbox
            .read("trend.html")
            .contains("The failure rates of 2 runs do not clearly differ")
    );
    let leftovers = fs::read_dir(sandbox.path(".")).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".tmp")
    });
    assert_eq!(leftovers.count(), 0);
    insta::assert_snapshot!(sandbox.provoke(&["report", "one", "two", "--html"]).stderr, @r"
    error: a page about several runs needs a file

    hint: name it: --html=trend.html
    ");
    insta::assert_snapshot!(sandbox.provoke(&["report", "one", "--no-output"]).stderr, @r"
    error: --no-output is for a page

    hint: write one with `--html=report.html`
    ");
}

#[test]
fn runs_are_ordered_by_start_and_by_commit() {
    needs!(program("git"));
    let sandbox = Sandbox::new();
    let run_git = |args: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
        let mut git = Command::new("git");
        git.current_dir(sandbox.path(".")).args(identity).args(args);
        assert!(git.output().unwrap().status.success(), "{args:?}");
    };
    let run = |name: &str| sandbox.provoke(&["run", "-n", "1", "-o", name, "--", "true"]);
    run("without");
    run_git(&["init", "--quiet", "--initial-branch=main"]);
    run_git(&["commit", "--quiet", "--allow-empty", "--message=one"]);
    run_git(&["commit", "--quiet", "--allow-empty", "--message=two"]);
    run("second");
    run_git(&["checkout", "--quiet", "HEAD~"]);
    run("first");
    // Runs of the same second keep the order of the command line.
    let order = |by: &str| {
        let args = ["report", "second", "first", "--html=trend.html", by];
        assert_eq!(
            sandbox.provoke(&args).stderr,
            "wrote trend.html (only you can read it; chmod a+r shares it)\n"
        );
        let page = sandbox.read("trend.html");
        let position = |name: &str| page.find(&format!(" scope=\"row\">{name}</th>")).unwrap();
        (position("first") < position("second"), page)
    };
    let (first_leads, page) = order("--by=commit");
    assert!(first_leads && page.contains("2 runs by commit"), "{page}");
    let (first_leads, page) = order("--by=time");
    assert!(!first_leads && page.contains("2 runs by start"), "{page}");
    insta::assert_snapshot!(sandbox.provoke(&["report", "first", "without", "--by", "commit"]).stderr, @r"
    error: the run without did not start in a git repository with a commit

    hint: order the runs by start: --by time
    ");
}

/// Asserts that no part of the secret that survives escaping is in a text.
fn assert_clean(what: &str, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    assert!(!text.contains("0123456789"), "{what}: {text}");
}

#[test]
fn a_secret_is_masked_in_every_export() {
    let sandbox = run_with_secret();
    for format in ["json", "jsonl", "csv", "junit", "md", "html"] {
        let live = sandbox.read(&format!("live.{format}"));
        assert!(
            live.contains("***") || live.contains(r"\*\*\*"),
            "{format}: {live}"
        );
        assert_clean(format, live.as_bytes());
        let output = sandbox.provoke(&["report", "last", &format!("--{format}=-")]);
        assert_clean(format, output.stdout.as_bytes());
    }
    let page = sandbox.read("live.md");
    assert!(page.contains("SET_VALUE=not-secret-but-private"), "{page}");
    // Local evidence is unchanged, so that a trial can be replayed.
    let stderr = sandbox.read("provoke-out/last/trials/1/stderr");
    assert_eq!(stderr, format!("token {CANARY}\n"));
}

/// Writes a bundle, unpacks it, and returns its files and the directory of the run.
fn unpack_bundle(sandbox: &Sandbox, args: &[&str]) -> (Vec<PathBuf>, PathBuf) {
    let all = [&["report", "last", "--bundle=b.tar.gz"], args].concat();
    let output = sandbox.provoke(&all);
    assert_eq!(output.code, Some(0), "{output}");
    let to = sandbox.path("unpacked");
    let _ = fs::remove_dir_all(&to);
    fs::create_dir(&to).unwrap();
    let done = Command::new("tar")
        .args(["-xzf", "../b.tar.gz"])
        .current_dir(&to)
        .status();
    assert!(done.unwrap().success());
    let mut files = Vec::new();
    let mut folders = vec![to.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    let run = fs::read_dir(&to).unwrap().next().unwrap().unwrap().path();
    (files, run)
}

#[test]
fn a_bundle_contains_the_run_without_secrets() {
    let sandbox = run_with_secret();
    let (files, run) = unpack_bundle(&sandbox, &[]);
    for file in &files {
        let text = fs::read(file).unwrap();
        assert_clean(&file.display().to_string(), &text);
        assert!(
            !String::from_utf8_lossy(&text).contains("not-secret-but-private"),
            "{file:?}"
        );
    }
    let name = run.to_str().unwrap();
    let output = sandbox.provoke(&["report", name]);
    assert!(output.stdout.contains("in 2 of 2 trials"), "{output}");
    let output = sandbox.provoke(&["explain", &format!("{name}#1")]);
    assert!(output.stdout.contains("token ***"), "{output}");
    // The values of variables differ, because the bundle does not contain them.
    let output = sandbox.provoke(&["diff", name, "last"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(
        fs::read_to_string(run.join("trials/1/stdout")).unwrap(),
        "***\n"
    );

    let (files, _) = unpack_bundle(&sandbox, &["--with", "environment"]);
    let journal = files
        .iter()
        .find(|file| file.ends_with("events.jsonl"))
        .unwrap();
    let journal = fs::read_to_string(journal).unwrap();
    assert!(journal.contains("not-secret-but-private"));
    assert_clean("with the environment", journal.as_bytes());
}

#[test]
fn a_bundle_of_large_sparse_files_takes_little_memory() {
    let sandbox = run_with_secret();
    let trial = sandbox.path("provoke-out/last/trials/1");
    for name in ["stdout", "other.stderr", "main.core"] {
        let file = fs::File::create(trial.join(name)).unwrap();
        file.set_len(5 << 30).unwrap();
    }
    let limit = "ulimit -d 262144; exec \"$0\" report last --with cores --bundle b.tar.gz";
    let mut command = sandbox.program_command("sh", &["-c", limit, super::support::PROVOKE]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let listed = sandbox
        .program_command("tar", &["-tzf", "b.tar.gz"])
        .output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    for name in ["stdout", "other.stderr", "main.core"] {
        assert!(listed.contains(&format!("/trials/1/{name}\n")), "{listed}");
    }
}

#[test]
fn a_bundle_contains_cores_only_if_requested() {
    let sandbox = Sandbox::new();
    sandbox.provoke(&[
        "run",
        "-n",
        "1",
        "--progress=none",
        "--capture",
        "trace",
        "--",
        super::support::PROVOKE,
        "victim",
        "segv",
    ]);
    let has_core = |args: &[&str]| {
        let (files, _) = unpack_bundle(&sandbox, args);
        let name = |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(
            files.iter().any(|file| name(file) == "crash.json"),
            "{files:?}"
        );
        files.iter().any(|file| name(file).contains("core"))
    };
    assert!(!has_core(&[]));
    assert!(has_core(&["--with", "cores"]));
}

#[test]
fn a_bundle_contains_request_headers_only_if_requested() {
    let sandbox = Sandbox::new();
    let scenario = r#"
command = ["true"]
runs = 1
[load]
url = "http://127.0.0.1:1"
[[request]]
path = "/"
headers = { Authorization = "Bearer 0123456789abcdef", X-Other = "private header" }
"#;
    sandbox.write("load.toml", scenario);
    sandbox.provoke(&["load", "load.toml", "--progress=none"]);
    let journal = |args: &[&str]| {
        let (files, _) = unpack_bundle(&sandbox, args);
        let journal = files.iter().find(|file| file.ends_with("events.jsonl"));
        fs::read_to_string(journal.unwrap()).unwrap()
    };
    let bare = journal(&[]);
    assert!(!bare.contains("private header"), "{bare}");
    assert_clean("requests", bare.as_bytes());
    let with = journal(&["--with", "requests"]);
    assert!(with.contains("private header"), "{with}");
    assert_clean("requests", with.as_bytes());
}

#[test]
fn a_secret_that_equals_a_word_of_the_journal_does_not_damage_it() {
    let sandbox = Sandbox::new();
    let args = [
        "run",
        "-n",
        "1",
        "--progress=none",
        "-t",
        "60s",
        "--export-json",
        "live.json",
        "--",
        "sh",
        "-c",
        "exit 3",
    ];
    let mut command = sandbox.command(&args);
    command.env("SECRET_BACKEND", "environment");
    command
        .env("AUTH_LIMIT", "60000000")
        .env("KIND_TOKEN", "trial_finished");
    let output: CommandOutput = command.output().unwrap().into();
    assert_eq!(output.code, Some(1), "{output}");
    assert!(sandbox.read("live.json").contains("\"failures\": 1"));
    unpack_bundle(&sandbox, &[]);
}

#[test]
fn a_secret_of_any_bytes_is_masked() {
    let sandbox = Sandbox::new();
    let args = [
        "run",
        "-n",
        "1",
        "--progress=none",
        "--",
        "sh",
        "-c",
        "echo \"$MY_TOKEN $DB_URL\" >&2; exit 3",
    ];
    let mut command = sandbox.command(&args);
    command.env("MY_TOKEN", OsStr::from_bytes(b"\xffcanary-0123456789"));
    command.env("DB_URL", "postgres://me:pw0123456789@host/db");
    assert_eq!(command.output().unwrap().status.code(), Some(1));
    let (files, _) = unpack_bundle(&sandbox, &["--with", "environment"]);
    for file in files {
        let text = fs::read(&file).unwrap();
        assert_clean(&file.display().to_string(), &text);
        assert!(
            !String::from_utf8_lossy(&text).contains("30313233343536373839"),
            "{file:?}"
        );
    }
}

#[test]
fn a_bundle_contains_no_file_behind_a_symlink() {
    let sandbox = Sandbox::new();
    sandbox.write("outside", "outside-0123456789");
    let script =
        "cd \"$0/..\" && ln -s ../../../../outside core.1 && ln -s ../../../.. requests; exit 3";
    sandbox.provoke(&[
        "run",
        "-n",
        "1",
        "--progress=none",
        "--",
        "sh",
        "-c",
        script,
        "{dir}",
    ]);
    let (files, _) = unpack_bundle(&sandbox, &["--with", "cores,requests"]);
    for file in files {
        assert_clean(&file.display().to_string(), &fs::read(&file).unwrap());
    }
    let mode = fs::metadata(sandbox.path("b.tar.gz"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}
