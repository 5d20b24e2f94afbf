//! Tests growth of the processes that `setup` started, in the course of a run.

use super::support::Sandbox;
use crate::needs::{needs, program};
use serde_json::Value;

/// Answers each connection, and keeps the resource that its first argument names. A trial ends when the connection is
/// closed, so the service is idle while it is measured.
const SERVICE: &str = r#"
import mmap, os, sys
poke = os.open("poke", os.O_RDWR)
kept = []
while os.read(poke, 1):
    if sys.argv[1] == "files":
        kept.append(open("/dev/null"))
    elif sys.argv[1] == "memory":
        kept.append(b"x" * (1 << 20))
        # The kernel counts memory in steps of 128 KiB and more, and one step among equal values
        # would look like values that depend on each other.
        varying = mmap.mmap(-1, (1 + len(kept) * 5 % 8) << 17)
        varying.write(b"x" * len(varying))
    elif sys.argv[1] == "warming" and len(kept) < 8:
        kept.append(open("/dev/null"))
    with open("answer", "w") as answer:
        answer.write("done")
"#;

/// Runs trials that connect to a service which keeps a resource; returns the report and the output.
fn run_with_service(keeps: &str) -> (Value, String) {
    let sandbox = Sandbox::new();
    sandbox.write("service.py", SERVICE);
    let setup = format!("mkfifo poke answer; python3 service.py {keeps} >service.log 2>&1 &");
    // The pause is longer than the interval of measurements, so there is one measurement per trial.
    let args = ["-n", "30", "--delay", "110ms", "--setup", &setup];
    let trial = ["--", "sh", "-c", "printf x > poke; cat answer"];
    let (report, output) = sandbox.report(&[&args[..], &trial].concat());
    assert_eq!(report["variants"][0]["failures"], 0, "{output}");
    (report, output.stdout)
}

fn growth_of<'a>(report: &'a Value, what: &str) -> &'a Value {
    let growth = report["growth"].as_array().unwrap().iter();
    let mut found = growth.filter(|growth| growth["what"] == what);
    found.next().unwrap_or_else(|| panic!("{report:#}"))
}

#[test]
fn a_service_that_leaks_file_descriptors_is_reported() {
    needs!(program("python3"));
    let (report, output) = run_with_service("files");
    let files = growth_of(&report, "descriptors");
    assert_eq!(files["warns"], true, "{files}");
    assert_eq!(files["per_trial"], 1.0, "{files}");
    let grown = files["to"].as_u64().unwrap() - files["from"].as_u64().unwrap();
    assert_eq!(grown, 29, "{files}");
    assert!(
        output.contains("what `setup` left running grew by 1 open files a trial (1 .. 1), from "),
        "{output}"
    );
    assert_eq!(growth_of(&report, "processes")["warns"], false);
    assert_eq!(growth_of(&report, "threads")["to"], 1);
}

#[test]
fn a_service_that_leaks_memory_is_reported() {
    needs!(program("python3"));
    let (report, output) = run_with_service("memory");
    let memory = growth_of(&report, "rss_kib");
    assert_eq!(memory["warns"], true, "{memory}");
    let per_trial = memory["per_trial"].as_f64().unwrap();
    assert!((900.0..1200.0).contains(&per_trial), "{memory}");
    assert!(output.contains("MiB of memory a trial"), "{output}");
}

#[test]
fn a_service_that_warms_up_or_is_constant_is_not_reported() {
    needs!(program("python3"));
    for keeps in ["nothing", "warming"] {
        let (report, output) = run_with_service(keeps);
        assert_eq!(growth_of(&report, "descriptors")["warns"], false, "{keeps}");
        assert!(!output.contains("grew by"), "{keeps}: {output}");
    }
}

#[test]
fn without_processes_from_setup_no_growth_is_measured() {
    let sandbox = Sandbox::new();
    let (report, _) = sandbox.report(&["-n", "3", "--setup", "true", "--", "true"]);
    assert_eq!(report["growth"], Value::Array(Vec::new()));
    let mut looked = sandbox
        .events()
        .into_iter()
        .filter(|event| event.to_string().contains("\"around\""));
    assert_eq!(looked.next(), None);
}
