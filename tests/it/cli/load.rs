//! Tests `load` with the real program, against servers of `examples/` and others.
//!
//! No test asserts a rate: the servers here crash at a given request, or not at all.

use super::support::{CommandOutput, Sandbox, example, wait_until, words};
use crate::limited;
use crate::needs::{needs, process_events};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::TcpListener;

/// Returns a port that was free a moment ago. Tests run in parallel, each with its own port.
pub(super) fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

pub(super) fn load(
    sandbox: &Sandbox,
    port: u16,
    args: &[&str],
    command: &[&str],
) -> (Value, CommandOutput) {
    let url = format!("http://127.0.0.1:{port}/classify");
    let quick = words("--warm-requests 0 --quiet-time 50ms --capture off");
    let all = [&[url.as_str()], &quick[..], args, &["--"], command].concat();
    sandbox.run_with_report("load", &all)
}

fn load_crashing_server(sandbox: &Sandbox, args: &[&str], end: &[&str]) -> (Value, CommandOutput) {
    let port = port();
    let (server, number) = (example("dieat"), port.to_string());
    let command = [&[server.as_str(), "--port", &number], end].concat();
    load(sandbox, port, args, &command)
}

pub(super) fn first_variant(report: &Value) -> &Value {
    &report["variants"][0]
}

#[test]
fn a_crash_is_reported_separately_from_client_errors() {
    let sandbox = Sandbox::new();
    let (report, output) = load_crashing_server(
        &sandbox,
        &["-n", "1", "-c", "16", "--requests", "2000"],
        &["--at", "500", "--work", "1", "--signal", "SEGV"],
    );
    let variant = first_variant(&report);
    assert_eq!(variant["outcomes"]["SIGSEGV"], 1, "{output}");
    let load = &variant["load"];
    assert_eq!(
        load["served_before_death"],
        serde_json::json!([499]),
        "{output}"
    );
    assert_eq!(load["errors"], 0, "{load}");
    let in_flight = load["in_flight_at_death"][0].as_u64().unwrap();
    assert!((1..=16).contains(&in_flight), "{in_flight}");
    assert_eq!(load["ends"]["died with the service"], in_flight, "{load}");
    assert_eq!(output.code, Some(1));

    // The row of this trial has the same values.
    let row = sandbox.provoke(&["report", "last", "--jsonl"]).stdout;
    let row: Value = serde_json::from_str(row.lines().next().unwrap()).unwrap();
    let of = [
        "stage",
        "clients",
        "answers",
        "served_before_death",
        "errors",
    ]
    .map(|name| &row[name]);
    assert_eq!(
        serde_json::json!(of),
        serde_json::json!(["loading", 16, 499, 499, 0]),
        "{row}"
    );
    assert_eq!(row["in_flight_at_death"], in_flight);
    assert!(
        row["ends"].as_str().unwrap().starts_with("499 ok, "),
        "{row}"
    );
    let table = sandbox.provoke(&["report", "last", "--csv"]).stdout;
    assert!(table.contains(",\"499 ok, "), "{table}");
    let explanation = sandbox.provoke(&["explain", "last#1"]).stdout;
    assert!(explanation.contains("  16 clients: "), "{explanation}");
    assert!(
        explanation.contains(" sent, 499 answered, 0 errors in "),
        "{explanation}"
    );
    let death = format!("it died under load, after 499 responses, with {in_flight} request");
    assert!(explanation.contains(&death), "{explanation}");
    let listed = explanation.matches("GET /classify  client ").count() as u64;
    assert_eq!(listed, in_flight, "{explanation}");
    assert!(
        output.stdout.contains(", all GET /classify, sent "),
        "{output}"
    );
    let ages = load["in_flight_age"].as_array().unwrap();
    assert!(ages[0].as_f64() <= ages[1].as_f64(), "{load}");
}

#[test]
fn the_time_budget_stops_a_service_run() {
    let sandbox = Sandbox::new();
    // Without a limit it would take years.
    let (report, output) = load_crashing_server(
        &sandbox,
        &["-d", "2s", "-c", "1", "--requests", "1000000000"],
        &["--at", "2000000000"],
    );
    let variant = first_variant(&report);
    assert_eq!(variant["trials"], 0, "{output}");
    assert_eq!(variant["stop_rule"], "time", "{output}");
    assert_eq!(
        report["notes"],
        serde_json::json!(["the time limit stopped #1, which does not count"]),
        "{output}"
    );
    assert_eq!(output.code, Some(125), "{output}");
    assert_eq!(report["finished"], true, "{output}");
}

#[test]
fn every_end_of_a_service_has_its_own_outcome() {
    for (end, outcome) in [
        (&["--exit", "3"][..], "exit 3"),
        (&["--exit", "0"][..], "exit 0"),
        (&["--signal", "ABRT"][..], "SIGABRT"),
        (&["--hang"][..], "hang"),
    ] {
        let sandbox = Sandbox::new();
        let (report, output) = load_crashing_server(
            &sandbox,
            &words("-n 1 -c 4 --requests 500 --hang-after 1s"),
            &[&["--at", "100"], end].concat(),
        );
        assert_eq!(first_variant(&report)["outcomes"][outcome], 1, "{output}");
        assert_eq!(output.code, Some(1));
    }
}

#[test]
fn a_broken_response_is_not_a_crash() {
    // A kept connection that is closed before the response is not an error; the request is sent again.
    for (end, name, requests_each) in [
        ("--close", "closed early (head)", "1"),
        ("--close", "connection closed, sent again", "1000"),
        ("--eof-in-body", "closed early (body)", "1000"),
    ] {
        let sandbox = Sandbox::new();
        let each = ["--requests-per-connection", requests_each];
        let (report, output) = load_crashing_server(
            &sandbox,
            &[&["-n", "1", "-c", "4", "--requests", "300"], &each[..]].concat(),
            &["--at", "100", end],
        );
        let variant = first_variant(&report);
        assert_eq!(variant["outcomes"]["pass"], 1, "{output}");
        assert_eq!(variant["load"]["ends"][name], 1, "{}", variant["load"]);
        assert_eq!(output.code, Some(0));
    }
}

#[test]
fn wrong_responses_are_counted_separately_and_the_trial_passes() {
    let sandbox = Sandbox::new();
    let port = port();
    let file = format!(
        "command = ['{}', '--port', '{port}', '--at', '1000000']\n\
         runs = 1\ncapture = 'off'\n\
         [load]\nurl = 'http://127.0.0.1:{port}'\nclients = 2\nrequests = 100\n\
         warm-requests = 0\nquiet-time = '10ms'\n\
         [[request]]\nname = 'status'\npath = '/classify'\nstatus = [204]\n\
         [[request]]\nname = 'check'\npath = '/classify'\nexpect-body = 'nothing like this'\n",
        example("dieat")
    );
    sandbox.write("load.toml", &file);
    let (report, output) = sandbox.run_with_report("load", &["load.toml"]);
    let load = &first_variant(&report)["load"];
    assert_eq!(first_variant(&report)["outcomes"]["pass"], 1, "{output}");
    let ends = load["ends"].as_object().unwrap();
    let of = |start: &str| -> u64 {
        let all = ends.iter().filter(|(name, _)| name.starts_with(start));
        all.map(|(_, count)| count.as_u64().unwrap()).sum()
    };
    let check = "not as expected: expect-body";
    assert_eq!(of("status 200") + of(check), 100, "{load}");
    assert!(of("status 200") > 0 && of(check) > 0, "{load}");
    // A report from the journal is the same.
    let reported = sandbox.provoke(&["report", "last", "--json=-"]);
    let reported: Value = serde_json::from_str(&reported.stdout).unwrap();
    assert_eq!(first_variant(&reported)["load"]["ends"], load["ends"]);
}

#[test]
fn another_process_at_the_port_is_named_and_receives_no_request() {
    let sandbox = Sandbox::new();
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    let (server, number) = (example("dieat"), port.to_string());
    let command = [server.as_str(), "--port", &number];
    let url = format!("http://127.0.0.1:{port}/");
    let output = sandbox.provoke(&[&["load", &url, "-n", "2", "--"], &command[..]].concat());
    let me = std::process::id().to_string();
    assert_eq!(output.code, Some(125), "{output}");
    assert!(output.stderr.contains(&me), "{output}");
    stranger.set_nonblocking(true).unwrap();
    let tried = std::iter::from_fn(|| stranger.accept().ok());
    let sent = tried.map(|(mut stream, _)| {
        use std::io::Read as _;
        let mut byte = [0];
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut byte).unwrap_or(0)
    });
    assert_eq!(sent.sum::<usize>(), 0, "{output}");
}

#[test]
fn a_service_that_exits_at_its_start_makes_the_trial_inconclusive() {
    let sandbox = Sandbox::new();
    let (report, output) = load(&sandbox, port(), &["-n", "3"], &["sh", "-c", "exit 3"]);
    let variant = first_variant(&report);
    assert_eq!(variant["trials"], 0, "{output}");
    assert!(
        variant["void_reasons"]["service not ready"].as_u64() > Some(0),
        "{output}"
    );
    assert_eq!(output.code, Some(125));
}

#[test]
fn the_load_waits_until_the_service_is_ready() {
    let sandbox = Sandbox::new();
    let port = port();
    let line = format!(
        "sleep 1; exec {} --port {port} --at 1000000",
        example("dieat")
    );
    let (report, output) = load(
        &sandbox,
        port,
        &["-n", "1", "-c", "2", "--requests", "50"],
        &["sh", "-c", &line],
    );
    assert_eq!(first_variant(&report)["outcomes"]["pass"], 1, "{output}");
}

#[test]
fn a_crashed_worker_is_a_crash_of_the_service() {
    needs!(process_events());
    let sandbox = Sandbox::new();
    let port = port();
    // The shell sees its child die, and continues.
    let line = format!(
        "{} --port {port} --at 100 --signal SEGV; sleep 60",
        example("dieat")
    );
    let (report, output) = load(
        &sandbox,
        port,
        &["-n", "1", "-c", "4", "--requests", "500"],
        &["sh", "-c", &line],
    );
    let variant = first_variant(&report);
    assert_eq!(variant["outcomes"]["SIGSEGV"], 1, "{output}");
    let label = variant["kinds"][0]["label"].as_str().unwrap();
    assert!(label.contains("descendant of the service"), "{output}");
}

#[test]
fn no_process_of_a_service_remains() {
    let sandbox = Sandbox::new();
    let port = port();
    let line = format!("{} --port {port} --at 1000000 & wait", example("dieat"));
    let (_, output) = load(
        &sandbox,
        port,
        &words("-n 2 -c 2 --requests 50 --leaks report"),
        &["sh", "-c", &line],
    );
    assert_eq!(output.code, Some(0), "{output}");
    // The server no longer listens.
    TcpListener::bind(("127.0.0.1", port)).unwrap();
}

#[test]
fn load_on_another_machine_is_refused() {
    let sandbox = Sandbox::new();
    let output = sandbox.provoke(&["load", "http://192.0.2.1:8080/", "--", "true"]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: `192.0.2.1` (192.0.2.1) is not this machine

    hint: load on a machine that you do not own is an attack; if you own it, add --i-own-this-target 192.0.2.1
    [exit status: Some(2)]
    ");
}

#[test]
fn an_invalid_target_is_refused() {
    let sandbox = Sandbox::new();
    for args in [
        &["load", "localhost", "--", "true"][..],
        &["load", "--", "true"],
        &["load", "ftp://127.0.0.1/", "--", "true"],
        &["load", "http://127.0.0.1:1/"],
        &["load", "http://127.0.0.1:1/", "-c", "0", "--", "true"],
        &["load", "http://127.0.0.1:1/", "-c", "9..3", "--", "true"],
    ] {
        let output = sandbox.provoke(args);
        assert_eq!(output.code, Some(2), "{output}");
    }
    let output = sandbox.provoke(&["load", "localhost", "--", "true"]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: `localhost` is neither a URL nor a file

    hint: a URL is `http://HOST:PORT/PATH` or `HOST:PORT/PATH`
    [exit status: Some(2)]
    ");
}

#[test]
fn a_url_needs_no_scheme() {
    let sandbox = Sandbox::new();
    let (server, port) = (example("dieat"), port().to_string());
    let address = format!("127.0.0.1:{port}/classify");
    let args = [
        &address,
        "-n",
        "1",
        "--requests",
        "20",
        "--",
        &server,
        "--port",
        &port,
    ];
    let output = sandbox.provoke(&[&["load"], &args[..]].concat());
    assert!(output.stdout.contains("20 answered"), "{output}");
}

#[test]
fn the_end_of_an_attached_service_is_reported() {
    let sandbox = Sandbox::new();
    let port = port();
    let url = format!("http://127.0.0.1:{port}/classify");
    let number = port.to_string();
    let mut service = sandbox
        .program_command(&example("dieat"), &["--port", &number, "--at", "100"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let args = [
        &url,
        "--attach",
        "listener",
        "-n",
        "1",
        "-c",
        "4",
        "--requests",
        "500",
    ];
    let more = ["--warm-requests", "0", "--capture", "off"];
    let (report, output) = sandbox.run_with_report("load", &[&args[..], &more].concat());
    limited::wait(&mut service);
    // Its exit status is known if the kernel reports it, or if its parent has not yet waited for it.
    let variant = first_variant(&report);
    assert_eq!(variant["failures"], 1, "{output}");
    assert_eq!(variant["outcomes"]["SIGSEGV"], 1, "{output}");
    assert_eq!(
        variant["load"]["served_before_death"],
        serde_json::json!([99]),
        "{output}"
    );
}

#[test]
fn attaching_to_a_missing_process_is_refused() {
    let sandbox = Sandbox::new();
    let args = ["load", "http://127.0.0.1:1/", "--attach", "2147483647"];
    insta::assert_snapshot!(sandbox.provoke(&args), @"
    ------- stderr -------
    error: cannot attach to process 2147483647: it does not exist

    hint: --attach listener finds the process that listens at the URL
    [exit status: Some(2)]
    ");
}

#[test]
fn a_stopped_service_is_not_called_hung() {
    use rustix::process::{Pid, Signal, kill_process};
    let sandbox = Sandbox::new();
    let port = port();
    let url = format!("http://127.0.0.1:{port}/classify");
    let number = port.to_string();
    let mut service = sandbox
        .program_command(&example("dieat"), &["--port", &number, "--at", "1000000"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let pid = Pid::from_child(&service);
    kill_process(pid, Signal::STOP).unwrap();
    let number = pid.as_raw_nonzero().to_string();
    let args = [
        url.as_str(),
        "--attach",
        &number,
        "-n",
        "1",
        "-c",
        "2",
        "--hang-after",
        "1s",
        "--capture",
        "off",
    ];
    let (report, output) = sandbox.run_with_report("load", &args);
    service.kill().unwrap();
    service.wait().unwrap();
    assert_eq!(first_variant(&report)["outcomes"]["stopped"], 1, "{output}");
    let explanation = sandbox.provoke(&["explain", "last#1"]).stdout;
    assert!(
        explanation.contains("it was stopped during the warm-up"),
        "{explanation}"
    );
}

#[test]
fn a_scenario_with_a_timeout_is_refused_for_load() {
    let sandbox = Sandbox::new();
    let file = "command = ['app']\ntimeout = '60s'\n[load]\nurl = 'http://127.0.0.1:1'\n";
    sandbox.write("load.toml", file);
    insta::assert_snapshot!(sandbox.provoke(&["load", "load.toml"]), @"
    ------- stderr -------
    error: `timeout` does not apply to a service under load
     --> load.toml:2:11
      |
    2 | timeout = '60s'
      |           ^^^^^
      |
      = help: `requests` or `time` in [load] ends a trial; `hang-after` says when the service is hung
    [exit status: Some(2)]
    ");
}

#[test]
fn a_load_without_expected_responses_is_noted() {
    let sandbox = Sandbox::new();
    let port = port();
    let number = port.to_string();
    let command = [example("racyd"), "--port".to_owned(), number];
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    // The server requires POST.
    let args = ["-n", "1", "-c", "2", "--requests", "20"];
    let (report, output) = load(&sandbox, port, &args, &command);
    assert_eq!(
        first_variant(&report)["load"]["ends"]["status 404"],
        20,
        "{output}"
    );
    let note = report["notes"][0].as_str().unwrap();
    assert!(
        note.starts_with("only 0 of 20 requests got the expected response"),
        "{note}"
    );
    let args = [&args[..], &["-X", "POST", "-b", "hello"]].concat();
    let (report, output) = load(&sandbox, port, &args, &command);
    assert_eq!(first_variant(&report)["load"]["ends"]["ok"], 20, "{output}");
}

#[test]
fn the_old_and_the_fixed_service_alternate_by_trial() {
    let sandbox = Sandbox::new();
    let port = port();
    let url = format!("http://127.0.0.1:{port}/classify");
    let server = format!("{} --port {port} --at", example("dieat"));
    let (old, new) = (format!("{server} 50"), format!("{server} 1000000"));
    let args = [
        &url,
        "-c",
        "2",
        "--requests",
        "60",
        "--warm-requests",
        "0",
        "--seed",
        "1",
    ];
    let more = [
        "--quiet-time",
        "1ms",
        "--capture",
        "off",
        "--serve",
        &old,
        "--fixed",
        &new,
    ];
    let (report, output) = sandbox.run_with_report("load", &[&args[..], &more].concat());
    assert_eq!(report["verdict"], "fixed", "{output}");
    assert_eq!(output.code, Some(0), "{output}");
    let of = |name: &str| {
        let all = report["variants"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!(of("old")["failures"], of("old")["trials"], "{output}");
    assert_eq!(of("fixed")["failures"], 0, "{output}");
}

#[test]
fn confirm_uses_the_load_of_the_baseline() {
    let sandbox = Sandbox::new();
    let server = example("dieat");
    let (_, output) = load_crashing_server(
        &sandbox,
        &["-n", "2", "-c", "2", "--requests", "60", "--out", "before"],
        &["--at", "50"],
    );
    assert_eq!(output.code, Some(1), "{output}");
    let line = std::fs::read_to_string(sandbox.path("before/events.jsonl")).unwrap();
    let started: Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    let base = started.to_string();
    let at = base.find("http://127.0.0.1:").unwrap() + "http://127.0.0.1:".len();
    let port: String = base[at..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    let command = ["--", &server, "--port", &port, "--at", "1000000"];
    let args = [&["--baseline", "before"], &command[..]].concat();
    let (report, output) = sandbox.run_with_report("confirm", &args);
    assert_eq!(report["verdict"], "fixed", "{output}");
    assert_eq!(output.code, Some(0), "{output}");
}

/// The server's requests only share a slot if ten of them meet: below that it cannot crash on any machine, and well
/// above it crashes in nearly every trial.
#[test]
fn the_service_crashes_only_under_enough_parallel_requests() {
    let server = example("racyd");
    let post = ["-X", "POST", "-b", "hello", "--requests", "1000"];
    for (clients, more, code) in [
        ("9", &["-n", "3"][..], 0),
        ("16", &["-n", "10", "--fail-fast"][..], 1),
    ] {
        let sandbox = Sandbox::new();
        let port = port();
        let number = port.to_string();
        let args = [&post[..], &["-c", clients], more].concat();
        let (report, output) = load(&sandbox, port, &args, &[&server, "--port", &number]);
        assert_eq!(output.code, Some(code), "{output}");
        // A damaged heap may also damage a response before the crash.
        if code == 0 {
            assert_eq!(first_variant(&report)["load"]["errors"], 0, "{output}");
        }
    }
}

#[test]
fn the_lowest_crashing_load_level_is_found() {
    let sandbox = Sandbox::new();
    let port = port();
    let number = port.to_string();
    let server = example("racyd");
    let args = words("-c 2,9,24 -X POST -b hello --requests 1000 --detect 40%");
    let (report, output) = load(&sandbox, port, &args, &[&server, "--port", &number]);
    assert_eq!(report["verdict"], "found", "{output}");
    assert_eq!(output.code, Some(0), "{output}");
    let answer = &report["answer"]["ramp"];
    assert!(
        answer["sentence"]
            .as_str()
            .unwrap()
            .starts_with("It dies at 24 clients: "),
        "{output}"
    );
}

/// Returns a scenario whose service logs its requests, and crashes at this request.
fn write_logged_scenario(sandbox: &Sandbox, port: u16, at: u64) {
    let file = format!(
        "command = ['{}', '--port', '{port}', '--at', '{at}', '--log', 'asked']\n\
         runs = 1\ncapture = 'off'\n\
         [load]\nurl = 'http://127.0.0.1:{port}'\nclients = 1\nrequests = 60\n\
         warm-requests = 5\nquiet-time = '10ms'\n\
         [[request]]\npath = '/a?{{rand}}'\nweight = 3\n\
         [[request]]\nname = 'b'\npath = '/b'\nbody = '{{seq}} {{rand}}'\n",
        example("dieat")
    );
    sandbox.write("load.toml", &file);
}

#[test]
fn a_replayed_trial_sends_the_same_requests() {
    let sandbox = Sandbox::new();
    write_logged_scenario(&sandbox, port(), 50);
    let (report, output) = sandbox.run_with_report("load", &["load.toml"]);
    assert_eq!(first_variant(&report)["outcomes"]["SIGSEGV"], 1, "{output}");
    let asked = sandbox.read("asked");
    assert_eq!(asked.lines().count(), 50);
    std::fs::remove_file(sandbox.path("asked")).unwrap();
    let output = sandbox.provoke(&["replay", "last#1"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stdout.contains("SIGSEGV"), "{output}");
    assert_eq!(sandbox.read("asked"), asked);
}

#[test]
fn the_requests_before_a_crash_can_be_replayed_as_a_load() {
    let sandbox = Sandbox::new();
    write_logged_scenario(&sandbox, port(), 50);
    sandbox.run_with_report("load", &["-o", "first", "load.toml"]);
    let before: BTreeSet<String> = sandbox.read("asked").lines().map(str::to_owned).collect();
    std::fs::remove_file(sandbox.path("asked")).unwrap();
    let file = "first/trials/1/replay.toml";
    let text = sandbox.read(file);
    assert!(text.contains("requests = 45\n"), "{text}");
    assert!(text.contains("clients = 1\n"), "{text}");
    let (report, output) = sandbox.run_with_report("load", &[file, "-n", "1"]);
    assert_eq!(first_variant(&report)["outcomes"]["SIGSEGV"], 1, "{output}");
    let replayed: BTreeSet<String> = sandbox.read("asked").lines().map(str::to_owned).collect();
    // Equal to the byte: random parts are the same as before.
    let others: Vec<&String> = replayed.difference(&before).collect();
    assert!(
        others.is_empty() && replayed.len() > 5,
        "{others:?} of {replayed:?}"
    );
}

/// Reduces the requests of a load with two body sizes, of which no single one can crash the server. The server's
/// documentation explains why.
fn reduce_sizes(requests: &str) -> (Value, CommandOutput, Sandbox) {
    let sandbox = Sandbox::new();
    let port = port();
    for (name, size) in [("small", 10), ("large", 5000)] {
        std::fs::write(sandbox.path(name), vec![b'x'; size]).unwrap();
    }
    let file = format!(
        "command = ['{}', '--port', '{port}', '--slots', '4', '--grow-every', '0']\n\
         runs = 200\nmax-fail = 2\ncapture = 'off'\n\
         [load]\nurl = 'http://127.0.0.1:{port}'\nclients = 12\nrequests = 600\n\
         warm-requests = 0\nquiet-time = '50ms'\n{requests}\
         [[request]]\nname = 'health'\npath = '/healthz'\n",
        example("racyd")
    );
    sandbox.write("load.toml", &file);
    let (report, output) = sandbox.run_with_report("load", &["-o", "first", "load.toml"]);
    assert!(
        first_variant(&report)["failures"].as_u64() > Some(0),
        "{output}"
    );
    let args = words("--requests first -o less -d 200s --seed 1 --capture off");
    let (report, output) = sandbox.run_with_report("reduce", &args);
    assert_eq!(report["verdict"], "found", "{output}");
    assert_eq!(report["answer"]["reduce"]["items"], 3, "{output}");
    (report, output, sandbox)
}

/// Returns the names of the needed items.
fn needed_items(report: &Value) -> Vec<&str> {
    let groups = report["answer"]["reduce"]["needed"].as_array().unwrap();
    let items = groups
        .iter()
        .flat_map(|group| group["items"].as_array().unwrap());
    items.map(|item| item.as_str().unwrap()).collect()
}

#[test]
fn reduce_finds_the_two_request_kinds_that_crash() {
    let kinds = "[[request]]\nname = 'small'\npath = '/classify'\nbody-files = ['small']\n\
                 [[request]]\nname = 'large'\npath = '/classify'\nbody-files = ['large']\n";
    let (report, output, sandbox) = reduce_sizes(kinds);
    assert_eq!(needed_items(&report), ["`small`", "`large`"], "{output}");
    let command = "provoke load less/smallest.toml";
    assert!(output.stdout.contains(command), "{output}");
    let smallest = sandbox.read("less/smallest.toml");
    assert!(!smallest.contains("health"), "{smallest}");
    assert!(smallest.contains("clients = 12\n"), "{smallest}");
    let (report, output) = sandbox.run_with_report("load", &["less/smallest.toml", "-n", "2"]);
    assert_eq!(first_variant(&report)["trials"], 2, "{output}");
}

#[test]
fn reduce_finds_the_two_bodies_that_crash() {
    let kinds =
        "[[request]]\nname = 'image'\npath = '/classify'\nbody-files = ['small', 'large']\n";
    let (report, output, sandbox) = reduce_sizes(kinds);
    let bodies = ["`image with small`", "`image with large`"];
    assert_eq!(needed_items(&report), bodies, "{output}");
    let sentence = report["answer"]["reduce"]["sentence"].as_str().unwrap();
    // The journal contains all results.
    let resumed = sandbox.provoke(&["resume", "less"]);
    assert!(resumed.stdout.contains(sentence), "{resumed}");
}

#[test]
fn the_requests_are_reduced_at_the_level_that_crashes_most_often() {
    let sandbox = Sandbox::new();
    let port = port();
    let file = format!(
        "command = ['{}', '--port', '{port}', '--together', '2', '--work', '200']\n\
         runs = 5\ncapture = 'off'\n\
         [load]\nurl = 'http://127.0.0.1:{port}'\nclients = '1,4'\nrequests = 8\n\
         warm-requests = 0\nquiet-time = '1ms'\n[[request]]\nbody = 'x'\n",
        example("dieat")
    );
    sandbox.write("load.toml", &file);
    let (report, output) = sandbox.run_with_report("load", &["-o", "first", "load.toml"]);
    assert_eq!(
        report["answer"]["ramp"]["levels"][1]["clients"], 4,
        "{output}"
    );
    let (report, output) = sandbox.run_with_report("reduce", &["--requests", "first", "-n", "20"]);
    assert!(output.stderr.contains("by 4 clients"), "{output}");
    // Without its only request, the service is started and left alone.
    let without = &report["answer"]["reduce"]["needed"][0]["without"];
    assert_eq!(without["failures"], 0, "{output}");
    assert!(without["trials"].as_u64() > Some(0), "{output}");
}

#[test]
fn a_service_that_dies_by_itself_needs_no_request() {
    let sandbox = Sandbox::new();
    let port = port();
    let file = format!(
        "shell = '{} --port {port} --together 99 & sleep 0.3; kill -KILL $!; exit 3'\n\
         runs = 3\ncapture = 'off'\n\
         [load]\nurl = 'http://127.0.0.1:{port}'\nclients = 1\ntime = '5s'\n\
         warm-requests = 0\nquiet-time = '1ms'\n[[request]]\npath = '/a'\n[[request]]\npath = '/b'\n",
        example("dieat")
    );
    sandbox.write("load.toml", &file);
    sandbox.run_with_report("load", &["-o", "first", "load.toml"]);
    let args = words("--requests first -o less --capture off");
    let (report, output) = sandbox.run_with_report("reduce", &args);
    let sentence = report["answer"]["reduce"]["sentence"].as_str().unwrap();
    assert!(
        sentence.starts_with("none of the 2 items is needed"),
        "{output}"
    );
    assert!(!sandbox.path("less/smallest.toml").exists(), "{output}");
}

#[test]
fn a_run_that_did_not_crash_has_no_requests_to_reduce() {
    let sandbox = Sandbox::new();
    write_logged_scenario(&sandbox, port(), 1000);
    sandbox.run_with_report("load", &["-o", "first", "load.toml"]);
    sandbox.report(&["-o", "other", "-n", "1", "--", "true"]);
    for (run, words) in [
        ("first", "the service died in no trial of the run first"),
        ("other", "the run other is not a run of `provoke load`"),
        ("none", "cannot read the run: there is no run `none`"),
    ] {
        let output = sandbox.provoke(&["reduce", "--requests", run]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains(words), "{output}");
    }
    let output = sandbox.provoke(&["load", "--shrink", "first"]);
    let hint = "provoke reduce --requests RUN";
    assert!(output.stderr.contains(hint), "{output}");
}

/// Kills a run of a search after `trials` trials and resumes it. Returns its answer and that of an uninterrupted run.
fn both_answers(
    sandbox: &Sandbox,
    command: &str,
    trials: usize,
    port: u16,
    args: &[&str],
) -> [Value; 2] {
    let (whole, output) = sandbox.run_with_report(command, &[&["-o", "whole"], args].concat());
    assert_eq!(whole["verdict"], "found", "{output}");
    let running = sandbox.start(&[&[command, "--progress=none", "-o", "broken"], args].concat());
    wait_until("some trials are over", || {
        let journal = sandbox.path("broken/events.jsonl");
        let text = std::fs::read_to_string(journal).unwrap_or_default();
        text.matches("{\"trial_finished\":").count() >= trials
    });
    running.signal(rustix::process::Signal::KILL);
    running.end();
    wait_until("its service is gone", || {
        TcpListener::bind(("127.0.0.1", port)).is_ok()
    });
    let before = sandbox.provoke(&["report", "broken", "--json=-"]);
    let before: Value = serde_json::from_str(&before.stdout).unwrap();
    assert_eq!(before["verdict"], "undecided", "{before}");
    let output = sandbox.provoke(&["resume", "broken", "--progress=none"]);
    assert_eq!(output.code, Some(0), "{output}");
    let resumed = sandbox.provoke(&["report", "broken", "--json=-"]);
    let resumed: Value = serde_json::from_str(&resumed.stdout).unwrap();
    [resumed, whole].map(|report| report["answer"].clone())
}

#[test]
fn a_killed_ramp_is_resumed_to_the_same_answer() {
    let sandbox = Sandbox::new();
    let port = port();
    let url = format!("http://127.0.0.1:{port}/");
    let number = port.to_string();
    let server = example("dieat");
    let load = [
        &url,
        "-c",
        "1,2,3,4",
        "-b",
        "x",
        "--requests",
        "12",
        "--detect",
        "40%",
        "--seed",
        "1",
        "--warm-requests",
        "0",
        "--quiet-time",
        "1ms",
        "--capture",
        "off",
        "--",
    ];
    let service = [
        &server,
        "--port",
        &number,
        "--together",
        "3",
        "--work",
        "100",
    ];
    let answers = both_answers(&sandbox, "load", 4, port, &[&load[..], &service].concat());
    let [resumed, whole] = answers.map(|mut answer| {
        // The number of requests and responses before the crash depends on timing.
        for level in answer["ramp"]["levels"].as_array_mut().unwrap() {
            let level = level.as_object_mut().unwrap();
            level.retain(|name, _| !["requests", "served_before_death"].contains(&name.as_str()));
        }
        answer
    });
    assert_eq!(whole["ramp"]["fails_from"], 3);
    assert_eq!(whole["ramp"]["clean_to"], 2);
    assert_eq!(resumed, whole);
}

#[test]
fn a_killed_reduction_of_requests_is_resumed_to_the_same_answer() {
    let sandbox = Sandbox::new();
    let port = port();
    let file = format!(
        "command = ['{}', '--port', '{port}', '--together', '2', '--work', '200']\n\
         runs = 2\ncapture = 'off'\n\
         [load]\nurl = 'http://127.0.0.1:{port}'\nclients = 4\nrequests = 8\n\
         warm-requests = 0\nquiet-time = '1ms'\n\
         [[request]]\nname = 'calm'\npath = '/a'\n\
         [[request]]\nname = 'busy'\npath = '/b'\nbody = 'x'\nweight = 9\n",
        example("dieat")
    );
    sandbox.write("load.toml", &file);
    let (report, output) = sandbox.run_with_report("load", &["-o", "first", "load.toml"]);
    assert_eq!(first_variant(&report)["failures"], 2, "{output}");
    // The first run of the two would count as an earlier run of the second.
    let args = words("--requests first --seed 1 --capture off --ignore-earlier-runs");
    let [resumed, whole] = both_answers(&sandbox, "reduce", 6, port, &args);
    assert_eq!(whole["reduce"]["needed"][0]["items"][0], "`busy`");
    assert_eq!(resumed, whole);
}

#[test]
fn flags_that_load_refuses_are_not_in_its_help() {
    let sandbox = Sandbox::new();
    let help = sandbox.provoke(&["load", "--help"]).stdout;
    for flag in ["--timeout", "--ok ", "--skip "] {
        assert!(!help.contains(flag), "{flag}: {help}");
    }
    assert!(
        sandbox
            .provoke(&["run", "--help"])
            .stdout
            .contains("--timeout")
    );
}

#[test]
fn the_expected_duration_of_a_long_run_is_printed_at_its_start() {
    let sandbox = Sandbox::new();
    let args = words("http://127.0.0.1:1/ -c 1..4 --time 2s -d 1s");
    let output = sandbox.provoke(&[&["load"], &args[..], &["--", "false"]].concat());
    let forecast = "expected: 57 trials of 2.50 s, about 2m 23s in all if all of them pass; a shorter --time would take less time";
    assert!(output.stderr.contains(forecast), "{}", output.stderr);
    let long = words("http://127.0.0.1:1/ -c 1..4 --time 20s -d 5m");
    let output = sandbox.provoke(&[&["load"], &long[..], &["--", "false"]].concat());
    let fitting = "expected: 57 trials of 20.5 s, about 19m 29s in all if all of them pass; that exceeds the limit of 5m 00s (-d): stop with Ctrl-C and repeat this with --time 2s";
    assert!(output.stderr.contains(fitting), "{}", output.stderr);
    let short = ["http://127.0.0.1:1/", "-n", "3", "--time", "2s"];
    let output = sandbox.provoke(&[&["load"], &short[..], &["--", "false"]].concat());
    assert!(!output.stderr.contains("expected:"), "{}", output.stderr);
}
