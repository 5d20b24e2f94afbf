//! Tests that text from outside cannot affect a terminal, mislead a reader or control a CI server.

use super::support::Sandbox;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

/// Text that clears the screen, reverses text, ends a line, and contains two kinds of commands for CI servers.
const HOSTILE: &str =
    "x\u{1b}[2J\u{1b}]0;t\u{7}\u{9b}1m\u{202e}y ##[error]z ##vso[task] ##teamcity[x]\r\n::error::w";

/// Panics if text is not safe to show.
fn assert_harmless(what: &str, text: &str) {
    let misleads = |c: &char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}'..='\u{200f}')
    };
    let found = text.chars().find(misleads);
    assert_eq!(found, None, "{what}: {}", text.escape_debug());
    for command in ["##[", "##vso[", "##teamcity["] {
        assert!(!text.contains(command), "{what}: {text}");
    }
    for line in text.lines() {
        assert!(!line.trim_start().starts_with("::"), "{what}: {text}");
    }
}

#[test]
fn no_message_contains_hostile_text_unescaped() {
    let sandbox = Sandbox::new();
    let name = HOSTILE;
    let in_a_folder = format!("{name}/file");
    let url = format!("http://{name}");
    let flag = format!("--{name}");
    let both = format!("{name}=1,{name}");
    let setup = format!("printf '%s' '{name}' >&2; exit 1");
    let bad = sandbox.write(
        "scenario.toml",
        &format!("command = [\"true\"]\n'{name}' = 1\n"),
    );
    let bad = bad.to_str().unwrap();
    sandbox.write("not a core\u{1b}[2J", name);
    let cases: &[&[&str]] = &[
        &["report", name],
        &["explain", name],
        &["explain", "not a core\u{1b}[2J"],
        &["replay", name],
        &["replay", &format!("{name}#1")],
        &["resume", name],
        &["diff", name, name],
        &["plan", "--baseline", name],
        &["confirm", "--baseline", name, "--", "true"],
        &["compare", "--baseline", name, "-L", "a=1,2", "--", "true"],
        &["compare", "--reference", name, "-L", "a=1,2", "--", "true"],
        &["scenario", name],
        &["scenario", bad],
        &["load", name],
        &["load", &url, "--serve", "true"],
        &["reduce", "--requests", name],
        &["load", "http://127.0.0.1:1", "--serve", &in_a_folder],
        &["bisect", "--over", name, "--", "true"],
        &["bisect", "--git", name, "--", "true"],
        &["bisect", "--range", name, "--", "true"],
        &["bisect", "--over", "1,2", "--log", name, "--", "true"],
        &["bisect", "--over", "1,2", "--prior", name, "--", "true"],
        &["reduce", "--lines", name, "--", "true"],
        &["reduce", "--files", name, "--", "true"],
        &["reduce", "--from", name, "--to", name, "--", "true"],
        &["run", "--", name],
        &["run", "--", &in_a_folder],
        &["run", "--cwd", name, "--", "true"],
        &["run", "--stdin", name, "--", "true"],
        &["run", "--out", "/dev/null/x\u{1b}[2J", "--", "true"],
        &["run", "--export-json", &in_a_folder, "--", "true"],
        &["run", "--setup", &setup, "--", "true"],
        &["run", "--wrap", &format!("'{name}"), "--", "true"],
        &["run", "--wrap", &format!("\"{name}\""), "--", "true"],
        &["run", "--user", name, "--", "true"],
        &["run", "--only", name, "--", "true"],
        &["run", "--rlimit", name, "--", "true"],
        &["run", "--image", name, "--engine", name, "--", "true"],
        &["run", "--env", name, "--", "true"],
        &["run", "--fail-if-out", &format!("({name}"), "--", "true"],
        &["run", "-L", &both, "--", "false"],
        &["run", "-n", name, "--", "true"],
        &["run", "-t", name, "--", "true"],
        &["run", &flag, "--", "true"],
        &[name],
    ];
    for args in cases {
        let output = sandbox.provoke(args);
        assert!(
            !output.stderr.is_empty() || !output.stdout.is_empty(),
            "{args:?}"
        );
        assert_harmless(&format!("{args:?}"), &output.stderr);
        assert_harmless(&format!("{args:?}"), &output.stdout);
    }
    let mut command = sandbox.command(&["run", "--"]);
    command.arg(OsStr::from_bytes(b"\x1b[2J\xff"));
    assert_harmless(
        "not UTF-8",
        &format!(
            "{}",
            super::support::CommandOutput::from(command.output().unwrap())
        ),
    );
}

#[test]
fn list_escapes_the_name_of_a_directory() {
    let sandbox = Sandbox::new();
    sandbox.provoke(&["run", "-n", "1", "--progress=none", "--", "true"]);
    let run = fs::canonicalize(sandbox.path("provoke-out/last")).unwrap();
    fs::rename(run, sandbox.path("provoke-out").join(HOSTILE)).unwrap();
    let broken = sandbox
        .path("provoke-out")
        .join(format!("broken {HOSTILE}"));
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("events.jsonl"), "{}\n").unwrap();
    let output = sandbox.provoke(&["list"]);
    assert_eq!(output.stdout.lines().count(), 3, "{output}");
    assert_harmless("list", &output.stdout);
    assert_harmless("list", &output.stderr);
}

#[test]
fn hostile_output_of_a_trial_is_escaped_in_every_report() {
    let sandbox = Sandbox::new();
    let script = format!("printf '%s\\n' '{HOSTILE}' '{HOSTILE}' >&2; exit 1");
    let name = format!("v={HOSTILE}");
    for style in ["line", "ticks", "plain"] {
        let output = sandbox.provoke(&[
            "run", "-n", "2", "--style", style, "-L", &name, "--", "sh", "-c", &script,
        ]);
        assert_harmless(style, &output.stderr);
        assert_harmless(style, &output.stdout);
    }
    for args in [
        &["report", "last"][..],
        &["report", "last", "--json"],
        &["report", "last", "--jsonl"],
        &["report", "last", "--csv"],
        &["report", "last", "--junit"],
        &["report", "last", "--junit-trials"],
        &["report", "last", "--md"],
        &["explain", "last#1"],
        &["explain", "last#1", "--json"],
        &["replay", "last#1"],
        &["replay", "last#1", "--show"],
        &["list"],
        &["diff", "last", "last"],
    ] {
        let output = sandbox.provoke(args);
        assert!(!output.stdout.is_empty(), "{args:?}: {output}");
        assert_harmless(&format!("{args:?}"), &output.stdout);
        assert_harmless(&format!("{args:?}"), &output.stderr);
        if args.contains(&"--json") {
            serde_json::from_str::<serde_json::Value>(&output.stdout).unwrap();
        }
    }
}
