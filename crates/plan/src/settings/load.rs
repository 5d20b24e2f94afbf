//! Settings of the HTTP load on a service, which a file has below `[load]`.

use super::parse_name;
use crate::{AttachedProcess, Concurrency, DurationValue, Frequency, RateValue, ReadyWhen};
use clap::Args;
use provoke_model::{HttpVersion, LoadGoal};
use serde::{Deserialize, Serialize};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

/// The service, and when it is ready or hung.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Service")]
pub struct ServiceSettings {
    /// Load a service that is already running: a PID, or `listener` for the process at the URL
    #[arg(long, value_name = "PID|listener", conflicts_with_all = ["serve", "fixed"])]
    pub attach: Option<AttachedProcess>,
    /// When the service is ready for requests [default: tcp]
    ///
    /// `tcp`: it accepts connections; a path such as /healthz: it answers there; `log:REGEX`: it prints a
    /// line that matches; a time such as 2s: after this time.
    #[arg(long, value_name = "WHEN")]
    pub ready: Option<ReadyWhen>,
    /// With a path: the status of a ready service [default: any below 500]
    #[arg(skip)]
    pub ready_status: Option<u16>,
    /// Wait at most this long until the service is ready [default: 60s]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub ready_limit: Option<DurationValue>,
    /// Treat the service as hung after this long without a response [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub hang_after: Option<DurationValue>,
    /// Wait this long after the load before the trial passes [default: 500ms]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub quiet_time: Option<DurationValue>,
}

/// How many requests are sent, and how fast.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Load")]
pub struct TrafficSettings {
    /// The URL to send requests to, such as `http://127.0.0.1:8080/classify`
    ///
    /// `{slot}` is filled in, for parallel trials.
    #[arg(skip)]
    pub url: Option<String>,
    /// Number of concurrent clients, or levels such as 1..64 or 8,9,10 [default: 10]
    ///
    /// Each client sends its next request when the previous one is answered. With several levels, provoke
    /// searches for the lowest level that crashes the service, and tests the level right below it.
    #[arg(short, long, value_name = "N|A..B")]
    pub clients: Option<Concurrency>,
    /// Send requests at a fixed rate, such as 50/s, instead of with a fixed number of clients
    ///
    /// An open loop: requests are sent on time even if earlier ones are not answered yet.
    #[arg(long, value_name = "N/s", conflicts_with = "clients")]
    pub rate: Option<Frequency>,
    /// With --rate: open at most this many connections [default: 100]
    #[arg(long, value_name = "N", requires = "rate", hide_short_help = true)]
    pub connections: Option<NonZeroU32>,
    /// Requests per trial [default: 2000; 20 per client of the highest level with several levels, 200 to 2000]
    #[arg(long, value_name = "N")]
    pub requests: Option<NonZeroU64>,
    /// Time under load per trial, instead of a number of requests
    #[arg(long, value_name = "TIME", conflicts_with = "requests")]
    pub time: Option<DurationValue>,
    /// Send N requests first, from one client, and do not count them [default: 20]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub warm_requests: Option<u64>,
    /// Pause of a client between a response and its next request
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub think: Option<DurationValue>,
    /// Start the clients over this time [default: all at once]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub spread: Option<DurationValue>,
    /// A CSV file with a header line; its columns are `{row.NAME}` in requests
    #[arg(skip)]
    pub rows: Option<PathBuf>,
    /// Failure rate at which a load level counts as failing [default: 10%]
    #[arg(long, value_name = "P", hide_short_help = true)]
    pub detect: Option<RateValue>,
    /// What makes a trial fail: the death of the service, or also that it refuses most requests [default: death]
    ///
    /// With levels, `refusal` searches for the lowest level at which the service refuses most requests, or dies.
    #[arg(
        long, value_name = "death|refusal", value_parser = parse_name::<LoadGoal>(["death", "refusal"]),
        hide_possible_values = true,
    )]
    pub find: Option<LoadGoal>,
    /// A service refuses its load if more than this share of the requests of a trial is refused [default: 50%]
    #[arg(long, value_name = "P", hide_short_help = true)]
    pub refusal_share: Option<RateValue>,
    /// Statuses of refused requests; refused connections always count [default: 429,503]
    #[arg(
        long, value_name = "CODES", value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(100..1000), hide_short_help = true,
    )]
    pub refusal_status: Option<Vec<u16>>,
    /// Accepted without effect: every load level is a candidate
    #[arg(long, hide = true)]
    pub exact: Option<bool>,
}

impl TrafficSettings {
    /// Removes the settings that are replaced by given ones: clients and rate exclude each other, and requests and time.
    pub fn clear_replaced(&mut self, given: &Self) {
        if given.clients.is_some() || given.rate.is_some() {
            (self.clients, self.rate) = (None, None);
        }
        if given.requests.is_some() || given.time.is_some() {
            (self.requests, self.time) = (None, None);
        }
    }
}

/// How the clients connect.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Connections")]
pub struct ConnectionSettings {
    /// HTTP version [default: 1.1]
    #[arg(
        long, value_name = "1.1|2|2-prior-knowledge", value_parser = parse_name::<HttpVersion>(["1.1", "2", "2-prior-knowledge"]),
        hide_possible_values = true, hide_short_help = true,
    )]
    pub http: Option<HttpVersion>,
    /// Connect to this Unix socket instead of host and port
    #[arg(long, value_name = "SOCKET", hide_short_help = true)]
    pub unix: Option<PathBuf>,
    /// Close a connection after N requests; 1: a new connection for each [default: no limit]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub requests_per_connection: Option<NonZeroU32>,
    /// Connect timeout [default: 1s]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub connect_limit: Option<DurationValue>,
    /// Request timeout [default: 10s]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub request_limit: Option<DurationValue>,
    /// Resolve the host name for each connection, not once per trial
    #[arg(skip)]
    pub resolve_each: Option<bool>,
    /// Trust the certificates in FILE, in addition to the system's
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub ca: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long, hide_short_help = true)]
    pub insecure: Option<bool>,
    /// A file with a client certificate
    #[arg(skip)]
    pub certificate: Option<PathBuf>,
    /// A file with the key of the client certificate
    #[arg(skip)]
    pub key: Option<PathBuf>,
    /// Write every request to a file, not only the requests before a crash
    #[arg(long, hide_short_help = true)]
    pub log_requests: Option<bool>,
    /// Allow load on another machine: repeat the host of the URL
    #[arg(
        long = "i-own-this-target",
        value_name = "HOST",
        hide_short_help = true
    )]
    pub own_target: Option<String>,
}
