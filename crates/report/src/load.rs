//! Results of the clients of a service, as numbers and as text.

use super::growth::{GrownQuantity, median_growth, service_growth};
use super::{GrowingQuantity, count_ranges};
use provoke_model::{Latencies, LoadPlan, RefusalRules};
use provoke_state::RequestTotals;
use provoke_stats::{self as stats, real, spread_of_counts};
use provoke_words as words;
use provoke_words::document::{Cell, Column, Place, Table};
use serde::Serialize;
use std::collections::BTreeMap;

/// A delay of the load generator above which latencies are unreliable, in seconds.
const LATE: f64 = 0.020;
/// The same as a share of the 99th percentile of the latencies.
const LATE_SHARE: f64 = 0.1;
/// Maximum number of kinds of requests in a table.
const KINDS: usize = 20;
/// Maximum probability by chance at which a kind of request in flight at crashes is named.
const SUSPICIOUS: f64 = 0.01;

/// What the clients measured in all trials of a variant.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoadTotals {
    /// Counted trials.
    pub trials: u64,
    /// Clients or connections per trial.
    pub clients: u32,
    /// Requests sent, without those of the warm-up.
    pub requests: u64,
    /// Complete responses, whatever their content.
    pub answers: u64,
    /// Requests by how they ended; requests in flight when a service died are not errors.
    pub ends: BTreeMap<String, u64>,
    /// Requests that ended in an error while the service was running.
    pub errors: u64,
    /// Requests among them that the service refused.
    pub refused: u64,
    /// Whether so many requests were refused that the service refuses its load.
    pub refuses: bool,
    /// Responses per second under load.
    pub answers_per_second: Option<f64>,
    /// Bytes of responses.
    pub bytes: u64,
    /// Connections opened.
    pub connections: u64,
    /// Latency of good responses, from when each request was due.
    pub latency: Option<LatencyReport>,
    /// The same from when each request was sent, which hides the wait for a connection.
    pub latency_from_send: Option<LatencyReport>,
    /// How late the load generator sent due requests.
    pub late: Option<LatencyReport>,
    /// Whether the load generator was too late for reliable latencies.
    pub unreliable: bool,
    /// The maximum number of requests that waited for a connection.
    pub queue: u64,
    /// Connections that were refused on this machine because a listen backlog was full.
    pub listen_overflows: u64,
    /// Responses before each crash, in order, warm-up included.
    pub served_before_death: Vec<u64>,
    /// Requests in flight at each crash.
    pub in_flight_at_death: Vec<u64>,
    /// How many seconds before a crash the requests in flight were sent, at least and at most; null without any.
    pub in_flight_age: Option<[f64; 2]>,
    /// Trials that were long enough to detect growth.
    pub watched_trials: u64,
    /// The quantities that grew, in how many trials, and by how much per second in the median one.
    pub grew: Vec<GrownQuantity>,
    /// The kinds of requests, the most suspicious first.
    pub kinds: Vec<RequestKindReport>,
}

/// Times in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LatencyReport {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

/// A kind of request.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RequestKindReport {
    /// Its name.
    pub name: String,
    /// Requests sent.
    pub sent: u64,
    /// Crashes with one in flight.
    pub at_deaths: u64,
    /// How many were in flight at all crashes together.
    pub in_flight_at_deaths: u64,
    /// Trials without a crash that had one in flight at a random instant.
    pub at_random: u64,
    /// The probability of such a difference if the kind is irrelevant; null with one kind.
    pub p_value: Option<f64>,
}

impl LatencyReport {
    fn new(latencies: &Latencies) -> Option<Self> {
        let quantile = |share| {
            latencies
                .time_quantile(share)
                .map(|time| time.as_secs_f64())
        };
        Some(Self {
            p50: quantile(0.5)?,
            p90: quantile(0.9)?,
            p99: quantile(0.99)?,
            max: latencies.longest_time()?.as_secs_f64(),
        })
    }
}

impl LoadTotals {
    pub(super) fn new(load: &LoadPlan, rules: &RefusalRules, totals: &RequestTotals) -> Self {
        let ends = totals.ends.iter();
        let errors = ends.clone().filter(|(result, _)| result.is_error());
        let latency = LatencyReport::new(&totals.latency);
        let late = LatencyReport::new(&totals.late);
        let unreliable = latency
            .zip(late)
            .is_some_and(|(latency, late)| late.p99 > LATE.max(latency.p99 * LATE_SHARE));
        let seconds = totals.loaded.as_secs_f64();
        let refused = rules.count_refused(&totals.ends);
        let growth = service_growth(totals);
        Self {
            trials: totals.trials,
            clients: totals.clients,
            requests: totals.sent,
            answers: totals.served,
            ends: ends
                .clone()
                .map(|(result, n)| (result.to_string(), *n))
                .collect(),
            errors: errors.map(|(_, count)| count).sum(),
            refused,
            refuses: rules.refuses_load(refused, totals.sent),
            answers_per_second: (seconds > 0.0).then(|| real(totals.served) / seconds),
            bytes: totals.bytes,
            connections: totals.connections,
            latency,
            latency_from_send: LatencyReport::new(&totals.from_send),
            late,
            unreliable,
            queue: totals.queue,
            listen_overflows: totals.overflows,
            served_before_death: totals.deaths.iter().map(|(served, _)| *served).collect(),
            in_flight_at_death: totals
                .deaths
                .iter()
                .map(|(_, death)| death.in_flight)
                .collect(),
            in_flight_age: in_flight_ages(totals),
            watched_trials: growth.len() as u64,
            grew: median_growth(&growth),
            kinds: request_kinds(load, totals),
        }
    }

    /// Returns whether most of the responses were wrong, and not because the service refused the requests.
    pub(super) fn mostly_errors(&self) -> bool {
        self.errors.saturating_sub(self.refused) * 2 > self.requests
    }

    /// Describes that the service refused its load, as a clause; `None` if it did not.
    pub(super) fn refusal_clause(&self) -> Option<String> {
        self.refuses.then(|| {
            format!(
                "it refused {} of {}",
                self.refused,
                words::format_count(self.requests, "request")
            )
        })
    }

    /// Describes the observations of the clients.
    pub fn traffic_lines(&self) -> Vec<String> {
        if self.trials == 0 {
            return Vec::new();
        }
        let mut lines = vec![self.describe_traffic()];
        let besides: Vec<String> = self
            .ends
            .iter()
            .filter(|(name, _)| *name != "ok")
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        if !besides.is_empty() {
            lines.push(format!("other results: {}", besides.join(", ")));
        }
        lines.extend(
            self.latency
                .map(|latencies| self.describe_latencies(&latencies)),
        );
        if self.listen_overflows > 0 {
            lines.push(format!(
                "{} found the listen backlog full and retried after a second: the backlog is too short for this concurrency",
                words::format_count(self.listen_overflows, "connection")
            ));
        }
        lines.extend(self.death_lines());
        lines.extend(self.grew.iter().map(|grew| {
            let quantity_text = match grew.what {
                GrowingQuantity::RssKib => {
                    let bytes = stats::whole(grew.per_second * 1024.0);
                    format!("its memory grew by {}", words::format_bytes(bytes))
                }
                GrowingQuantity::Processes => {
                    format!(
                        "its processes grew by {}",
                        words::format_number(grew.per_second)
                    )
                }
                GrowingQuantity::Threads => {
                    format!(
                        "its threads grew by {}",
                        words::format_number(grew.per_second)
                    )
                }
                GrowingQuantity::Descriptors => {
                    format!(
                        "its open files grew by {}",
                        words::format_number(grew.per_second)
                    )
                }
            };
            let of_trials = words::format_count(self.watched_trials, "trial");
            format!(
                "{quantity_text} a second under load in {} of {of_trials}: a leak",
                grew.trials
            )
        }));
        lines
    }

    fn describe_traffic(&self) -> String {
        let rate = self.answers_per_second.map_or(String::new(), |rate| {
            format!(", {} a second", stats::whole(rate))
        });
        let (client_text, waited) = match self.latency_from_send {
            // At a fixed rate a request waits only for a connection.
            Some(_) => (
                format!(
                    "at most {}",
                    words::format_count(u64::from(self.clients), "connection")
                ),
                format!(", up to {} requests waited for one", self.queue),
            ),
            None => (
                words::format_count(u64::from(self.clients), "client"),
                String::new(),
            ),
        };
        format!(
            "{client_text}, {}: {} requests sent, {} answered{rate}, {}{waited}",
            words::format_count(self.trials, "trial"),
            self.requests,
            self.answers,
            words::format_count(self.connections, "connection"),
        )
    }

    /// Returns tables of the responses before each crash, and of the requests in flight.
    pub(super) fn death_tables(&self) -> [Table; 2] {
        let deaths = self.served_before_death.len() as u64;
        let share = |count: u64| Cell::Share(real(count) / real(deaths.max(1)), false);
        let ranges = count_ranges(&self.served_before_death).into_iter();
        let ranges = ranges.map(|range| {
            vec![
                Cell::text(format!("{} to {}", range.start, range.end)),
                Cell::text(range.count.to_string()),
                share(range.count),
            ]
        });
        let columns = vec![
            Column::words("responses"),
            Column::numbers("deaths"),
            Column::shares("share"),
        ];
        let served = Table::new("Responses before each death", Place::Page, columns);
        let is_shown = self.kinds.len() > 1 && deaths > 0;
        let kinds = self.kinds.iter().take(if is_shown { KINDS } else { 0 });
        let kinds = kinds.map(|kind| {
            vec![
                Cell::text(&kind.name),
                Cell::text(kind.sent.to_string()),
                Cell::text(kind.at_deaths.to_string()),
                share(kind.at_deaths),
                Cell::text(kind.p_value.map_or_else(String::new, words::p_value)),
            ]
        });
        let columns = vec![
            Column::words("request"),
            Column::numbers("sent"),
            Column::numbers("deaths with one in flight"),
            Column::shares("share"),
            Column::numbers("p"),
        ];
        let in_flight = Table::new("Requests in flight at deaths", Place::Page, columns);
        [served.with_rows(ranges), in_flight.with_rows(kinds)]
    }

    fn describe_latencies(&self, latencies: &LatencyReport) -> String {
        let four = |latencies: &LatencyReport| {
            let [p50, p90, p99, max] = [latencies.p50, latencies.p90, latencies.p99, latencies.max]
                .map(words::format_seconds);
            format!("p50 {p50}, p90 {p90}, p99 {p99}, max {max}")
        };
        let from_send = self.latency_from_send.map_or(String::new(), |send| {
            format!("; from the actual send {}", four(&send))
        });
        let late = self.late.map_or(String::new(), |late| {
            let [p99, max] = [late.p99, late.max].map(words::format_seconds);
            format!("; sent late by {p99} (p99), at most {max}")
        });
        let unreliable = match self.late {
            _ if self.unreliable => " (UNRELIABLE: the load generator was late)".to_owned(),
            Some(late) if late.p99 > latencies.p50 * LATE_SHARE => format!(
                ": latencies below {} are dominated by client overhead",
                words::format_seconds(late.p99 / LATE_SHARE)
            ),
            _ => String::new(),
        };
        format!("latency {}{from_send}{late}{unreliable}", four(latencies))
    }

    /// Describes the requests in flight at crashes.
    pub fn death_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let three = |[min, median, max]: [u64; 3]| {
            if min == max {
                min.to_string()
            } else {
                format!("{min} / {median} / {max} (min, median, max)")
            }
        };
        if let Some(served) = spread_of_counts(&self.served_before_death) {
            lines.push(format!(
                "responses before the death, including the warm-up: {}",
                three(served)
            ));
        }
        if let Some(in_flight) = spread_of_counts(&self.in_flight_at_death) {
            let kinds = match self.kinds.as_slice() {
                _ if in_flight[2] == 0 => String::new(),
                [kind] => format!(", all {}", kind.name),
                several => in_all(several),
            };
            let sent = self.in_flight_age.map_or(String::new(), |[latest, first]| {
                let [latest, first] = [latest, first].map(words::format_seconds);
                if latest == first {
                    format!(", sent {first} before")
                } else {
                    format!(", sent {latest} to {first} before")
                }
            });
            lines.push(format!(
                "requests in flight at the death: {}{kinds}{sent}",
                three(in_flight)
            ));
        }
        if self.kinds.len() > 1 && !self.served_before_death.is_empty() {
            let deaths = self.served_before_death.len() as u64;
            let suspicious = self
                .kinds
                .iter()
                .filter(|kind| kind.p_value.is_some_and(|p| p < SUSPICIOUS));
            let named: Vec<String> = suspicious
                .map(|kind| {
                    format!(
                        "{} in flight at {} of {deaths} deaths ({})",
                        kind.name,
                        kind.at_deaths,
                        words::p_value(kind.p_value.unwrap_or(1.0))
                    )
                })
                .collect();
            let healthy = self.trials.saturating_sub(deaths);
            let p_value = stats::fisher(deaths, deaths, 0, healthy).greater;
            lines.push(
                if named.is_empty() && (healthy == 0 || p_value >= SUSPICIOUS) {
                    format!(
                        "too few trials without a death ({healthy}) to determine which request it is"
                    )
                } else if named.is_empty() {
                    "no request was over-represented in flight at deaths".to_owned()
                } else {
                    named.join("; ")
                },
            );
        }
        lines
    }
}

/// Returns how long before a crash the requests in flight were sent, in seconds.
fn in_flight_ages(totals: &RequestTotals) -> Option<[f64; 2]> {
    let ages = totals.deaths.iter().filter_map(|(_, death)| death.ages_us);
    let latest = ages.clone().map(|[latest, _]| latest).min()?;
    let first = ages.map(|[_, first]| first).max()?;
    Some([latest, first].map(|micros| real(micros) / 1e6))
}

/// Lists the requests in flight by kind, the most frequent first.
fn in_all(kinds: &[RequestKindReport]) -> String {
    let mut kinds: Vec<&RequestKindReport> = kinds
        .iter()
        .filter(|kind| kind.in_flight_at_deaths > 0)
        .collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.in_flight_at_deaths));
    let kinds: Vec<String> = kinds
        .iter()
        .map(|kind| format!("{} {}", kind.in_flight_at_deaths, kind.name))
        .collect();
    format!(", in all {}", kinds.join(" and "))
}

fn request_kinds(load: &LoadPlan, totals: &RequestTotals) -> Vec<RequestKindReport> {
    let (deaths, healthy) = (totals.deaths.len() as u64, totals.at_random.len() as u64);
    let several = load.requests.len() > 1;
    let in_flight =
        |in_flight: &[u64], kind: usize| in_flight.get(kind).is_some_and(|count| *count > 0);
    let kind_report = |(kind, request): (usize, &provoke_model::RequestPlan)| {
        let at_deaths = totals
            .deaths
            .iter()
            .filter(|(_, death)| in_flight(&death.kinds, kind));
        let at_random = totals
            .at_random
            .iter()
            .filter(|in_flight_counts| in_flight(in_flight_counts, kind));
        let counts = totals
            .deaths
            .iter()
            .filter_map(|(_, death)| death.kinds.get(kind));
        let (at_deaths, at_random) = (at_deaths.count() as u64, at_random.count() as u64);
        let table = (several && deaths > 0 && healthy > 0)
            .then(|| stats::fisher(at_deaths, deaths, at_random, healthy));
        RequestKindReport {
            name: request.name.clone(),
            sent: totals.kinds.get(kind).copied().unwrap_or(0),
            at_deaths,
            in_flight_at_deaths: counts.sum(),
            at_random,
            p_value: table.map(|table| table.greater),
        }
    };
    let mut kinds: Vec<RequestKindReport> =
        load.requests.iter().enumerate().map(kind_report).collect();
    let p = |kind: &RequestKindReport| kind.p_value.unwrap_or(1.0);
    kinds.sort_by(|a, b| p(a).total_cmp(&p(b)));
    kinds
}
