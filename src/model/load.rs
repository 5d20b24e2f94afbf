//! HTTP load: its settings, and what clients observed.

use super::{Around, Text, is_default, micros};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// HTTP load on a service. A trial is one life of it: started, made ready, warmed up, put under
/// load, left alone for a moment, and still alive?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Who starts the service.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owner: Owner,
    /// Where requests go.
    pub target: Target,
    /// What is sent; at least one kind.
    pub requests: Vec<RequestPlan>,
    /// A CSV file with a head line, whose columns templates may use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rows: Option<Text>,
    /// Who waits for whom.
    pub pace: Pace,
    /// When a life has had enough.
    pub amount: Amount,
    /// What is sent before, and not counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warm_up: WarmUp,
    /// Pause of a client between an answer and its next request.
    #[serde(default, skip_serializing_if = "is_default", with = "micros")]
    pub think: Duration,
    /// Over how long the clients begin; all at once without it.
    #[serde(default, skip_serializing_if = "is_default", with = "micros")]
    pub spread: Duration,
    /// How long a life is left alone after the load, before it is called healthy.
    #[serde(with = "micros")]
    pub settle: Duration,
    /// When the service is ready.
    pub ready: Ready,
    /// How long that may take.
    #[serde(with = "micros")]
    pub ready_limit: Duration,
    /// Without any answer for so long, it hangs.
    #[serde(with = "micros")]
    pub hang_after: Duration,
    /// Every request is written to a file, not only those before a death.
    #[serde(default, skip_serializing_if = "is_default")]
    pub log_all: bool,
}

/// Who starts the service, and starts it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Owner {
    /// Provoke: it is an actor of the variant.
    #[default]
    Provoke,
    /// Somebody else; it is the process that listens at the target.
    Somebody,
    /// Somebody else; it began as this process.
    Process(i32),
}

/// Where requests go, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Target {
    /// `http://` or `https://`, host and port; what follows is before each request's path.
    /// `{slot}` and `{trial}` are filled in.
    pub base: String,
    /// A socket in the file system, instead of host and port.
    #[serde(skip_serializing_if = "is_default")]
    pub unix: Option<Text>,
    /// A host that is not this machine, and yet the user's own.
    #[serde(skip_serializing_if = "is_default")]
    pub owned: Option<String>,
    /// Which HTTP.
    #[serde(skip_serializing_if = "is_default")]
    pub http: Http,
    /// How long connections live.
    #[serde(skip_serializing_if = "is_default")]
    pub connections: Connections,
    /// How long it may take to connect.
    #[serde(with = "micros")]
    pub connect_limit: Duration,
    /// How long a whole request may take.
    #[serde(with = "micros")]
    pub request_limit: Duration,
    /// The name is looked up for each connection, not once for each life.
    #[serde(skip_serializing_if = "is_default")]
    pub resolve_each: bool,
    /// A file with certificates that are trusted besides the machine's.
    #[serde(skip_serializing_if = "is_default")]
    pub ca: Option<Text>,
    /// Any certificate will do.
    #[serde(skip_serializing_if = "is_default")]
    pub insecure: bool,
    /// Files with a certificate of our own and its key.
    #[serde(skip_serializing_if = "is_default")]
    pub identity: Option<(Text, Text)>,
}

/// Which HTTP is spoken.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub enum Http {
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

/// How long connections live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connections {
    /// As long as the server keeps them.
    #[default]
    Kept,
    /// For so many requests; 1: each request has its own.
    For(u32),
}

/// A kind of request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestPlan {
    /// Its name in reports.
    pub name: String,
    /// How often it is sent, in proportion to the others.
    pub weight: u32,
    /// GET, POST ...
    pub method: String,
    /// After the target's base; a template.
    pub path: String,
    /// Names and values, which are templates.
    #[serde(skip_serializing_if = "is_default")]
    pub headers: Vec<(String, String)>,
    /// What is sent with it.
    #[serde(skip_serializing_if = "is_default")]
    pub body: Body,
    /// A file with its bytes, which are sent as they are, instead of all that.
    #[serde(skip_serializing_if = "is_default")]
    pub raw: Option<Text>,
    /// What the answer must be like.
    #[serde(skip_serializing_if = "is_default")]
    pub expect: Answer,
}

/// What is sent with a request. Templates may hold `{row.NAME}`, `{seq}`, `{rand}`, `{env.NAME}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// Nothing.
    #[default]
    None,
    /// A template.
    Text(String),
    /// One of these files.
    Files {
        /// In their order.
        files: Vec<Text>,
        /// Which is next.
        pick: Pick,
    },
    /// What stands in a column of the rows.
    Column(String),
}

/// How the next of several is chosen.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    /// Any, by the seed.
    #[default]
    Random,
    /// The next in order, from the first again after the last.
    Cycle,
    /// Each once per trial; the load ends after the last.
    Once,
}

/// What an answer must be like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// One of these; anything below 400 without.
    #[serde(skip_serializing_if = "is_default")]
    pub status: Vec<u16>,
    /// Headers, and what their values must match.
    #[serde(skip_serializing_if = "is_default")]
    pub headers: Vec<(String, String)>,
    /// A regular expression that its body matches.
    #[serde(skip_serializing_if = "is_default")]
    pub body_regex: Option<String>,
    /// The digest of its body, in hexadecimal.
    #[serde(skip_serializing_if = "is_default")]
    pub body_sha256: Option<String>,
    /// Places in its JSON (`/a/0/b`), and what stands there; nothing: anything at all.
    #[serde(skip_serializing_if = "is_default")]
    pub json: Vec<(String, Option<Text>)>,
    /// Its body is not longer.
    #[serde(skip_serializing_if = "is_default")]
    pub max_bytes: Option<u64>,
}

/// Who waits for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// So many clients, each of which waits for its answer. A variant may have another number.
    Closed {
        /// How many.
        clients: u32,
    },
    /// Requests come at this rate, whatever becomes of those before them.
    Open {
        /// In thousandths of a request per second.
        millihertz: u64,
        /// They wait for one of so many connections, and that time counts.
        connections: u32,
    },
}

/// When a life has had enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// After so many requests.
    Requests(u64),
    /// After so long.
    Time(#[serde(with = "micros")] Duration),
}

/// What is sent before, and not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarmUp {
    /// How many requests.
    pub requests: u64,
    /// By how many clients.
    pub clients: u32,
}

/// When a service is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// It takes connections.
    Connects,
    /// It answers this path with this status.
    Http {
        /// Which.
        path: String,
        /// With what; anything below 500 without.
        status: Option<u16>,
    },
    /// A line of its output matches this.
    Log(String),
    /// So long after its start.
    After(#[serde(with = "micros")] Duration),
}

/// What was seen of a life by its clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadSeen {
    /// How far it came.
    pub stage: Stage,
    /// Why it came no further, where it did not end by dying.
    #[serde(skip_serializing_if = "is_default")]
    pub trouble: Option<String>,
    /// The seed of what was sent.
    #[serde(skip_serializing_if = "is_default")]
    pub seed: u64,
    /// How many clients there were, or connections.
    pub clients: u32,
    /// From its start until it was ready.
    #[serde(rename = "ready_us", with = "micros")]
    pub ready: Duration,
    /// From the first request of the load to the end of the last, or to the death.
    #[serde(rename = "load_us", with = "micros")]
    pub elapsed: Duration,
    /// Requests that were sent, the warm-up not among them.
    pub sent: u64,
    /// Complete responses, whatever their content.
    pub served: u64,
    /// Whole answers while it was warmed up.
    #[serde(skip_serializing_if = "is_default")]
    pub warmed: u64,
    /// What became of requests, by what it is called.
    #[serde(skip_serializing_if = "is_default", with = "counts")]
    pub ends: BTreeMap<Ended, u64>,
    /// Sent by kind of request, in the order of the plan.
    #[serde(skip_serializing_if = "is_default")]
    pub kinds: Vec<u64>,
    /// Bytes of answers, heads included.
    #[serde(skip_serializing_if = "is_default")]
    pub bytes: u64,
    /// Connections opened.
    #[serde(skip_serializing_if = "is_default")]
    pub connections: u64,
    /// Of good answers: from when the request was due.
    #[serde(skip_serializing_if = "is_default")]
    pub latency: Latencies,
    /// From when it was sent; only where that is another time.
    #[serde(skip_serializing_if = "is_default")]
    pub from_send: Latencies,
    /// How late we were ourselves with what was due.
    #[serde(skip_serializing_if = "is_default")]
    pub late: Latencies,
    /// How many requests waited for a connection, at most.
    #[serde(skip_serializing_if = "is_default")]
    pub queue: u64,
    /// Connections that the listener had to turn away meanwhile, on the whole machine.
    #[serde(skip_serializing_if = "is_default")]
    pub overflows: u64,
    /// Responses whose second part came only after a delayed acknowledgement of the first, before provoke acknowledged
    /// at once.
    #[serde(skip_serializing_if = "is_default")]
    pub delayed_acks: u64,
    /// How large the service was in the course of its load: after so many milliseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub sizes: Vec<(u64, Around)>,
    /// In flight by kind of request at an instant of the load that the seed draws, where it did
    /// not die.
    #[serde(skip_serializing_if = "is_default")]
    pub at_random: Vec<u64>,
    /// What was under way when it died.
    #[serde(skip_serializing_if = "is_default")]
    pub death: Option<Death>,
}

impl LoadSeen {
    /// Returns how many requests ended in a way that says something is wrong while it lives.
    pub fn errors(&self) -> u64 {
        let errors = self.ends.iter().filter(|(ended, _)| ended.is_error());
        errors.map(|(_, count)| count).sum()
    }

    /// Returns how many requests it had answered when it died.
    pub fn answered_until(&self, death: &Death) -> u64 {
        (self.served + self.warmed).saturating_sub(death.answered_after)
    }
}

/// How far a life came.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It was not ready.
    #[default]
    Starting,
    /// It was warmed up.
    WarmUp,
    /// It was under load.
    Loading,
    /// It was left alone after the load.
    Settling,
    /// It lived through all that.
    Over,
}

/// What was under way when a service died, or hung.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Death {
    /// It did not die: it gave no answer any more.
    #[serde(skip_serializing_if = "is_default")]
    pub hung: bool,
    /// And that because it was stopped, by SIGSTOP or its terminal.
    #[serde(skip_serializing_if = "is_default")]
    pub stopped: bool,
    /// Requests without an answer.
    pub in_flight: u64,
    /// Of those, how many had begun to be answered.
    #[serde(skip_serializing_if = "is_default")]
    pub answering: u64,
    /// In flight by kind of request, in the order of the plan.
    pub kinds: Vec<u64>,
    /// How long before it the requests in flight were sent, in microseconds: the latest and the first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ages_us: Option<[u64; 2]>,
    /// Answers that came after it, of a process in the place of the dead one, before anybody knew.
    #[serde(default, skip_serializing_if = "is_default")]
    pub answered_after: u64,
}

/// What became of a request, as counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Answered as expected.
    Ok,
    /// With another status than expected.
    Status(u16),
    /// With the right status, but not as expected: which check.
    Check(String),
    /// Nobody listens.
    Refused,
    /// The connection broke: errno, and in which phase.
    Reset(i32, Part),
    /// The connection ended before the answer did: in which phase.
    ClosedEarly(Part),
    /// A kept connection was closed just when it was used again; sent once more on another.
    ClosedIdle,
    /// It took too long: in which phase.
    Timeout(Part),
    /// Its name has no address: what the resolver said.
    Dns(String),
    /// There is no way there: errno.
    Unreachable(i32),
    /// No secure connection came about: why.
    Tls(String),
    /// What came is not HTTP: why.
    Protocol(String),
    /// Our own fault, never the service's: errno.
    Local(i32),
    /// It was due, but never sent.
    NotSent,
    /// The life was over first.
    Cancelled,
    /// The service died meanwhile.
    Died,
    /// The service was dead already when it was sent.
    Unreached,
}

impl Ended {
    /// True where the service gave the answer that it should.
    pub fn is_ok(&self) -> bool {
        *self == Self::Ok
    }

    /// True for what whoever watches should know of: errors, and faults of our own.
    pub fn is_trouble(&self) -> bool {
        self.is_error() || matches!(self, Self::Local(_))
    }

    /// True for what says that something is wrong with the service while it lives.
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

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::Check(which) => write!(f, "not as expected: {which}"),
            Self::Refused => f.write_str("refused"),
            Self::Reset(errno, part) => write!(f, "{} ({part})", errno_name(*errno)),
            Self::ClosedEarly(part) => write!(f, "closed early ({part})"),
            Self::ClosedIdle => f.write_str("connection closed, sent again"),
            Self::Timeout(part) => write!(f, "timeout ({part})"),
            Self::Dns(why) => write!(f, "name lookup: {why}"),
            Self::Unreachable(errno) => write!(f, "unreachable: {}", errno_name(*errno)),
            Self::Tls(why) => write!(f, "TLS: {why}"),
            Self::Protocol(why) => write!(f, "not HTTP: {why}"),
            Self::Local(errno) => write!(f, "our own fault: {}", errno_name(*errno)),
            Self::NotSent => f.write_str("not sent"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Died => f.write_str("died with the service"),
            Self::Unreached => f.write_str("sent after the death"),
        }
    }
}

/// The names of the errors that connections have, the same on every architecture but a few.
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

/// A part of a request's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Being connected.
    #[default]
    Connect,
    /// Being sent.
    Write,
    /// Waiting for the head of the answer.
    Head,
    /// Reading the answer.
    Body,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Connect => "connect",
            Self::Write => "write",
            Self::Head => "head",
            Self::Body => "body",
        })
    }
}

/// Times, each to three digits, in microseconds: how often which.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Latencies(pub Vec<(u64, u64)>);

impl Latencies {
    /// Returns how many there are.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Returns the time that a share of them did not exceed.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let all = self.count();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count far below 2^53, and a share of it"
        )]
        let wanted = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        let found = self.0.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        found.map(|(time, _)| Duration::from_micros(*time))
    }

    /// Returns the longest.
    pub fn max(&self) -> Option<Duration> {
        let last = self.0.last();
        last.map(|(time, _)| Duration::from_micros(*time))
    }

    /// Adds those of another life.
    pub fn add(&mut self, other: &Self) {
        let mut all: BTreeMap<u64, u64> = self.0.iter().copied().collect();
        for (time, count) in &other.0 {
            *all.entry(*time).or_default() += count;
        }
        self.0 = all.into_iter().collect();
    }
}

/// Counts as pairs: what is counted is no text, as the names of JSON's fields must be.
mod counts {
    use super::Ended;
    use serde::{Deserialize as _, Deserializer, Serializer};
    use std::collections::BTreeMap;

    pub(super) fn serialize<S: Serializer>(
        counts: &BTreeMap<Ended, u64>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(counts)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<Ended, u64>, D::Error> {
        Vec::<(Ended, u64)>::deserialize(from).map(|pairs| pairs.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_of_a_life_comes_back_from_the_journal() {
        let ends = [
            Ended::Ok,
            Ended::Status(503),
            Ended::Check("body".to_owned()),
            Ended::Reset(104, Part::Head),
            Ended::ClosedEarly(Part::Body),
            Ended::Timeout(Part::Connect),
            Ended::Dns("no such name".to_owned()),
            Ended::Died,
        ];
        let seen = LoadSeen {
            ends: ends.into_iter().zip(1..).collect(),
            latency: Latencies(vec![(3, 7)]),
            kinds: vec![1, 2],
            death: Some(Death {
                hung: true,
                in_flight: 3,
                ..Death::default()
            }),
            ..LoadSeen::default()
        };
        let line = serde_json::to_string(&seen).unwrap();
        assert_eq!(serde_json::from_str::<LoadSeen>(&line).unwrap(), seen);
    }
}
