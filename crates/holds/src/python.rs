//! Holds threads of Python programs before chosen lines, or records their paths, by a module that the interpreter imports at
//! its start.

mod arrivals;

use arrivals::{ARRIVALS_FILE, CHUNK_BYTES, MAX_ARRIVAL_BYTES, read_path};
use provoke_model::{
    CodeScope, Hold, HoldObservation, HoldPlan, HoldPoint, LearnedPoint, Occurrence, PathPlan,
};
use provoke_sys::files;
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::Path;

/// The module that holds or learns.
const HOLD_MODULE: &str = concat!(
    include_str!("python/common.py"),
    include_str!("python/hold.py"),
    include_str!("python/start.py")
);
/// The module that records. It is another one because each trial compiles it anew.
const RECORD_MODULE: &str = concat!(
    include_str!("python/common.py"),
    include_str!("python/record.py"),
    include_str!("python/start.py")
);
/// Name of the file with the module, which Python imports from a folder in `PYTHONPATH`.
const MODULE_FILE: &str = "sitecustomize.py";
/// Name of the file with the results.
const RESULT_FILE: &str = "lines.jsonl";
/// Limit of the bytes of the results.
const MAX_BYTES: u64 = 256 << 20;
/// Variable with the instructions for the module.
const INSTRUCTIONS: &str = "PROVOKE_HOLD_LINES";

/// Returns whether a plan has points in Python files, or learns them.
pub fn has_lines(plan: &HoldPlan) -> bool {
    let is_line = |hold: &Hold| matches!(hold.point, HoldPoint::Line { .. });
    match scope_of(plan) {
        Some(CodeScope::Own | CodeScope::Named(_)) => true,
        Some(CodeScope::Around(holds)) => holds.iter().any(is_line),
        None => plan.traced_holds().iter().any(is_line),
    }
}

/// Returns the files whose lines are learned or recorded.
fn scope_of(plan: &HoldPlan) -> Option<&CodeScope> {
    match plan {
        HoldPlan::Learn(scope) | HoldPlan::Record(PathPlan { scope, .. }) => Some(scope),
        HoldPlan::Trace(_) | HoldPlan::Hold { .. } => None,
    }
}

/// Writes a folder for one trial, and returns the variables that the environment of its programs needs. The folder must
/// exist; results of an earlier trial in it are removed. `python_path` is the present value of `PYTHONPATH`.
pub fn prepare_lines(
    folder: &Path,
    plan: &HoldPlan,
    python_path: Option<&OsStr>,
) -> io::Result<Vec<(OsString, OsString)>> {
    let is_line = |hold: &Hold| matches!(hold.point, HoldPoint::Line { .. });
    if matches!(plan, HoldPlan::Record(_)) && plan.holds().iter().any(is_line) {
        let reason = "threads cannot be held at lines that are observed";
        return Err(io::Error::other(reason));
    }
    let module = match plan {
        HoldPlan::Record(_) => RECORD_MODULE,
        HoldPlan::Learn(_) | HoldPlan::Trace(_) | HoldPlan::Hold { .. } => HOLD_MODULE,
    };
    files::create_readable(&folder.join(MODULE_FILE))?.write_all(module.as_bytes())?;
    let output = folder.join(RESULT_FILE);
    files::create_readable(&output)?;
    let arrivals = folder.join(ARRIVALS_FILE);
    files::create_readable(&arrivals)?;
    let total_limit = match plan {
        HoldPlan::Learn(_) | HoldPlan::Record(_) | HoldPlan::Trace(_) => 0,
        HoldPlan::Hold { total_limit, .. } => total_limit.as_micros(),
    };
    let named: &[String] = match scope_of(plan) {
        Some(CodeScope::Named(names)) => names,
        _ => &[],
    };
    let recorded_arrivals = match plan {
        HoldPlan::Record(path) => path.arrivals.max(1),
        _ => 0,
    };
    // Holds at other points keep their indices, but no line has the number 0.
    let holds: Vec<Value> = plan.traced_holds().iter().map(describe_hold).collect();
    let instructions = json!({
        "learn": matches!(plan, HoldPlan::Learn(_)),
        "record": recorded_arrivals,
        "arrivals": arrivals.to_str().ok_or(io::ErrorKind::InvalidFilename)?,
        "chunk_size": CHUNK_BYTES,
        "max_size": MAX_ARRIVAL_BYTES,
        "holds": holds,
        "named": named,
        "output": output.to_str().ok_or(io::ErrorKind::InvalidFilename)?,
        "total_limit_us": u64::try_from(total_limit).unwrap_or(u64::MAX),
    });
    let mut path = folder.as_os_str().to_owned();
    if let Some(old_path) = python_path
        && !old_path.is_empty()
    {
        path.push(":");
        path.push(old_path);
    }
    Ok(vec![
        ("PYTHONPATH".into(), path),
        (INSTRUCTIONS.into(), instructions.to_string().into()),
    ])
}

/// Adds the results of a trial to an observation: the learned lines, how many threads were held, and the path, which replaces
/// that of the code because the order between their events is not known.
pub fn read_lines(
    folder: &Path,
    plan: &HoldPlan,
    observation: &mut HoldObservation,
) -> io::Result<()> {
    let text = files::read_itself(&folder.join(RESULT_FILE), MAX_BYTES)?;
    let text = String::from_utf8_lossy(&text);
    observation.times.resize(plan.holds().len(), 0);
    if matches!(plan, HoldPlan::Record(_)) {
        let path = read_path(folder)?;
        if !path.events.0.is_empty() {
            observation.path = Some(Box::new(path));
        }
    }
    // A killed process may leave an incomplete line.
    for record in text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
    {
        match record[0].as_str() {
            Some("line") => observation.learned.extend(learned_line(&record)),
            Some("held") => {
                let index = record[1]
                    .as_u64()
                    .and_then(|index| usize::try_from(index).ok());
                if let Some(times) = index.and_then(|index| observation.times.get_mut(index)) {
                    *times += 1;
                }
            }
            Some("left_out") => {
                let package = record[1].as_str().unwrap_or_default().to_owned();
                // Packages come before the modules of the standard library.
                if !observation.left_out.contains(&package) {
                    observation.left_out.insert(0, package);
                }
            }
            Some("refused") => {
                let reason = record[1].as_str().unwrap_or_default();
                observation.refused.get_or_insert(reason.to_owned());
            }
            _ => {}
        }
    }
    // Each process of the program learns its lines.
    let mut points = std::collections::BTreeSet::new();
    observation
        .learned
        .retain(|learned| points.insert(learned.point.clone()));
    Ok(())
}

fn describe_hold(hold: &Hold) -> Value {
    let (file, line) = match &hold.point {
        HoldPoint::Line { file, line } => (file.to_string(), *line),
        HoldPoint::Code(_) | HoldPoint::Call { .. } | HoldPoint::Start(_) => (String::new(), 0),
    };
    let (nth, seed) = match hold.occurrence {
        Occurrence::Nth(number) => (Some(number), 0),
        Occurrence::Half(seed) => (None, seed),
        Occurrence::Every => (None, 0),
    };
    json!({
        "file": file,
        "line": line,
        "nth": nth,
        "seed": seed,
        "every": hold.occurrence == Occurrence::Every,
        "limit_us": u64::try_from(hold.limit.as_micros()).unwrap_or(u64::MAX),
    })
}

fn learned_line(record: &Value) -> Option<LearnedPoint> {
    let file = record[1].as_str()?;
    let line = u32::try_from(record[2].as_u64()?).ok()?;
    Some(LearnedPoint {
        point: HoldPoint::Line {
            file: OsStr::new(file).into(),
            line,
        },
        thread: u32::try_from(record[3].as_u64()?).ok()?,
        function: 0,
        accesses_memory: false,
        name: None,
        line: Some((file.to_owned(), line)),
        is_library: false,
    })
}
