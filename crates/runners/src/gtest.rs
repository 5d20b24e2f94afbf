//! Reader of the output of googletest.
//!
//! A binary that dies does not write its XML, but its output shows the test that was running. The tests are named
//! `Suite.Name`, as in `--gtest_filter`.

use super::collector::{CaseCollector, join_ends};
use super::lines::read_lines;
use super::runner::{OrderControl, RUNNER, Runner};
use super::site::parse_site;
use super::test_output::TestOutput;
use super::text::clip_message;
use super::trial_report::STDOUT;
use provoke_model::{CaseEnd, CaseFailure, CaseName, CaseOrder, Site, Text, TrialCases};
use std::io::BufRead;
use std::time::Duration;

/// A program with GoogleTest, by its output.
pub(crate) static GTEST: Runner = Runner {
    name: "gtest",
    title: "GoogleTest",
    order: OrderControl::Seed,
    reads_stdout: true,
    adapt: |command, place| {
        let seed = match place.order {
            Some(CaseOrder::OfTrial) => "{short_seed}".to_owned(),
            Some(CaseOrder::OfSeed(seed)) => seed.to_string(),
            Some(CaseOrder::Reverse) | None => return Ok(()),
        };
        let seed = format!("--gtest_random_seed={seed}");
        command.append(["--gtest_shuffle", &seed].map(Text::from))
    },
    select: |case, command| {
        // Of several filters, GoogleTest uses the last.
        command.append([Text::from(format!("--gtest_filter={}", case.name))])
    },
    read: |report| report.read_file(STDOUT, read_gtest),
    ..RUNNER
};

/// The test that is running.
struct RunningTest {
    name: String,
    output: TestOutput,
}

/// A line about a test.
enum TestLine<'a> {
    Start(&'a str),
    /// The text after the mark, and output of the test in front of the mark.
    End(CaseEnd, &'a str, &'a str),
    Disabled(&'a str),
}

/// Reads the output of one or several binaries of googletest, one after the other.
///
/// The test that was running at the end has the end [`CaseEnd::Unknown`].
pub fn read_gtest(input: impl BufRead) -> TrialCases {
    let mut collector = CaseCollector::default();
    let mut running: Option<RunningTest> = None;
    let mut repeated = 0_usize;
    let complaint = read_lines(input, |line| match parse_line(line.text) {
        Some(TestLine::Start(name)) => {
            if let Some((position, is_new)) =
                collector.find_or_insert(&CaseName::without_suite(name))
            {
                repeated += usize::from(!is_new);
                collector.result_mut(position).attempts += 1;
            }
            running = Some(RunningTest {
                name: name.to_owned(),
                output: TestOutput::default(),
            });
        }
        Some(TestLine::End(end, rest, before)) => {
            // The lists at the end have the same marks, when no test is running.
            let is_running = |test: &mut RunningTest| {
                rest.strip_prefix(test.name.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', ',']))
            };
            if let Some(mut test) = running.take_if(is_running) {
                test.output.push(before);
                end_test(&mut collector, &test, end, parse_millis(rest));
            }
        }
        Some(TestLine::Disabled(name)) => {
            if let Some((position, true)) = collector.find_or_insert(&CaseName::without_suite(name))
            {
                collector.result_mut(position).end = CaseEnd::Skipped;
            }
        }
        None => {
            if let Some(test) = &mut running {
                test.output.push(line.text);
                test.output.push("\n");
            }
        }
    });
    if let Some(test) = running
        && let Some((position, _)) = collector.find_or_insert(&CaseName::without_suite(test.name))
    {
        collector.result_mut(position).end = CaseEnd::Unknown;
    }
    if repeated > 0 {
        collector.complain(
            "tests ran several times in this trial: a case fails if any of its runs fails; leave out `--gtest_repeat`",
        );
    }
    if let Some(complaint) = complaint {
        collector.complain(complaint);
    }
    collector.finish()
}

fn parse_line(line: &str) -> Option<TestLine<'_>> {
    if let Some(name) = line.strip_prefix("[ RUN      ] ") {
        return Some(TestLine::Start(name));
    }
    if let Some(name) = line.strip_prefix("[ DISABLED ] ") {
        return Some(TestLine::Disabled(name));
    }
    // Output of the test without a line end may precede the mark.
    let ends = [
        ("[       OK ] ", CaseEnd::Passed),
        ("[  FAILED  ] ", CaseEnd::Failed),
        ("[  SKIPPED ] ", CaseEnd::Skipped),
    ];
    ends.into_iter().find_map(|(mark, end)| {
        let (before, rest) = line.rsplit_once(mark)?;
        Some(TestLine::End(end, rest, before))
    })
}

fn end_test(collector: &mut CaseCollector, test: &RunningTest, end: CaseEnd, elapsed: Duration) {
    let Some((position, _)) =
        collector.find_or_insert(&CaseName::without_suite(test.name.as_str()))
    else {
        return;
    };
    let result = collector.result_mut(position);
    result.elapsed += elapsed;
    let failure = (end != CaseEnd::Passed).then(|| describe_failure(&test.output.text()));
    join_ends(result, end, failure);
}

/// Reads the first failure of an output: `file.cc:12: Failure`, then its message.
fn describe_failure(output: &str) -> CaseFailure {
    let mut site: Option<Site> = None;
    let mut message = Vec::new();
    for line in output.lines() {
        let place = [": Failure", ": Skipped"]
            .iter()
            .find_map(|mark| line.strip_suffix(mark));
        match place {
            Some(_) if !message.is_empty() => break,
            Some(place) => site = parse_site(place),
            None if site.is_some() || output.contains("unknown file: ") => message.push(line),
            None => {}
        }
    }
    CaseFailure {
        message: clip_message(&message.join("\n")),
        site,
        ..CaseFailure::default()
    }
}

/// Parses the time in `Suite.Name (12 ms)`.
fn parse_millis(rest: &str) -> Duration {
    rest.rsplit_once('(')
        .and_then(|(_, time)| time.strip_suffix(" ms)")?.parse().ok())
        .map(Duration::from_millis)
        .unwrap_or_default()
}
