//! `load`: a service under HTTP load, whose death is the outcome.

use super::ask::Rest;
use super::error::CliError;
use super::exit::Exit;
use crate::load::Live;
use crate::model::{Http, Stage};
use crate::report::words;
use crate::scenario::{
    Ask, Attach, Clients, Frequency, Load as Said, Rate, ReadyWhen, Request, Scenario, Span,
    Variant,
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

/// Put a service under HTTP load: does it live through it, and from how many clients on does it not?
///
/// A trial is one life of the service: it is started, made ready, warmed up, put under load, left
/// alone for a moment, and must still be alive. How it died is learnt from its process, or from one
/// below it; what clients saw is counted apart. Several kinds of requests, bodies from files and
/// what answers must be like stand in a scenario file.
#[derive(Args)]
// These are refused: a service run has no timeout, and no exit code that is fine.
#[command(mut_arg("timeout", |flag| flag.hide(true)))]
#[command(mut_arg("ok", |flag| flag.hide(true)))]
#[command(mut_arg("skip", |flag| flag.hide(true)))]
pub(super) struct Load {
    /// Where requests go, such as http://127.0.0.1:8080/classify; or a scenario file
    #[arg(value_name = "URL|FILE")]
    target: Option<String>,
    /// What of its load does a crash need? A run whose lives crash, or RUN#TRIAL: kinds of requests,
    /// bodies, how many at once, how many in a life
    #[arg(long, value_name = "RUN", conflicts_with_all = ["target", "file"])]
    shrink: Option<String>,
    #[command(flatten)]
    about: LoadFlags,
    #[command(flatten)]
    rest: Rest,
}

/// What is put under load, and how.
#[derive(Args, Clone, Debug, Default)]
struct LoadFlags {
    /// The command that is the service, as words; or give it after two dashes
    #[arg(long, value_name = "CMD", help_heading = SERVICE)]
    serve: Option<String>,
    /// Another build of the service: is it fixed? The two take turns, life by life
    #[arg(long, value_name = "CMD", requires = "serve", help_heading = SERVICE)]
    fixed: Option<String>,
    /// The service is started by somebody else: a process, or `listener` for whoever listens there
    #[arg(long, value_name = "PID|listener", conflicts_with_all = ["serve", "fixed"], help_heading = SERVICE)]
    attach: Option<Attach>,
    /// It is ready when it takes connections (tcp), answers a path (/healthz), says a line
    /// (log:REGEX), or after a time [default: tcp]
    #[arg(long, value_name = "tcp|/PATH|log:REGEX|TIME", help_heading = SERVICE)]
    ready: Option<ReadyWhen>,
    /// How long that may take [default: 60s]
    #[arg(long, value_name = "TIME", help_heading = SERVICE)]
    ready_limit: Option<Span>,
    /// Without any answer for so long it hangs [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = SERVICE)]
    hang_after: Option<Span>,
    /// How long it is left alone after the load, before it is called healthy [default: 500ms]
    #[arg(long, value_name = "TIME", help_heading = SERVICE)]
    quiet_time: Option<Span>,

    /// Clients at once, each of which waits for its answer; levels such as 1..64 or 8,9,10 ask
    /// for the first that kills it [default: 10]
    #[arg(short, long, value_name = "N|A..B", help_heading = LOAD)]
    clients: Option<Clients>,
    /// Requests come at this rate instead, whatever becomes of those before: 50/s
    #[arg(long, value_name = "N/s", conflicts_with = "clients", help_heading = LOAD)]
    rate: Option<Frequency>,
    /// With a rate: connections that requests wait for [default: 100]
    #[arg(long, value_name = "N", requires = "rate", help_heading = LOAD)]
    connections: Option<NonZeroU32>,
    /// GET, POST ... [default: GET, with a body POST]
    #[arg(short = 'X', long, value_name = "METHOD", help_heading = LOAD)]
    method: Option<String>,
    /// A header to send: 'content-type: image/jpeg'
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = header, help_heading = LOAD)]
    header: Vec<(String, String)>,
    /// A body to send; or files to take it from: @images/*.jpg
    #[arg(short, long, value_name = "TEXT|@FILE", help_heading = LOAD)]
    body: Option<String>,
    /// Requests of a life [default: 2000]
    #[arg(long, value_name = "N", help_heading = LOAD)]
    requests: Option<NonZeroU64>,
    /// Time of a life under load, instead of a number of requests
    #[arg(long, value_name = "TIME", conflicts_with = "requests", help_heading = LOAD)]
    time: Option<Span>,
    /// Requests before, by one client, that are not counted [default: 20]
    #[arg(long, value_name = "N", help_heading = LOAD)]
    warm_requests: Option<u64>,
    /// Pause of a client between an answer and its next request
    #[arg(long, value_name = "TIME", help_heading = LOAD)]
    think: Option<Span>,
    /// Time over which the clients begin [default: all at once]
    #[arg(long, value_name = "TIME", help_heading = LOAD)]
    spread: Option<Span>,
    /// A level fails when so many of its lives do [default: 10%]
    #[arg(long, value_name = "P", help_heading = LOAD)]
    detect: Option<Rate>,
    /// Try every level, not only some of them
    #[arg(long, help_heading = LOAD)]
    exact: bool,

    /// Which HTTP [default: 1.1]
    #[arg(long, value_name = "1.1|2|2-prior-knowledge", value_parser = http, help_heading = TARGET)]
    http: Option<Http>,
    /// A socket in the file system, instead of host and port
    #[arg(long, value_name = "SOCKET", help_heading = TARGET)]
    unix: Option<PathBuf>,
    /// Requests on a connection before it is closed; 1: a connection each [default: no limit]
    #[arg(long, value_name = "N", help_heading = TARGET)]
    requests_per_connection: Option<NonZeroU32>,
    /// How long it may take to connect [default: 1s]
    #[arg(long, value_name = "TIME", help_heading = TARGET)]
    connect_limit: Option<Span>,
    /// How long a whole request may take [default: 10s]
    #[arg(long, value_name = "TIME", help_heading = TARGET)]
    request_limit: Option<Span>,
    /// Certificates that are trusted besides the machine's
    #[arg(long, value_name = "FILE", help_heading = TARGET)]
    ca: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long, help_heading = TARGET)]
    insecure: bool,
    /// Write every request to a file, not only those before a death
    #[arg(long, help_heading = TARGET)]
    log_requests: bool,
    /// The host is not this machine, but yours to put under load: its name as in the URL
    #[arg(long = "i-own-this-target", value_name = "HOST", help_heading = TARGET)]
    own_target: Option<String>,
}

/// Kinds of errors that the live line has room for.
const ERRORS: usize = 3;

const SERVICE: &str = "The service";
const LOAD: &str = "The load";
const TARGET: &str = "The connections";

impl Load {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
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
            return Err(neither(file));
        }
        if let Some((flag, hint)) = rest.flags.not_for_a_life() {
            let error = anyhow::anyhow!("`{flag}` means nothing for the life of a service");
            return Err(CliError::usage(error).hinted(hint));
        }
        rest.file = rest.file.or(file);
        for command in [&about.serve, &about.fixed].into_iter().flatten() {
            words(command)?;
        }
        let overlay = |scenario: &mut Scenario| {
            about.clone().overlay(url.clone(), scenario);
        };
        match shrink {
            Some(run) => rest.shrink(&run, overlay),
            None => rest.ask(overlay),
        }
    }
}

fn neither(file: &Path) -> CliError {
    let error = anyhow::anyhow!("`{}` is neither a URL nor a file", file.safe());
    CliError::usage(error).hinted("a URL begins with http:// or https://")
}

fn words(command: &str) -> Result<Vec<String>, CliError> {
    let words = shlex::split(command).filter(|words| !words.is_empty());
    words.ok_or_else(|| {
        let error = anyhow::anyhow!("`{command}` is not a command");
        CliError::usage(error).hinted("a quote is not closed, or there is no word")
    })
}

/// Says how the life goes that is under way.
pub(super) fn watch(live: Arc<Live>) -> Box<dyn Fn() -> String> {
    let last = Cell::new((Instant::now(), 0_u64, 0.0));
    Box::new(move || {
        let of = |what: &AtomicU64| what.load(Ordering::Relaxed);
        let stage = match live.stage() {
            Stage::Starting => return "starting".to_owned(),
            Stage::WarmUp => "warm-up",
            Stage::Loading => "load",
            Stage::Settling | Stage::Over => return "left alone".to_owned(),
        };
        let (then, before, rate) = last.get();
        let (now, served) = (Instant::now(), of(&live.served));
        let seconds = now.duration_since(then).as_secs_f64();
        // A rate over less than this jumps about.
        let rate = if seconds > 0.5 {
            let rate = real(served.saturating_sub(before)) / seconds;
            last.set((now, served, rate));
            rate
        } else {
            rate
        };
        let latency = words::seconds(real(of(&live.latency_us)) / 1e6);
        format!(
            "{stage} {rate:.0}/s, {} in flight, {latency}, {} so far",
            of(&live.in_flight),
            errors(&live.errors()),
        )
    })
}

/// So long is measured how fast answers come.
const MEASURED: Duration = Duration::from_secs(1);

/// Returns how many answers a second the first service run gives under load, once that is known.
pub(super) fn rate(live: Arc<Live>) -> Box<dyn Fn() -> Option<f64>> {
    let began: Cell<Option<(Instant, u64)>> = Cell::new(None);
    Box::new(move || {
        if live.stage() != Stage::Loading {
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

/// Says how many errors of which kind there were, the most frequent first.
fn errors(all: &[(String, u64)]) -> String {
    let sum = all.iter().map(|(_, count)| count).sum();
    let sum = words::plural(sum, "error");
    if all.is_empty() {
        return sum;
    }
    let shown = all.iter().take(ERRORS);
    let shown = shown.map(|(name, count)| format!("{count} {}", words::sanitize(name)));
    let mut shown: Vec<String> = shown.collect();
    if all.len() > ERRORS {
        shown.push("others".to_owned());
    }
    format!("{sum} ({})", shown.join(", "))
}

impl LoadFlags {
    fn overlay(self, url: Option<String>, scenario: &mut Scenario) {
        if let Some(words) = self.serve.as_deref().and_then(|line| words(line).ok()) {
            scenario.command = Some(words);
            scenario.shell = None;
        }
        if let Some(words) = self.fixed.as_deref().and_then(|line| words(line).ok()) {
            let variant = |name: &str, command| Variant {
                name: name.to_owned(),
                command,
                ..Variant::default()
            };
            scenario.ask = Some(Ask::Compare);
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
        set(&mut load.url, url);
        set(&mut load.attach, self.attach);
        set(&mut load.ready, self.ready);
        set(&mut load.ready_limit, self.ready_limit);
        set(&mut load.hang_after, self.hang_after);
        set(&mut load.quiet_time, self.quiet_time);
        if self.clients.is_some() || self.rate.is_some() {
            (load.clients, load.rate) = (self.clients, self.rate);
        }
        set(&mut load.connections, self.connections);
        if self.requests.is_some() || self.time.is_some() {
            (load.requests, load.time) = (self.requests, self.time);
        }
        set(&mut load.warm_requests, self.warm_requests);
        set(&mut load.think, self.think);
        set(&mut load.spread, self.spread);
        set(&mut load.detect, self.detect);
        set(&mut load.exact, self.exact.then_some(true));
        set(&mut load.http, self.http);
        set(&mut load.unix, self.unix);
        set(
            &mut load.requests_per_connection,
            self.requests_per_connection,
        );
        set(&mut load.connect_limit, self.connect_limit);
        set(&mut load.request_limit, self.request_limit);
        set(&mut load.ca, self.ca);
        set(&mut load.insecure, self.insecure.then_some(true));
        set(&mut load.log_requests, self.log_requests.then_some(true));
        set(&mut load.own_target, self.own_target);
    }
}

/// Lets what was said win.
fn set<T>(field: &mut Option<T>, said: Option<T>) {
    if said.is_some() {
        *field = said;
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn http(text: &str) -> Result<Http, String> {
    match text {
        "1.1" => Ok(Http::One),
        "2" => Ok(Http::Two),
        "2-prior-knowledge" => Ok(Http::TwoPrior),
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
        assert_eq!(errors(&[]), "0 errors");
        assert_eq!(
            errors(&all),
            "14 errors (9 refused, 4 status 503, 1 timeout (head))"
        );
        all.push(("TLS: \x1b[1m".to_owned(), 1));
        assert_eq!(
            errors(&all),
            "15 errors (9 refused, 4 status 503, 1 timeout (head), others)"
        );
    }
}
