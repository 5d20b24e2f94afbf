//! HTTP load: its settings, and the observations of the clients.

use super::{Text, TotalUsage, is_default, micros};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// HTTP load on a service. In a trial the service is started, becomes ready, is warmed up, put under load and left idle
/// for a moment; then its health is checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadPlan {
    /// Who starts the service.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: ServiceOwner,
    /// Target of the requests.
    pub target: TargetPlan,
    /// The kinds of requests; at least one.
    pub requests: Vec<RequestPlan>,
    /// A CSV file with a header line; templates may use its columns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rows: Option<Text>,
    /// How requests are paced.
    pub pace: RequestPace,
    /// When the load of a trial ends.
    pub amount: LoadLimit,
    /// Requests before the load, which are not counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warm_up: WarmUp,
    /// Pause of a client between a response and its next request.
    #[serde(default, skip_serializing_if = "is_default", with = "micros")]
    pub think: Duration,
    /// Time over which the starts of the clients are spread; zero starts all at once.
    #[serde(default, skip_serializing_if = "is_default", with = "micros")]
    pub spread: Duration,
    /// Idle time after the load, before the service is called healthy.
    #[serde(with = "micros")]
    #[serde(rename = "settle")]
    pub quiet_time: Duration,
    /// When the service is ready.
    pub ready: ReadyCondition,
    /// Time limit for becoming ready.
    #[serde(with = "micros")]
    pub ready_limit: Duration,
    /// Time without any response after which the service is hung.
    #[serde(with = "micros")]
    pub hang_after: Duration,
    /// Whether every request is logged to a file, not only the last ones before a crash.
    #[serde(default, skip_serializing_if = "is_default")]
    pub log_all: bool,
}

impl LoadPlan {
    /// Creates a load of `GET /` by this number of clients, on a service that runs already. Its time limits are not the
    /// defaults of a scenario.
    pub fn from_url(base: &str, clients: u32, amount: LoadLimit) -> Self {
        Self {
            owner: ServiceOwner::Somebody,
            target: TargetPlan {
                base: base.to_owned(),
                connect_limit: Duration::from_secs(10),
                request_limit: Duration::from_secs(60),
                ..TargetPlan::default()
            },
            requests: vec![RequestPlan {
                name: "get".to_owned(),
                weight: 1,
                method: "GET".to_owned(),
                path: "/".to_owned(),
                ..RequestPlan::default()
            }],
            rows: None,
            pace: RequestPace::Closed { clients },
            amount,
            warm_up: WarmUp::default(),
            think: Duration::ZERO,
            spread: Duration::ZERO,
            quiet_time: Duration::ZERO,
            ready: ReadyCondition::Connects,
            ready_limit: Duration::from_secs(60),
            hang_after: Duration::from_secs(60),
            log_all: false,
        }
    }
}

/// Who starts and restarts the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceOwner {
    /// provoke: the service is an actor of the variant.
    #[default]
    Provoke,
    /// Another program; the service is the process that listens at the target.
    Somebody,
    /// Another program; the service began as this process.
    Process(i32),
}

/// Target of the requests, and how to connect to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetPlan {
    /// `http://` or `https://`, host and port; the rest is a prefix of the path of each request. `{slot}` and `{trial}`
    /// are filled in.
    pub base: String,
    /// A Unix socket, instead of host and port.
    #[serde(skip_serializing_if = "is_default")]
    pub unix: Option<Text>,
    /// A remote host that the user confirmed to own.
    #[serde(skip_serializing_if = "is_default")]
    pub owned: Option<String>,
    /// HTTP version.
    #[serde(skip_serializing_if = "is_default")]
    pub http: HttpVersion,
    /// How long connections are kept.
    #[serde(skip_serializing_if = "is_default")]
    pub connections: ConnectionReuse,
    /// Time limit for connecting.
    #[serde(with = "micros")]
    pub connect_limit: Duration,
    /// Time limit for a complete request.
    #[serde(with = "micros")]
    pub request_limit: Duration,
    /// Whether the name is resolved for each connection, not once for each trial.
    #[serde(skip_serializing_if = "is_default")]
    pub resolve_each: bool,
    /// A file with certificates that are trusted in addition to the certificates of the machine.
    #[serde(skip_serializing_if = "is_default")]
    pub ca: Option<Text>,
    /// Whether any certificate is accepted.
    #[serde(skip_serializing_if = "is_default")]
    pub insecure: bool,
    /// Files with a client certificate and its key.
    #[serde(skip_serializing_if = "is_default")]
    pub identity: Option<(Text, Text)>,
}

/// Which HTTP is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum HttpVersion {
    /// One request after another on a connection.
    #[default]
    #[serde(rename = "1.1")]
    One,
    /// Parallel streams on one connection, agreed on in the TLS handshake.
    #[serde(rename = "2")]
    Two,
    /// The same without negotiation.
    #[serde(rename = "2-prior-knowledge")]
    TwoPrior,
}

/// How long connections are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionReuse {
    /// Until the server closes them.
    #[default]
    Kept,
    /// For this number of requests; 1 gives each request its own connection.
    For(u32),
}

/// A kind of request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestPlan {
    /// Its name in reports.
    pub name: String,
    /// Relative frequency.
    pub weight: u32,
    /// HTTP method.
    pub method: String,
    /// Path after the target's base; a template.
    pub path: String,
    /// Names and values of headers; templates.
    #[serde(skip_serializing_if = "is_default")]
    pub headers: Vec<(String, String)>,
    /// Body of the request.
    #[serde(skip_serializing_if = "is_default")]
    pub body: RequestBody,
    /// A file with the bytes of the whole request, which are sent as they are, instead of all other fields.
    #[serde(skip_serializing_if = "is_default")]
    pub raw: Option<Text>,
    /// Requirements on the response.
    #[serde(skip_serializing_if = "is_default")]
    pub expect: ResponseRules,
}

/// Body of a request. Templates may contain `{row.NAME}`, `{seq}`, `{rand}`, `{env.NAME}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestBody {
    /// No body.
    #[default]
    None,
    /// A template.
    Text(String),
    /// One of these files.
    Files {
        /// The files, in order.
        files: Vec<Text>,
        /// How the next file is chosen.
        pick: FilePick,
    },
    /// A column of the rows.
    Column(String),
}

/// How the next of several is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FilePick {
    /// Any, by the seed.
    #[default]
    Random,
    /// The next in order, from the first again after the last.
    Cycle,
    /// Each once per trial; the load ends after the last.
    Once,
}

/// Requirements on a response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResponseRules {
    /// Accepted status codes; empty accepts everything below 400.
    #[serde(skip_serializing_if = "is_default")]
    pub status: Vec<u16>,
    /// Headers, and the patterns of their values.
    #[serde(skip_serializing_if = "is_default")]
    pub headers: Vec<(String, String)>,
    /// A regular expression that the body must match.
    #[serde(skip_serializing_if = "is_default")]
    pub body_regex: Option<String>,
    /// SHA-256 digest of the body, in hexadecimal.
    #[serde(skip_serializing_if = "is_default")]
    pub body_sha256: Option<String>,
    /// JSON pointers into the body (`/a/0/b`), with the expected values; `None` accepts any value.
    #[serde(skip_serializing_if = "is_default")]
    pub json: Vec<(String, Option<Text>)>,
    /// Maximum length of the body.
    #[serde(skip_serializing_if = "is_default")]
    pub max_bytes: Option<u64>,
}

/// How requests are paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestPace {
    /// A fixed number of clients, each of which waits for its response. A variant may have another number.
    Closed {
        /// Number of clients.
        clients: u32,
    },
    /// A fixed request rate, independent of earlier responses.
    Open {
        /// In thousandths of a request per second.
        millihertz: u64,
        /// Number of connections; requests wait for a free one, and the wait counts as latency.
        connections: u32,
    },
}

/// When the load of a trial ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadLimit {
    /// After this number of requests.
    Requests(u64),
    /// After this time.
    Time(#[serde(with = "micros")] Duration),
}

/// Requests before the load, which are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Number of requests.
    pub requests: u64,
    /// Number of clients.
    pub clients: u32,
}

/// When a service is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadyCondition {
    /// When it accepts connections.
    Connects,
    /// When it responds to this path with this status.
    Http {
        /// The path.
        path: String,
        /// The status; `None` accepts everything below 500.
        status: Option<u16>,
    },
    /// When a line of its output matches this.
    Log(String),
    /// This time after its start.
    After(#[serde(with = "micros")] Duration),
}

/// Observations of the clients in a trial of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadObservation {
    /// The last stage of the trial.
    pub stage: LoadStage,
    /// Why the trial ended before its last stage, if the service did not crash.
    #[serde(skip_serializing_if = "is_default")]
    pub trouble: Option<String>,
    /// Seed of the sent requests.
    #[serde(skip_serializing_if = "is_default")]
    pub seed: u64,
    /// Number of clients, or of connections; 0 if the load has no requests.
    pub clients: u32,
    /// Time from the start of the service until it was ready.
    #[serde(rename = "ready_us", with = "micros")]
    pub ready: Duration,
    /// Time from the first request of the load to the end of the last, or to the crash.
    #[serde(rename = "load_us", with = "micros")]
    pub elapsed: Duration,
    /// Requests sent, without the warm-up.
    pub sent: u64,
    /// Complete responses, whatever their content.
    pub served: u64,
    /// Complete responses during the warm-up.
    #[serde(skip_serializing_if = "is_default")]
    pub warmed: u64,
    /// Number of requests by result.
    #[serde(skip_serializing_if = "is_default", with = "counts")]
    pub ends: BTreeMap<RequestResult, u64>,
    /// Requests sent by kind, in the order of the plan.
    #[serde(skip_serializing_if = "is_default")]
    pub kinds: Vec<u64>,
    /// Bytes of responses, headers included.
    #[serde(skip_serializing_if = "is_default")]
    pub bytes: u64,
    /// Connections opened.
    #[serde(skip_serializing_if = "is_default")]
    pub connections: u64,
    /// Latencies of good responses, from the time at which the request was due.
    #[serde(skip_serializing_if = "is_default")]
    pub latency: Latencies,
    /// Latencies from the time at which the request was sent; only if that differs from the due time.
    #[serde(skip_serializing_if = "is_default")]
    pub from_send: Latencies,
    /// Delays of provoke itself in sending due requests.
    #[serde(skip_serializing_if = "is_default")]
    pub late: Latencies,
    /// Maximum number of requests that waited for a connection.
    #[serde(skip_serializing_if = "is_default")]
    pub queue: u64,
    /// Connections that overflowed a listen queue during the load, on the whole machine.
    #[serde(skip_serializing_if = "is_default")]
    pub overflows: u64,
    /// Size of the service during the load, with the time in milliseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub sizes: Vec<(u64, TotalUsage)>,
    /// Requests in flight by kind, at an instant of the load drawn from the seed, if the service did not crash.
    #[serde(skip_serializing_if = "is_default")]
    pub at_random: Vec<u64>,
    /// Requests in flight at the crash or hang.
    #[serde(skip_serializing_if = "is_default")]
    pub death: Option<RequestsAtFailure>,
    /// Time without a response when the user stopped the trial under load.
    #[serde(
        rename = "silent_us",
        skip_serializing_if = "is_default",
        with = "micros"
    )]
    pub silent: Duration,
}

/// Time without a response after which a service seems to hang.
const SILENCE: Duration = Duration::from_secs(2);

impl LoadObservation {
    /// Returns whether the service seemed to hang when the user stopped the trial: it was not ready, or did not respond.
    pub fn seems_hung(&self) -> bool {
        self.stage == LoadStage::Starting || self.silent >= SILENCE
    }

    /// Returns what the trial waited for when it was stopped before the service was ready.
    pub fn stopped_wait(&self) -> Option<&str> {
        let is_starting = self.stage == LoadStage::Starting;
        self.trouble.as_deref().filter(|_| is_starting)
    }

    /// Returns the number of requests whose result shows a fault of the running service.
    pub fn error_count(&self) -> u64 {
        let errors = self.ends.iter().filter(|(result, _)| result.is_error());
        errors.map(|(_, count)| count).sum()
    }

    /// Returns the number of responses before the crash.
    pub fn answered_until(&self, death: &RequestsAtFailure) -> u64 {
        (self.served + self.warmed).saturating_sub(death.answered_after)
    }
}

/// Last stage of a trial of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoadStage {
    /// Waiting until the service is ready.
    #[default]
    Starting,
    /// Warm-up.
    WarmUp,
    /// Under load.
    Loading,
    /// Idle after the load.
    Settling,
    /// All stages completed.
    Over,
}

/// The state of requests when a service crashed or hung.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestsAtFailure {
    /// Whether it hung instead of crashing: it stopped responding.
    #[serde(skip_serializing_if = "is_default")]
    pub hung: bool,
    /// Whether it hung because it was stopped by SIGSTOP or its terminal.
    #[serde(skip_serializing_if = "is_default")]
    pub stopped: bool,
    /// Requests without a complete response.
    pub in_flight: u64,
    /// Number of these whose response had begun.
    #[serde(skip_serializing_if = "is_default")]
    pub answering: u64,
    /// Requests in flight by kind, in the order of the plan.
    pub kinds: Vec<u64>,
    /// Time between sending and the crash, in microseconds, of the latest and the first request in flight.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ages_us: Option<[u64; 2]>,
    /// Responses after the crash from a replacement process, before the crash was noticed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub answered_after: u64,
}

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestResult {
    /// Response as expected.
    Ok,
    /// Unexpected status.
    Status(u16),
    /// Expected status, but this check failed.
    Check(String),
    /// The connection was refused.
    Refused,
    /// The connection broke: errno, and the phase.
    Reset(i32, RequestPhase),
    /// The connection was closed before the end of the response, in this phase.
    ClosedEarly(RequestPhase),
    /// A kept connection was closed just when it was reused; the request was sent again on another.
    ClosedIdle,
    /// A timeout in this phase.
    Timeout(RequestPhase),
    /// The name could not be resolved: message of the resolver.
    Dns(String),
    /// The target is unreachable: errno.
    Unreachable(i32),
    /// The TLS handshake failed: reason.
    Tls(String),
    /// The response is not valid HTTP: reason.
    Protocol(String),
    /// A fault of provoke or its machine, never of the service: errno.
    Local(i32),
    /// The request was due, but never sent.
    NotSent,
    /// The trial ended first.
    Cancelled,
    /// The service crashed while the request was in flight.
    Died,
    /// The service had crashed before the request was sent.
    Unreached,
}

impl RequestResult {
    /// Returns whether the response was as expected.
    pub fn is_ok(&self) -> bool {
        *self == Self::Ok
    }

    /// Returns whether the user should know of the result: errors, and faults of provoke itself.
    pub fn is_trouble(&self) -> bool {
        self.is_error() || matches!(self, Self::Local(_))
    }

    /// Returns whether the result shows a fault of the running service.
    pub fn is_error(&self) -> bool {
        !matches!(
            self,
            Self::Ok
                | Self::ClosedIdle
                | Self::Local(_)
                | Self::NotSent
                | Self::Cancelled
                | Self::Died
                | Self::Unreached
        )
    }
}

impl fmt::Display for RequestResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Check(check) => write!(f, "not as expected: {check}"),
            Self::Refused => f.write_str("refused"),
            Self::Reset(errno, phase) => write!(f, "{} ({phase})", errno_name(*errno)),
            Self::ClosedEarly(phase) => write!(f, "closed early ({phase})"),
            Self::ClosedIdle => f.write_str("connection closed, sent again"),
            Self::Timeout(phase) => write!(f, "timeout ({phase})"),
            Self::Dns(reason) => write!(f, "name lookup: {reason}"),
            Self::Unreachable(errno) => write!(f, "unreachable: {}", errno_name(*errno)),
            Self::Tls(reason) => write!(f, "TLS: {reason}"),
            Self::Protocol(reason) => write!(f, "not HTTP: {reason}"),
            Self::Local(errno) => write!(f, "our own fault: {}", errno_name(*errno)),
            Self::NotSent => f.write_str("not sent"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Died => f.write_str("died with the service"),
            Self::Unreached => f.write_str("sent after the death"),
        }
    }
}

/// Returns the names of errors of connections; the numbers are the same on almost every architecture.
fn errno_name(errno: i32) -> String {
    let name = match errno {
        5 => "EIO",
        11 => "EAGAIN",
        24 => "EMFILE",
        32 => "EPIPE",
        99 => "EADDRNOTAVAIL",
        101 => "ENETUNREACH",
        103 => "ECONNABORTED",
        104 => "ECONNRESET",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        113 => "EHOSTUNREACH",
        _ => return format!("error {errno}"),
    };
    name.to_owned()
}

/// Phase of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestPhase {
    /// Connecting.
    #[default]
    Connect,
    /// Sending the request.
    Write,
    /// Waiting for the header of the response.
    Head,
    /// Reading the body of the response.
    Body,
}

impl fmt::Display for RequestPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Connect => "connect",
            Self::Write => "write",
            Self::Head => "head",
            Self::Body => "body",
        })
    }
}

/// Histogram of latencies: microseconds, to three digits, with the number of occurrences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Latencies(pub Vec<(u64, u64)>);

impl Latencies {
    /// Returns the number of latencies.
    pub fn total_count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Returns the latency that this share does not exceed.
    pub fn time_quantile(&self, share: f64) -> Option<Duration> {
        let total = self.total_count();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count far below 2^53, and a share of it"
        )]
        let rank = ((total as f64 * share).ceil() as u64).clamp(1, total.max(1));
        let mut sum = 0;
        let step = self.0.iter().find(|(_, count)| {
            sum += count;
            sum >= rank
        });
        step.map(|(time, _)| Duration::from_micros(*time))
    }

    /// Returns the largest latency.
    pub fn longest_time(&self) -> Option<Duration> {
        let last = self.0.last();
        last.map(|(time, _)| Duration::from_micros(*time))
    }

    /// Adds the latencies of another trial.
    pub fn merge_from(&mut self, other: &Self) {
        let mut counts: BTreeMap<u64, u64> = self.0.iter().copied().collect();
        for (time, count) in &other.0 {
            *counts.entry(*time).or_default() += count;
        }
        self.0 = counts.into_iter().collect();
    }
}

/// Serializes counts as pairs, because the keys are not strings and JSON requires string keys.
mod counts {
    use super::RequestResult;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use std::collections::BTreeMap;

    pub(super) fn serialize<S: Serializer>(
        counts: &BTreeMap<RequestResult, u64>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(counts)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<RequestResult, u64>, D::Error> {
        Vec::<(RequestResult, u64)>::deserialize(from).map(|pairs| pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_observation_is_read_from_the_journal_unchanged() {
        let ends = [
            RequestResult::Ok,
            RequestResult::Status(503),
            RequestResult::Check("body".to_owned()),
            RequestResult::Reset(104, RequestPhase::Head),
            RequestResult::ClosedEarly(RequestPhase::Body),
            RequestResult::Timeout(RequestPhase::Connect),
            RequestResult::Dns("no such name".to_owned()),
            RequestResult::Died,
        ];
        let seen = LoadObservation {
            ends: ends.into_iter().zip(1..).collect(),
            latency: Latencies(vec![(3, 7)]),
            kinds: vec![1, 2],
            death: Some(RequestsAtFailure {
                hung: true,
                in_flight: 3,
                ..RequestsAtFailure::default()
            }),
            ..LoadObservation::default()
        };
        let line = serde_json::to_string(&seen).unwrap();
        assert_eq!(
            serde_json::from_str::<LoadObservation>(&line).unwrap(),
            seen
        );
    }

    #[test]
    fn a_request_that_dies_with_the_service_is_not_an_error() {
        assert!(!RequestResult::Died.is_error());
        assert!(RequestResult::Reset(104, RequestPhase::Head).is_error());
        assert_eq!(
            RequestResult::Reset(104, RequestPhase::Head).to_string(),
            "ECONNRESET (head)"
        );
    }
}
