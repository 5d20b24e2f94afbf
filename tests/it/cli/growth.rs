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
fn poked(keeps: &str) -> (Value, String) {
    let sandbox = Sandbox::new();
    sandbox.write("service.py", SERVICE);
    let setup = format!("mkfifo poke answer; python3 service.py {keeps} >service.log 2>&1 &");
    // The pause is longer than the interval of measurements, so there is one measurement per trial.
    let args = ["-n", "30", "--delay", "110ms", "--setup", &setup];
    let trial = ["--", "sh", "-c", "printf x > poke; cat answer"];
    let (report, said) = sandbox.report(&[&args[..], &trial].concat());
    assert_eq!(report["variants"][0]["failures"], 0, "{said}");
    (report, said.stdout)
}

fn of<'a>(report: &'a Value, what: &str) -> &'a Value {
    let growth = report["growth"].as_array().unwrap().iter();
    let mut found = growth.filter(|growth| growth["what"] == what);
    found.next().unwrap_or_else(|| panic!("{report:#}"))
}

#[test]
fn a_service_that_forgets_to_close_files_is_found() {
    needs!(program("python3"));
    let (report, said) = poked("files");
    let files = of(&report, "descriptors");
    assert_eq!(files["warns"], true, "{files}");
    assert_eq!(files["per_trial"], 1.0, "{files}");
    let grown = files["to"].as_u64().unwrap() - files["from"].as_u64().unwrap();
    assert_eq!(grown, 29, "{files}");
    assert!(
        said.contains("what `setup` left running grew by 1 open files a trial (1 .. 1), from "),
        "{said}"
    );
    assert_eq!(of(&report, "processes")["warns"], false);
    assert_eq!(of(&report, "threads")["to"], 1);
}

#[test]
fn a_service_that_keeps_memory_is_found() {
    needs!(program("python3"));
    let (report, said) = poked("memory");
    let memory = of(&report, "rss_kib");
    assert_eq!(memory["warns"], true, "{memory}");
    let per_trial = memory["per_trial"].as_f64().unwrap();
    assert!((900.0..1200.0).contains(&per_trial), "{memory}");
    assert!(said.contains("MiB of memory a trial"), "{said}");
}

#[test]
fn a_service_that_warms_up_or_rests_is_not_said_to_grow() {
    needs!(program("python3"));
    for keeps in ["nothing", "warming"] {
        let (report, said) = poked(keeps);
        assert_eq!(of(&report, "descriptors")["warns"], false, "{keeps}");
        assert!(!said.contains("grew by"), "{keeps}: {said}");
    }
}

#[test]
fn where_nothing_lives_on_there_is_nothing_to_grow() {
    let sandbox = Sandbox::new();
    let (report, _) = sandbox.report(&["-n", "3", "--setup", "true", "--", "true"]);
    assert_eq!(report["growth"], Value::Array(Vec::new()));
    let mut looked = sandbox
        .events()
        .into_iter()
        .filter(|event| event.to_string().contains("\"around\""));
    assert_eq!(looked.next(), None);
}
