//! Puts HTTP load on a service, and records the result of each request.
//!
#![doc = include_str!("../README.md")]
//!
//! # Design
//!
//! [`drive_service`] drives one trial: it waits until the service is ready, warms it up, sends the load,
//! and then lets the service settle. The caller watches the processes of the service and reports a
//! crash. Then the clients stop, the requests in flight are written, and requests that failed
//! around that moment are attributed to the crash.
//!
//! provoke has its own HTTP/1.1 client because other clients do not report the number of an error
//! and the phase in which it occurred, a kept connection that was just closed, and the bytes as
//! they were sent. `docs/design/http1.md` has the reasons and the costs.

mod body;
mod check;
mod client;
mod client_deadline;
mod clock;
mod connect;
mod crash_effect;
mod fixed_rate;
mod fixed_rate_timer;
#[cfg(fuzzing)]
pub mod fuzzing;
mod http1;
mod http2;
mod http2_connection;
mod packed_request;
mod phase;
mod phase_run;
mod probe;
mod ready;
mod record;
mod request;
mod request_evidence;
mod response;
mod service_trial;
mod session;
mod target;
mod thread;
mod tls;
mod worker;

pub use ready::ReadyWait;

use provoke_model::{
    LoadObservation, LoadPlan, LoadStage, ReadyCondition, RequestResult, ServiceOwner,
};
use provoke_sys::process;
use provoke_words::diagnostic::{Diagnostic, ErrorCategory};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// Placeholders such as `{slot}`, and their values.
pub type LoadPlaceholders = Vec<(&'static str, String)>;

/// Parameters of one trial of a service under load.
pub struct ServiceTrial {
    /// The planned load.
    pub load: Arc<LoadPlan>,
    /// Number of clients of this variant, if it has one.
    pub clients: Option<u32>,
    /// Seed of the trial.
    pub seed: u64,
    /// Values for the placeholders in the target, paths and file names.
    pub fill: LoadPlaceholders,
    /// First processes of the service; empty if provoke did not start the service.
    pub pids: Vec<i32>,
    /// The service runs in a container, which these processes only represent.
    pub contained: bool,
    /// Start time of the service.
    pub started: Instant,
    /// Set when a line of the output matched [`ReadyCondition::Log`].
    pub said: watch::Receiver<bool>,
    /// Set when the service or one of its processes has crashed.
    pub death: watch::Receiver<Option<Instant>>,
    /// Set when provoke shuts down.
    pub halt: watch::Receiver<bool>,
    /// Folder for evidence of the trial; created on demand.
    pub folder: PathBuf,
    /// State for the live display.
    pub live: Arc<LoadProgress>,
}

/// Observable state of a trial while it is driven.
#[derive(Debug, Default)]
pub struct LoadProgress {
    /// Requests that were started.
    pub sent: AtomicU64,
    /// Complete responses.
    pub served: AtomicU64,
    /// Index of the current [`provoke_model::LoadStage`].
    pub stage: AtomicU8,
    /// Requests without a response at present.
    pub in_flight: AtomicU64,
    /// Mean latency of the last good responses, in microseconds.
    pub latency_us: AtomicU64,
    /// Results of requests that did not succeed.
    pub ends: Mutex<BTreeMap<RequestResult, u64>>,
    /// What the trial waits for before its load.
    pub readiness: Mutex<Option<ReadyWait>>,
}

impl LoadProgress {
    /// Describes what the trial waits for, if its service takes long to become ready.
    pub fn describe_wait(&self) -> Option<String> {
        if self.current_stage() != LoadStage::Starting {
            return None;
        }
        let readiness = self.readiness.lock();
        let readiness = readiness.unwrap_or_else(PoisonError::into_inner);
        let readiness = readiness.as_ref().filter(|wait| wait.is_long());
        readiness.map(ReadyWait::describe_progress)
    }

    /// Returns the current stage of the trial.
    pub fn current_stage(&self) -> LoadStage {
        let stage = self.stage.load(Ordering::Relaxed);
        let stages = [
            LoadStage::Starting,
            LoadStage::WarmUp,
            LoadStage::Loading,
            LoadStage::Settling,
        ];
        let current = stages
            .into_iter()
            .find(|candidate| *candidate as u8 == stage);
        current.unwrap_or(LoadStage::Over)
    }

    /// Returns the errors of the service or of provoke while the service is alive, the most
    /// frequent first.
    pub fn frequent_errors(&self) -> Vec<(String, u64)> {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let mut errors: Vec<(String, u64)> = ends
            .iter()
            .filter(|(result, count)| **count > 0 && result.is_trouble())
            .map(|(result, count)| (result.to_string(), *count))
            .collect();
        errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        errors
    }
}

/// Error of the planned load.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The target's base URL is invalid.
    #[error("invalid target URL `{base}`: {why}")]
    Base {
        /// Base URL as given.
        base: String,
        /// Reason.
        why: &'static str,
    },
    /// A certificate, a key or a name is unusable.
    #[error("cannot set up TLS: {what}: {why}")]
    Tls {
        /// The unusable object.
        what: String,
        /// Reason.
        why: String,
    },
    /// The host name has no address.
    #[error("cannot resolve `{host}`: {said}")]
    Resolve {
        /// Host name.
        host: String,
        /// Message of the resolver.
        said: String,
    },
    /// The target is not on this machine.
    #[error("`{host}` ({address}) is not this machine")]
    Elsewhere {
        /// Host name.
        host: String,
        /// Address of the host.
        address: std::net::IpAddr,
    },
    /// A regular expression is invalid.
    #[error("`{text}` is not a regular expression: {error}")]
    Regex {
        /// Expression as given.
        text: String,
        /// Reason.
        error: Box<regex::Error>,
    },
    /// A digest is invalid.
    #[error("`{0}` is not a SHA-256 digest of 64 hexadecimal digits")]
    Digest(String),
    /// A JSON pointer is invalid.
    #[error("`{0}` is not a JSON pointer such as `/items/0/name`")]
    Pointer(String),
    /// There are too few or too many kinds of requests.
    #[error("a load has 1 to 256 kinds of requests, not {0}")]
    Kinds(usize),
    /// All weights are zero.
    #[error("all weights are 0, so no request would be sent")]
    Weights,
    /// A request contains invalid text.
    #[error("request `{kind}`: invalid {what} `{text}`")]
    Head {
        /// Kind of the request.
        kind: String,
        /// Invalid part of the request.
        what: String,
        /// Text as given.
        text: String,
    },
    /// The named process does not exist.
    #[error("cannot attach to process {0}: it does not exist")]
    NoProcess(i32),
    /// The path of the readiness check is invalid.
    #[error("`ready`: the path `{0}` contains a space or a control character")]
    Ready(String),
    /// There are too few or too many files.
    #[error("bodies are chosen from 1 to 16 million files, not {0}")]
    Files(usize),
    /// A file cannot be read.
    #[error("cannot read `{path}`: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        error: io::Error,
    },
    /// A request file does not contain an HTTP request.
    #[error(
        "`{0}` is not an HTTP request: a line such as `GET / HTTP/1.1`, headers, and an empty line"
    )]
    Raw(PathBuf),
    /// The body of a request file has a framing that exists only in HTTP/1.1.
    #[error("`{0}` cannot be sent over HTTP/2: {1}")]
    Framed(PathBuf, &'static str),
    /// A template uses an environment variable that is not set.
    #[error("`{{env.{0}}}`: this environment variable is not set")]
    Environment(String),
    /// Rows cannot be read.
    #[error("cannot read the rows of `{path}`: {error}")]
    Rows {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        error: csv::Error,
    },
    /// The file has no rows.
    #[error("`{0}` has no rows below its header line")]
    NoRows(PathBuf),
    /// Two columns have the same name.
    #[error("`{path}` has two columns named `{name}`")]
    Twice {
        /// Path of the file.
        path: PathBuf,
        /// Name of the column.
        name: String,
    },
    /// A template uses a column that does not exist.
    #[error("there is no column `{name}`: {}", if known.is_empty() {
        String::from("`rows` is not given")
    } else {
        format!("the columns are {}", known.join(", "))
    })]
    Column {
        /// Name of the column.
        name: String,
        /// Existing columns.
        known: Vec<String>,
    },
}

impl From<LoadError> for Diagnostic {
    fn from(error: LoadError) -> Self {
        let diagnostic = Self::of_error(ErrorCategory::Usage, &error);
        match error {
            LoadError::Elsewhere { host, .. } => diagnostic.with_hint(format!(
                "load on a machine that you do not own is an attack; if you own it, add --i-own-this-target {host}"
            )),
            LoadError::NoProcess(_) => diagnostic
                .with_hint("--attach listener finds the process that listens at the URL"),
            _ => diagnostic,
        }
    }
}

/// Drives a trial of a service to its end or to the first error, which is part of the result.
pub async fn drive_service(mut life: ServiceTrial) -> LoadObservation {
    service_trial::run_service(&mut life).await
}

/// Puts load on a service that runs already, and returns the results.
///
/// Evidence of failed requests is written to `folder`, which is created on demand.
pub async fn load_running_service(
    load: LoadPlan,
    seed: u64,
    folder: PathBuf,
) -> Result<LoadObservation, LoadError> {
    check_target(&load, &[])?;
    // Nobody watches the service, so nothing is ever sent.
    let has_said = watch::Sender::new(false);
    let death = watch::Sender::new(None);
    let halt = watch::Sender::new(false);
    let observation = drive_service(ServiceTrial {
        load: Arc::new(load),
        clients: None,
        seed,
        fill: Vec::new(),
        pids: Vec::new(),
        contained: false,
        started: Instant::now(),
        said: has_said.subscribe(),
        death: death.subscribe(),
        halt: halt.subscribe(),
        folder,
        live: Arc::default(),
    });
    Ok(observation.await)
}

/// Returns the name of a process that responds at the target before the service is started.
pub async fn describe_listener(load: &LoadPlan, fill: &[(&'static str, String)]) -> Option<String> {
    let fill = fill.to_vec();
    let prepared = service_trial::PreparedLoad::new(load, &fill).ok()?;
    let dialer = prepared.make_dialer(load, &fill).ok()?;
    let probe = prepared.make_probe(load, &fill, dialer);
    ready::describe_listener(load, &prepared.target, &probe).await
}

/// Returns the process that listens at the target; of several processes, their common ancestor.
pub async fn find_owner(load: &LoadPlan, fill: &[(&'static str, String)]) -> Option<i32> {
    let target = target::Target::new(&load.target, &fill.to_vec()).ok()?;
    let lookup = tokio::task::spawn_blocking(move || ready::find_owner(&target));
    lookup.await.ok()?
}

/// Returns whether any process accepts connections at the target.
pub async fn accepts_connections(load: &LoadPlan, fill: &[(&'static str, String)]) -> bool {
    let fill = fill.to_vec();
    let Ok(prepared) = service_trial::PreparedLoad::new(load, &fill) else {
        return false;
    };
    match prepared.make_dialer(load, &fill) {
        Ok(dialer) => prepared
            .make_probe(load, &fill, dialer)
            .connect_only()
            .await
            .is_ok(),
        Err(_) => false,
    }
}

/// Checks everything that can be checked before the service starts.
///
/// The target must be on this machine, unless the user named its host.
pub fn check_target(load: &LoadPlan, fill: &[(&'static str, String)]) -> Result<(), LoadError> {
    let fill = fill.to_vec();
    let prepared = service_trial::PreparedLoad::new(load, &fill)?;
    prepared.make_tls(load, &fill)?;
    if let ServiceOwner::Process(pid) = load.owner
        && process::process_state(pid).is_none_or(|(state, _)| state == 'Z')
    {
        return Err(LoadError::NoProcess(pid));
    }
    if let ReadyCondition::Log(text) = &load.ready {
        regex::Regex::new(text).map_err(|error| LoadError::Regex {
            text: text.clone(),
            error: Box::new(error),
        })?;
    }
    let foreign = prepared
        .target
        .foreign_address()
        .map_err(|error| LoadError::Resolve {
            host: prepared.target.host.clone(),
            said: error,
        })?;
    let owned = load.target.owned.as_deref() == Some(prepared.target.host.as_str());
    match foreign {
        Some(address) if !owned => Err(LoadError::Elsewhere {
            host: prepared.target.host.clone(),
            address,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::{HttpVersion, LoadLimit, RequestPlan};

    /// Returns a load with one request.
    pub(super) fn load(base: &str) -> LoadPlan {
        LoadPlan {
            owner: ServiceOwner::Provoke,
            requests: vec![request("a", 1)],
            ..LoadPlan::from_url(base, 1, LoadLimit::Requests(1))
        }
    }

    pub(super) fn request(name: &str, weight: u32) -> RequestPlan {
        RequestPlan {
            name: name.to_owned(),
            weight,
            method: String::from("GET"),
            path: String::from("/"),
            ..RequestPlan::default()
        }
    }

    #[test]
    fn a_load_is_checked_before_anything_runs() {
        let good = load("http://127.0.0.1:1");
        assert!(check_target(&good, &[]).is_ok());
        let error_of = |load: &LoadPlan| check_target(load, &[]).unwrap_err().to_string();
        let mut bad = good.clone();
        bad.ready = ReadyCondition::Log("(".into());
        assert!(error_of(&bad).contains("not a regular expression"));
        let bad = load("http://192.0.2.7");
        assert_eq!(
            error_of(&bad),
            "`192.0.2.7` (192.0.2.7) is not this machine"
        );
        let mut own = bad;
        own.target.owned = Some("192.0.2.7".to_owned());
        assert!(check_target(&own, &[]).is_ok());
        for path in ["/a b", "/a\r\nX: y", "/{slot}"] {
            let mut bad = good.clone();
            bad.ready = ReadyCondition::Http {
                path: path.into(),
                status: None,
            };
            let error = check_target(&bad, &[("{slot}", String::from(" "))]).unwrap_err();
            assert!(error.to_string().contains("contains a space"), "{error}");
        }
        let mut bad = good.clone();
        bad.owner = ServiceOwner::Process(i32::MAX);
        let nobody = format!("cannot attach to process {}: it does not exist", i32::MAX);
        assert_eq!(error_of(&bad), nobody);
        let mut bad = good.clone();
        bad.requests[0].path = "/{row.id}".into();
        assert_eq!(
            error_of(&bad),
            "there is no column `id`: `rows` is not given"
        );
        let mut bad = good;
        bad.requests[0].weight = 0;
        assert!(error_of(&bad).contains("weights"));
    }

    #[test]
    fn requests_that_only_http1_can_express_are_refused_for_http2() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("request");
        let mut load = load("http://127.0.0.1:1");
        load.requests[0].raw = Some(file.as_path().into());
        for (headers, words) in [
            ("Content-Length: 3\r\n", None),
            ("", None),
            ("Content-Length: 4\r\n", Some("length of its body")),
            ("Transfer-Encoding: chunked\r\n", Some("chunked")),
        ] {
            std::fs::write(&file, format!("POST / HTTP/1.1\r\n{headers}\r\nabc")).unwrap();
            load.target.http = HttpVersion::One;
            assert!(check_target(&load, &[]).is_ok());
            load.target.http = HttpVersion::TwoPrior;
            let checked = check_target(&load, &[]).map_err(|error| error.to_string());
            match words {
                None => assert!(checked.is_ok(), "{checked:?}"),
                Some(words) => assert!(checked.unwrap_err().contains(words)),
            }
        }
    }
}
