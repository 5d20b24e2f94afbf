//! `load`: puts a service under HTTP load, and counts its crashes as failures.

use super::execute::Execute;
use super::exit::Exit;
use super::given_flags::Given;
use super::question_flags::ExperimentArgs;
use clap::Args;
use provoke_plan::{
    ConnectionSettings, LoadTarget, Request, Scenario, ServiceSettings, TrafficSettings,
    refuse_service_flags, split_service_command,
};
use provoke_words::diagnostic::Diagnostic;

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
// These are refused: a service run has no timeout, no exit code that passes, and no tests.
#[command(mut_arg("cases", |flag| flag.hide(true)))]
#[command(mut_arg("timeout", |flag| flag.hide(true)))]
#[command(mut_arg("ok", |flag| flag.hide(true)))]
#[command(mut_arg("skip", |flag| flag.hide(true)))]
#[command(mut_arg("runs", describe_trials_flag))]
#[command(mut_args(hide_rare_flags))]
// The first word is the URL.
#[command(mut_arg("command", |command| command.trailing_var_arg(false).last(true)))]
pub(super) struct LoadArgs {
    /// The URL to send requests to, such as http://127.0.0.1:8080/; or a scenario file
    #[arg(value_name = "URL|FILE")]
    target: Option<String>,
    #[command(flatten)]
    traffic: Given<TrafficSettings>,
    #[command(flatten)]
    request: RequestFlags,
    #[command(flatten)]
    builds: ServiceBuilds,
    #[command(flatten)]
    service: Given<ServiceSettings>,
    #[command(flatten)]
    connection: Given<ConnectionSettings>,
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

/// Leaves flags that few services need out of the short help.
fn hide_rare_flags(flag: clap::Arg) -> clap::Arg {
    let rare = [
        "jobs",
        "fail_fast",
        "fail_if_out",
        "hang_after",
        "matrix",
        "max_rate",
        "serve",
        "shell",
        "time",
    ];
    let hide = flag.is_hide_short_help_set() || rare.iter().any(|name| flag.get_id() == *name);
    flag.hide_short_help(hide)
}

/// Describes `-n`, which counts starts of the service.
fn describe_trials_flag(flag: clap::Arg) -> clap::Arg {
    flag.help("Start the service this many times [default: 20]")
        .long_help(
            "Start the service this many times [default: 20]\n\n\
             With one load level, this is the number of trials of each variant; with several levels, the \
             number of trials in all [default: until the answer is known].",
        )
}

/// The commands that start the service.
#[derive(Args)]
#[command(next_help_heading = "Service")]
struct ServiceBuilds {
    /// The command that starts the service; or give it after --
    #[arg(long, value_name = "CMD")]
    serve: Option<String>,
    /// Check whether this build of the service is fixed; trials of both builds take turns
    #[arg(long, value_name = "CMD", requires = "serve")]
    fixed: Option<String>,
}

/// The request, if there is only one kind.
#[derive(Args)]
#[command(next_help_heading = "Load")]
struct RequestFlags {
    /// Request method [default: GET; POST with a body]
    #[arg(short = 'X', long, value_name = "METHOD")]
    method: Option<String>,
    /// Send this header, such as 'content-type: image/jpeg'
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = parse_header)]
    header: Vec<(String, String)>,
    /// Send this body; or take bodies from files: @images/*.jpg
    #[arg(short, long, value_name = "TEXT|@FILE")]
    body: Option<String>,
}

impl Execute for LoadArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let mut rest = self.rest;
        let target = self.target.as_deref().map(LoadTarget::from_text);
        let url = match target.transpose()? {
            Some(LoadTarget::Url(url)) => Some(url),
            Some(LoadTarget::File(file)) => {
                rest.file.get_or_insert(file);
                None
            }
            None => None,
        };
        refuse_service_flags(&rest.flags.stop.alone(), &rest.flags.judge.alone())?;
        if self.traffic.alone().exact.is_some() {
            crate::term::print_message(
                "hint: leave out --exact: every load level of the range is a candidate",
            );
        }
        let split = |command: &Option<String>| command.as_deref().map(split_service_command);
        let serve = split(&self.builds.serve).transpose()?;
        let fixed = split(&self.builds.fixed).transpose()?;
        let flags = self.request;
        let request = Request::from_flags(flags.method, &flags.header, flags.body);
        let overlay = |scenario: &mut Scenario| {
            if serve.is_some() {
                (scenario.program.command, scenario.program.shell) = (serve.clone(), None);
            }
            if let Some(fixed) = &fixed {
                scenario.compare_builds(fixed);
            }
            if let Some(request) = &request {
                scenario.outline.requests = vec![request.clone()];
            }
            let load = scenario.load.get_or_insert_default();
            load.traffic.url = url.clone().or(load.traffic.url.take());
            load.traffic.clear_replaced(&self.traffic.alone());
            self.traffic.apply_to(&mut load.traffic);
            self.service.apply_to(&mut load.service);
            self.connection.apply_to(&mut load.connection);
        };
        rest.ask_question(overlay)
    }
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
