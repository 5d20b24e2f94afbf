//! Lists the cases of a report: `read_cases FORMAT FILE`.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use provoke_runners::{ctest, go, gtest, junit, libtest, stream, tap};
use std::fs::File;
use std::io::BufReader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage =
        "usage: read_cases stream|junit|nextest|ctest|ctest-output|go|gtest|libtest|tap FILE";
    let mut arguments = std::env::args().skip(1);
    let (Some(format), Some(path)) = (arguments.next(), arguments.next()) else {
        return Err(usage.into());
    };
    let input = BufReader::new(File::open(path)?);
    let cases = match format.as_str() {
        "stream" => stream::read_stream(input),
        "junit" => junit::read_junit(input),
        "nextest" => junit::read_nextest(input),
        "ctest" => junit::read_ctest(input),
        "ctest-output" => ctest::read_output(input),
        "go" => go::read_go(input),
        "tap" => tap::read_tap(input),
        "gtest" => gtest::read_gtest(input),
        "libtest" => libtest::read_libtest(input, |_| Vec::new()),
        _ => return Err(usage.into()),
    };
    for result in &cases.results {
        // Reports contain text that someone else chose: debug formats escape control characters.
        let failure = result.failure.as_ref();
        println!(
            "{:?} {:?} x{} {:?} {:?} {:?} {:?}",
            result.case.to_string(),
            result.end,
            result.attempts.max(1),
            failure.map(|failure| &failure.kind),
            failure.map(|failure| &failure.message),
            failure.and_then(|failure| failure.site.as_ref().map(ToString::to_string)),
            failure.and_then(|failure| failure.signal)
        );
    }
    for case in cases.unstarted_cases() {
        println!("{:?} not started", case.to_string());
    }
    for complaint in &cases.complaints {
        println!("complaint: {complaint:?}");
    }
    Ok(())
}
