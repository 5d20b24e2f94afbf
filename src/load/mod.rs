//! Puts HTTP load on a service, and records the result of each request.
//!
//! [`drive`] goes through one life: it waits until the service is ready, warms it up, sends the
//! load, and leaves it alone for a moment. Whether it died is not decided here; who watches its
//! processes says so, and then no client sends anything any more, what was in flight is written
//! down, and requests that failed around that moment are booked to the death.
//!
//! The HTTP/1.1 client is our own because others do not report the number of an error and the phase in
//! which it came, a kept connection that was closed just then, and the bytes as they were sent.
//! `docs/design/http1.md` has the reasons and the costs.

mod acks;
mod alarm;
mod bundle;
mod check;
mod client;
mod connect;
mod event;
mod http2;
mod life;
mod long;
mod open;
mod phase;
mod probe;
mod ready;
mod record;
mod request;
mod response;
mod target;
mod tls;
mod worker;

use crate::model::{Ended, Load, LoadSeen, Owner, Ready, Stage};
use crate::sys::process;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// Marks such as `{slot}`, and what they stand for.
pub type Fill = Vec<(&'static str, String)>;

/// What a life is driven with.
pub struct Life {
    /// What is asked for.
    pub load: Arc<Load>,
    /// A variant's own number of clients.
    pub clients: Option<u32>,
    /// The trial's.
    pub seed: u64,
    /// Filled into the target, paths and names of files.
    pub fill: Fill,
    /// The service's first processes; none where somebody else started it.
    pub pids: Vec<i32>,
    /// These only stand for it: it runs in a container.
    pub contained: bool,
    /// When it was started.
    pub started: Instant,
    /// A line of its output matched [`Ready::Log`].
    pub said: watch::Receiver<bool>,
    /// It, or a process of it, died.
    pub death: watch::Receiver<Option<Instant>>,
    /// Provoke wants to end.
    pub halt: watch::Receiver<bool>,
    /// Where evidence of the trial goes; made when it is needed.
    pub folder: PathBuf,
    /// For whoever watches.
    pub live: Arc<Live>,
}

/// What can be seen of a life while it is driven.
#[derive(Debug, Default)]
pub struct Live {
    /// Requests that were begun.
    pub sent: AtomicU64,
    /// Whole answers.
    pub served: AtomicU64,
    /// A [`crate::model::Stage`], as a number in its order.
    pub stage: AtomicU8,
    /// Requests without an answer at present.
    pub in_flight: AtomicU64,
    /// Mean of the last good answers, in microseconds.
    pub latency_us: AtomicU64,
    /// What became of requests that did not end well.
    pub ends: Mutex<BTreeMap<Ended, u64>>,
}

impl Live {
    /// Returns how far the life is.
    pub fn stage(&self) -> Stage {
        let stage = self.stage.load(Ordering::Relaxed);
        let all = [
            Stage::Starting,
            Stage::WarmUp,
            Stage::Loading,
            Stage::Settling,
        ];
        let found = all.into_iter().find(|one| *one as u8 == stage);
        found.unwrap_or(Stage::Over)
    }

    /// Returns what is wrong with the service or with us, though it lives; the most frequent first.
    pub fn errors(&self) -> Vec<(String, u64)> {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let errors = ends
            .iter()
            .filter(|(ended, count)| **count > 0 && ended.is_trouble());
        let mut errors: Vec<(String, u64)> = errors
            .map(|(ended, count)| (ended.to_string(), *count))
            .collect();
        errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        errors
    }
}

/// What is wrong with what is asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The target's base is no such thing.
    #[error("invalid target URL `{base}`: {why}")]
    Base {
        /// As given.
        base: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A certificate, a key or a name is of no use.
    #[error("cannot set up TLS: {what}: {why}")]
    Tls {
        /// Which.
        what: String,
        /// Why.
        why: String,
    },
    /// Its name has no address.
    #[error("cannot resolve `{host}`: {said}")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        said: String,
    },
    /// It is not on this machine.
    #[error("`{host}` ({address}) is not this machine")]
    Elsewhere {
        /// Its name.
        host: String,
        /// Its address.
        address: std::net::IpAddr,
    },
    /// A regular expression is none.
    #[error("`{text}` is not a regular expression: {error}")]
    Regex {
        /// As given.
        text: String,
        /// Why.
        error: Box<regex::Error>,
    },
    /// A digest is none.
    #[error("`{0}` is not a SHA-256 digest of 64 hexadecimal digits")]
    Digest(String),
    /// A place in JSON is none.
    #[error("`{0}` is not a JSON pointer such as `/items/0/name`")]
    Pointer(String),
    /// There are too few or too many kinds of requests.
    #[error("a load has 1 to 256 kinds of requests, not {0}")]
    Kinds(usize),
    /// No kind would ever be sent.
    #[error("all weights are 0, so no request would be sent")]
    Weights,
    /// A request could not be written.
    #[error("request `{kind}`: invalid {what} `{text}`")]
    Head {
        /// Its name.
        kind: String,
        /// Which part.
        what: String,
        /// As given.
        text: String,
    },
    /// The process that was named is not there.
    #[error("cannot attach to process {0}: it does not exist")]
    NoProcess(i32),
    /// It could not be asked whether it is ready.
    #[error("`ready`: the path `{0}` contains a space or a control character")]
    Ready(String),
    /// There are too few or too many files.
    #[error("bodies are chosen from 1 to 16 million files, not {0}")]
    Files(usize),
    /// A file cannot be read.
    #[error("cannot read `{path}`: {error}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file was to hold the bytes of a request.
    #[error(
        "`{0}` is not an HTTP request: a line such as `GET / HTTP/1.1`, headers, and an empty line"
    )]
    Raw(PathBuf),
    /// Its body is framed in a way of HTTP/1.1.
    #[error("`{0}` cannot be sent over HTTP/2: {1}")]
    Framed(PathBuf, &'static str),
    /// A template wants a variable that is not set.
    #[error("`{{env.{0}}}`: this environment variable is not set")]
    Environment(String),
    /// Rows cannot be read.
    #[error("cannot read the rows of `{path}`: {error}")]
    Rows {
        /// The file.
        path: PathBuf,
        /// Why.
        error: csv::Error,
    },
    /// There are none.
    #[error("`{0}` has no rows below its header line")]
    NoRows(PathBuf),
    /// Two columns have the same name.
    #[error("`{path}` has two columns named `{name}`")]
    Twice {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A template wants a column that is not there.
    #[error("there is no column `{name}`: {}", if known.is_empty() {
        String::from("`rows` is not given")
    } else {
        format!("the columns are {}", known.join(", "))
    })]
    Column {
        /// Its name.
        name: String,
        /// Those that exist.
        known: Vec<String>,
    },
}

/// Drives a life of a service, to its end or as far as it comes. Cannot fail: what goes wrong is
/// part of what was seen.
pub async fn drive(mut life: Life) -> LoadSeen {
    life::live(&mut life).await
}

/// Says who answers at the target before the service was started.
pub async fn taken(load: &Load, fill: &[(&'static str, String)]) -> Option<String> {
    let fill = fill.to_vec();
    let made = life::Made::new(load, &fill).ok()?;
    let dialer = made.dialer(load, &fill).ok()?;
    let probe = made.probe(load, &fill, dialer);
    ready::taken(load, &made.target, &probe).await
}

/// Returns the process that listens at the target; of several, the one that the others came from.
pub async fn owner(load: &Load, fill: &[(&'static str, String)]) -> Option<i32> {
    let target = target::Target::new(&load.target, &fill.to_vec()).ok()?;
    let found = tokio::task::spawn_blocking(move || ready::owner(&target));
    found.await.ok()?
}

/// Does anybody take connections at the target?
pub async fn answers(load: &Load, fill: &[(&'static str, String)]) -> bool {
    let fill = fill.to_vec();
    let Ok(made) = life::Made::new(load, &fill) else {
        return false;
    };
    match made.dialer(load, &fill) {
        Ok(dialer) => made.probe(load, &fill, dialer).connect().await.is_ok(),
        Err(_) => false,
    }
}

/// Checks what can be checked before anything runs. The target must be on this machine, unless
/// its host is the user's own.
pub fn check(load: &Load, fill: &[(&'static str, String)]) -> Result<(), Error> {
    let fill = fill.to_vec();
    let made = life::Made::new(load, &fill)?;
    made.tls(load, &fill)?;
    if let Owner::Process(pid) = load.owner
        && process::state(pid).is_none_or(|(state, _)| state == 'Z')
    {
        return Err(Error::NoProcess(pid));
    }
    if let Ready::Log(text) = &load.ready {
        regex::Regex::new(text).map_err(|error| Error::Regex {
            text: text.clone(),
            error: Box::new(error),
        })?;
    }
    let found = made.target.elsewhere().map_err(|said| Error::Resolve {
        host: made.target.host.clone(),
        said,
    })?;
    let owned = load.target.owned.as_deref() == Some(made.target.host.as_str());
    match found.filter(|_| !owned) {
        Some(address) => Err(Error::Elsewhere {
            host: made.target.host.clone(),
            address,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Amount, Http, Pace, RequestPlan, Target, WarmUp};
    use std::time::Duration;

    /// A load with one kind of request.
    pub(super) fn load(base: &str) -> Load {
        Load {
            owner: crate::model::Owner::Provoke,
            target: Target {
                base: base.to_owned(),
                connect_limit: Duration::from_secs(1),
                request_limit: Duration::from_secs(10),
                ..Target::default()
            },
            requests: vec![request("a", 1)],
            rows: None,
            pace: Pace::Closed { clients: 1 },
            amount: Amount::Requests(1),
            warm_up: WarmUp::default(),
            think: Duration::ZERO,
            spread: Duration::ZERO,
            settle: Duration::ZERO,
            ready: Ready::Connects,
            ready_limit: Duration::from_secs(10),
            hang_after: Duration::from_secs(30),
            log_all: false,
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
        assert!(check(&good, &[]).is_ok());
        let said = |load: &Load| check(load, &[]).unwrap_err().to_string();
        let mut bad = good.clone();
        bad.ready = Ready::Log("(".into());
        assert!(said(&bad).contains("not a regular expression"));
        let bad = load("http://192.0.2.7");
        assert_eq!(said(&bad), "`192.0.2.7` (192.0.2.7) is not this machine");
        let mut own = bad;
        own.target.owned = Some("192.0.2.7".to_owned());
        assert!(check(&own, &[]).is_ok());
        for path in ["/a b", "/a\r\nX: y", "/{slot}"] {
            let mut bad = good.clone();
            bad.ready = Ready::Http {
                path: path.into(),
                status: None,
            };
            let error = check(&bad, &[("{slot}", String::from(" "))]).unwrap_err();
            assert!(error.to_string().contains("contains a space"), "{error}");
        }
        let mut bad = good.clone();
        bad.owner = Owner::Process(i32::MAX);
        let nobody = format!("cannot attach to process {}: it does not exist", i32::MAX);
        assert_eq!(said(&bad), nobody);
        let mut bad = good.clone();
        bad.requests[0].path = "/{row.id}".into();
        assert_eq!(said(&bad), "there is no column `id`: `rows` is not given");
        let mut bad = good;
        bad.requests[0].weight = 0;
        assert!(said(&bad).contains("weights"));
    }

    #[test]
    fn what_only_one_http_can_say_is_not_sent_by_the_other() {
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
            load.target.http = Http::One;
            assert!(check(&load, &[]).is_ok());
            load.target.http = Http::TwoPrior;
            let said = check(&load, &[]).map_err(|error| error.to_string());
            match words {
                None => assert!(said.is_ok(), "{said:?}"),
                Some(words) => assert!(said.unwrap_err().contains(words)),
            }
        }
    }
}
