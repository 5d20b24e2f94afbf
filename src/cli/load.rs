//! `load`: puts a service under HTTP load, and counts its crashes as failures.

use super::error::CliError;
use super::exit::Exit;
use super::questions::ExperimentArgs;
use crate::load::LoadProgress;
use crate::model::{HttpVersion, LoadStage};
use crate::report::words;
use crate::scenario::{
    AttachedProcess, Concurrency, DurationValue, Frequency, Load as Said, QuestionSettings,
    RateValue, ReadyWhen, Request, Scenario, Variant,
};
use crate::untrusted::Untrusted as _;
use clap::Args;
use provoke_stats::real;
use std::cell::Cell;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Load-test a service and find the concurrency at which it crashes
///
/// Sends requests over HTTP/1.1 or HTTP/2. In each trial provoke starts the service, waits until it is ready, warms it up, puts it under load,
/// waits for a quiet time, and checks that it still runs. The cause of death comes from the service's
/// process tree. Client-side errors are counted separately. Put several kinds of requests, bodies from
/// files and expected responses in a scenario file.
#[derive(Args)]
#[command(
    override_usage = "provoke load [OPTIONS] URL -- CMD...\n       provoke load [OPTIONS] FILE",
    after_help = EXAMPLES,
)]
// These are refused: a service run has no timeout, and no exit code that passes.
#[command(mut_arg("timeout", |flag| flag.hide(true)))]
#[command(mut_arg("ok", |flag| flag.hide(true)))]
#[command(mut_arg("skip", |flag| flag.hide(true)))]
#[command(mut_arg("runs", describe_trials_flag))]
// The first word is the URL.
#[command(mut_arg("command", |command| command.trailing_var_arg(false).last(true)))]
pub(super) struct LoadArgs {
    /// The URL to send requests to, such as http://127.0.0.1:8080/; or a scenario file
    #[arg(value_name = "URL|FILE")]
    target: Option<String>,
    /// Find the smallest load that still crashes, starting from a run or RUN#TRIAL
    ///
    /// Reduces the kinds of requests, their bodies, the concurrency and the number of requests per trial.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["target", "file"], help_heading = LOAD)]
    shrink: Option<String>,
    #[command(flatten)]
    about: LoadFlags,
    #[command(flatten)]
    rest: ExperimentArgs,
}

const EXAMPLES: &str = "\
Examples:
  Start the server in each trial and send 2000 requests from 10 clients:
    provoke load http://127.0.0.1:8080/ -- ./server --port 8080
  Find the number of clients at which it crashes:
    provoke load http://127.0.0.1:8080/ -c 1..64 -- ./server --port 8080
  Compare a fixed build with the old one:
    provoke load http://127.0.0.1:8080/ --serve ./old --fixed ./new";

/// Describes `-n`, which counts starts of the service.
fn describe_trials_flag(flag: clap::Arg) -> clap::Arg {
    flag.help("Start the service this many times [default: 20]")
        .long_help(
            "Start the service this many times [default: 20]\n\n\
             With one load level, this is the number of trials of each variant; with several levels, the \
             number of trials in all [default: until the answer is known].",
        )
}

/// Flags that describe the load.
#[derive(Args, Clone, Debug, Default)]
struct LoadFlags {
    /// The command that starts the service; or give it after --
    #[arg(long, value_name = "CMD", help_heading = SERVICE)]
    serve: Option<String>,
    /// Check whether this build of the service is fixed; trials of both builds take turns
    #[arg(long, value_name = "CMD", requires = "serve", help_heading = SERVICE)]
    fixed: Option<String>,
    /// Load a service that is already running: a PID, or `listener` for the process at the URL
    #[arg(long, value_name = "PID|listener", conflicts_with_all = ["serve", "fixed"], help_heading = SERVICE)]
    attach: Option<AttachedProcess>,
    /// When the service is ready for requests [default: tcp]
    ///
    /// `tcp`: it accepts connections; a path such as /healthz: it answers there; `log:REGEX`: it prints a
    /// line that matches; a time such as 2s: after this time.
    #[arg(long, value_name = "tcp|/PATH|log:REGEX|TIME", help_heading = SERVICE)]
    ready: Option<ReadyWhen>,
    /// Wait at most this long until the service is ready [default: 60s]
    #[arg(long, value_name = "TIME", help_heading = SERVICE, hide_short_help = true)]
    ready_limit: Option<DurationValue>,
    /// Treat the service as hung after this long without a response [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = SERVICE)]
    hang_after: Option<DurationValue>,
    /// Wait this long after the load before the trial passes [default: 500ms]
    #[arg(long, value_name = "TIME", help_heading = SERVICE, hide_short_help = true)]
    quiet_time: Option<DurationValue>,

    /// Number of concurrent clients, or levels such as 1..64 or 8,9,10 [default: 10]
    ///
    /// Each client sends its next request when the previous one is answered. With several levels, provoke
    /// searches for the lowest level that crashes the service, and tests the level right below it.
    #[arg(short, long, value_name = "N|A..B", help_heading = LOAD)]
    clients: Option<Concurrency>,
    /// Send requests at a fixed rate, such as 50/s, instead of with a fixed number of clients
    ///
    /// An open loop: requests are sent on time even if earlier ones are not answered yet.
    #[arg(long, value_name = "N/s", conflicts_with = "clients", help_heading = LOAD)]
    rate: Option<Frequency>,
    /// With --rate: open at most this many connections [default: 100]
    #[arg(long, value_name = "N", requires = "rate", help_heading = LOAD, hide_short_help = true)]
    connections: Option<NonZeroU32>,
    /// Request method [default: GET; POST with a body]
    #[arg(short = 'X', long, value_name = "METHOD", help_heading = LOAD)]
    method: Option<String>,
    /// Send this header, such as 'content-type: image/jpeg'
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = parse_header, help_heading = LOAD)]
    header: Vec<(String, String)>,
    /// Send this body; or take bodies from files: @images/*.jpg
    #[arg(short, long, value_name = "TEXT|@FILE", help_heading = LOAD)]
    body: Option<String>,
    /// Requests per trial [default: 2000]
    #[arg(long, value_name = "N", help_heading = LOAD)]
    requests: Option<NonZeroU64>,
    /// Time under load per trial, instead of a number of requests
    #[arg(long, value_name = "TIME", conflicts_with = "requests", help_heading = LOAD)]
    time: Option<DurationValue>,
    /// Send N requests first, from one client, and do not count them [default: 20]
    #[arg(long, value_name = "N", help_heading = LOAD, hide_short_help = true)]
    warm_requests: Option<u64>,
    /// Pause of a client between a response and its next request
    #[arg(long, value_name = "TIME", help_heading = LOAD, hide_short_help = true)]
    think: Option<DurationValue>,
    /// Start the clients over this time [default: all at once]
    #[arg(long, value_name = "TIME", help_heading = LOAD, hide_short_help = true)]
    spread: Option<DurationValue>,
    /// Failure rate at which a load level counts as failing [default: 10%]
    #[arg(long, value_name = "P", help_heading = LOAD, hide_short_help = true)]
    detect: Option<RateValue>,
    /// Accepted without effect: every load level is a candidate
    #[arg(long, hide = true)]
    exact: bool,

    /// HTTP version [default: 1.1]
    #[arg(long, value_name = "1.1|2|2-prior-knowledge", value_parser = parse_http, help_heading = CONNECTION, hide_short_help = true)]
    http: Option<HttpVersion>,
    /// Connect to this Unix socket instead of host and port
    #[arg(long, value_name = "SOCKET", help_heading = CONNECTION, hide_short_help = true)]
    unix: Option<PathBuf>,
    /// Close a connection after N requests; 1: a new connection for each [default: no limit]
    #[arg(long, value_name = "N", help_heading = CONNECTION, hide_short_help = true)]
    requests_per_connection: Option<NonZeroU32>,
    /// Connect timeout [default: 1s]
    #[arg(long, value_name = "TIME", help_heading = CONNECTION, hide_short_help = true)]
    connect_limit: Option<DurationValue>,
    /// Request timeout [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = CONNECTION, hide_short_help = true)]
    request_limit: Option<DurationValue>,
    /// Trust the certificates in FILE, in addition to the system's
    #[arg(long, value_name = "FILE", help_heading = CONNECTION, hide_short_help = true)]
    ca: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long, help_heading = CONNECTION, hide_short_help = true)]
    insecure: bool,
    /// Write every request to a file, not only the requests before a crash
    #[arg(long, help_heading = CONNECTION, hide_short_help = true)]
    log_requests: bool,
    /// Allow load on another machine: repeat the host of the URL
    #[arg(long = "i-own-this-target", value_name = "HOST", help_heading = CONNECTION, hide_short_help = true)]
    own_target: Option<String>,
}

/// Maximum number of kinds of errors in the live line.
const ERRORS: usize = 3;

const SERVICE: &str = "Service";
const LOAD: &str = "Load";
const CONNECTION: &str = "Connections";

impl LoadArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let Self {
            target,
            shrink,
            about,
            mut rest,
        } = self;
        let (url, file) = match target {
            Some(target) if target.contains("://") => (Some(target), None),
            Some(target) => (None, Some(PathBuf::from(target))),
            None => (None, None),
        };
        if let Some(file) = &file
            && !file.is_file()
        {
            return Err(neither_url_nor_file(file));
        }
        if let Some((flag, hint)) = rest.flags.not_for_service() {
            let error = anyhow::anyhow!("`{flag}` does not apply to a service under load");
            return Err(CliError::usage(error).with_hint(hint));
        }
        rest.file = rest.file.or(file);
        if about.exact {
            crate::term::print_message(
                "hint: leave out --exact: every load level of the range is a candidate",
            );
        }
        for command in [&about.serve, &about.fixed].into_iter().flatten() {
            split_words(command)?;
        }
        let overlay = |scenario: &mut Scenario| {
            about.clone().overlay_scenario(url.clone(), scenario);
        };
        match shrink {
            Some(run) => rest.shrink_run(&run, overlay),
            None => rest.ask_question(overlay),
        }
    }
}

fn neither_url_nor_file(file: &Path) -> CliError {
    let error = anyhow::anyhow!("`{}` is neither a URL nor a file", file.to_safe());
    CliError::usage(error).with_hint("a URL begins with http:// or https://")
}

fn split_words(command: &str) -> Result<Vec<String>, CliError> {
    let words = shlex::split(command).filter(|words| !words.is_empty());
    words.ok_or_else(|| {
        let error = anyhow::anyhow!("`{command}` is not a command");
        CliError::usage(error)
            .with_hint("check that every quote is closed and that the command is not empty")
    })
}

/// Describes the progress of the running trial.
pub(super) fn watch_progress(live: Arc<LoadProgress>) -> Box<dyn Fn() -> String> {
    let last = Cell::new((Instant::now(), 0_u64, 0.0));
    Box::new(move || {
        let of = |what: &AtomicU64| what.load(Ordering::Relaxed);
        let stage = match live.current_stage() {
            LoadStage::Starting => return "starting".to_owned(),
            LoadStage::WarmUp => "warm-up",
            LoadStage::Loading => "load",
            LoadStage::Settling | LoadStage::Over => return "quiet time".to_owned(),
        };
        let (then, before, rate) = last.get();
        let (now, served) = (Instant::now(), of(&live.served));
        let seconds = now.duration_since(then).as_secs_f64();
        // A rate over a shorter time fluctuates too much.
        let rate = if seconds > 0.5 {
            let rate = real(served.saturating_sub(before)) / seconds;
            last.set((now, served, rate));
            rate
        } else {
            rate
        };
        let latency = words::format_seconds(real(of(&live.latency_us)) / 1e6);
        format!(
            "{stage} {rate:.0}/s, {} in flight, {latency}, {} so far",
            of(&live.in_flight),
            describe_errors(&live.frequent_errors()),
        )
    })
}

/// Time over which the throughput is measured.
const MEASURED: Duration = Duration::from_secs(1);

/// Returns a function for the responses per second of the first service trial, once they are known.
pub(super) fn watch_rate(live: Arc<LoadProgress>) -> Box<dyn Fn() -> Option<f64>> {
    let began: Cell<Option<(Instant, u64)>> = Cell::new(None);
    Box::new(move || {
        if live.current_stage() != LoadStage::Loading {
            return None;
        }
        let served = live.served.load(Ordering::Relaxed);
        let Some((since, before)) = began.get() else {
            began.set(Some((Instant::now(), served)));
            return None;
        };
        let elapsed = since.elapsed();
        let measured = real(served.saturating_sub(before)) / elapsed.as_secs_f64();
        (elapsed >= MEASURED).then_some(measured)
    })
}

/// Lists the errors by kind, the most frequent first.
fn describe_errors(all: &[(String, u64)]) -> String {
    let sum = all.iter().map(|(_, count)| count).sum();
    let sum = words::format_count(sum, "error");
    if all.is_empty() {
        return sum;
    }
    let shown = all.iter().take(ERRORS);
    let shown = shown.map(|(name, count)| format!("{count} {}", words::sanitize_line(name)));
    let mut shown: Vec<String> = shown.collect();
    if all.len() > ERRORS {
        shown.push("others".to_owned());
    }
    format!("{sum} ({})", shown.join(", "))
}

impl LoadFlags {
    fn overlay_scenario(self, url: Option<String>, scenario: &mut Scenario) {
        if let Some(words) = self
            .serve
            .as_deref()
            .and_then(|line| split_words(line).ok())
        {
            scenario.command = Some(words);
            scenario.shell = None;
        }
        if let Some(words) = self
            .fixed
            .as_deref()
            .and_then(|line| split_words(line).ok())
        {
            let variant = |name: &str, command| Variant {
                name: name.to_owned(),
                command,
                ..Variant::default()
            };
            scenario.ask = Some(QuestionSettings::Compare);
            scenario.fixed = Some(true);
            scenario.variants = vec![variant("old", None), variant("fixed", Some(words))];
        }
        if self.method.is_some() || !self.header.is_empty() || self.body.is_some() {
            let file = self.body.as_ref().and_then(|body| body.strip_prefix('@'));
            scenario.requests = vec![Request {
                method: self.method,
                headers: self.header.into_iter().collect(),
                body_files: file.map(str::to_owned).into_iter().collect(),
                body: self.body.clone().filter(|body| !body.starts_with('@')),
                ..Request::default()
            }];
        }
        let load = scenario.load.get_or_insert_with(Said::default);
        set_if_given(&mut load.url, url);
        set_if_given(&mut load.attach, self.attach);
        set_if_given(&mut load.ready, self.ready);
        set_if_given(&mut load.ready_limit, self.ready_limit);
        set_if_given(&mut load.hang_after, self.hang_after);
        set_if_given(&mut load.quiet_time, self.quiet_time);
        if self.clients.is_some() || self.rate.is_some() {
            (load.clients, load.rate) = (self.clients, self.rate);
        }
        set_if_given(&mut load.connections, self.connections);
        if self.requests.is_some() || self.time.is_some() {
            (load.requests, load.time) = (self.requests, self.time);
        }
        set_if_given(&mut load.warm_requests, self.warm_requests);
        set_if_given(&mut load.think, self.think);
        set_if_given(&mut load.spread, self.spread);
        set_if_given(&mut load.detect, self.detect);
        set_if_given(&mut load.http, self.http);
        set_if_given(&mut load.unix, self.unix);
        set_if_given(
            &mut load.requests_per_connection,
            self.requests_per_connection,
        );
        set_if_given(&mut load.connect_limit, self.connect_limit);
        set_if_given(&mut load.request_limit, self.request_limit);
        set_if_given(&mut load.ca, self.ca);
        set_if_given(&mut load.insecure, self.insecure.then_some(true));
        set_if_given(&mut load.log_requests, self.log_requests.then_some(true));
        set_if_given(&mut load.own_target, self.own_target);
    }
}

/// Sets a field if a value was given.
fn set_if_given<T>(field: &mut Option<T>, given: Option<T>) {
    if given.is_some() {
        *field = given;
    }
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn parse_http(text: &str) -> Result<HttpVersion, String> {
    match text {
        "1.1" => Ok(HttpVersion::One),
        "2" => Ok(HttpVersion::Two),
        "2-prior-knowledge" => Ok(HttpVersion::TwoPrior),
        _ => Err("write `1.1`, `2` or `2-prior-knowledge`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_line_says_which_errors() {
        let all = [("refused", 9), ("status 503", 4), ("timeout (head)", 1)];
        let mut all: Vec<(String, u64)> = all.map(|(name, n)| (name.to_owned(), n)).into();
        assert_eq!(describe_errors(&[]), "0 errors");
        assert_eq!(
            describe_errors(&all),
            "14 errors (9 refused, 4 status 503, 1 timeout (head))"
        );
        all.push(("TLS: \x1b[1m".to_owned(), 1));
        assert_eq!(
            describe_errors(&all),
            "15 errors (9 refused, 4 status 503, 1 timeout (head), others)"
        );
    }
}
