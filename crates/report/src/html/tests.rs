//! Tests the form, the safety and the size of pages.

use super::page_tree::{assert_harmless, parse_page, text_lines};
use super::*;
use crate::tests::{
    SEGV, SimulatedRun, crashed, died, failure, hostile_run, passed, plan, run_with_every_ending,
};
use crate::{
    ExportOptions, Exporter, JSONL, JUNIT, MARKDOWN, MaskedRun, RunOfTrend, RunOrder,
    export_pictures, export_report, export_trend,
};
use provoke_model::{Ending, EvidenceDepth, FailureKind, Outcome, Plan, SignatureId, Text};
use provoke_questions as questions;

/// Text that is markup, in every context of a page.
const MARKUP: &str = "</style></title></script><script>alert(1)</script><img src=x onerror=alert(2)>\" ' onload=\"x\0\u{1b}[31m\u{202e}\u{2066}\u{200b}";

fn page_with(run: &SimulatedRun, options: PageOptions) -> String {
    let mut out = Vec::new();
    let options = ExportOptions {
        environment: true,
        page: options,
    };
    let report = run.report();
    let run = MaskedRun::new(&run.folder, &report).unwrap();
    export_report(&HTML, &run, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn page_of(run: &SimulatedRun) -> String {
    page_with(run, PageOptions::default())
}

/// Returns a run in which every text that others choose is markup.
fn run_of_markup() -> SimulatedRun {
    let mut hostile_plan = plan(40);
    for variant in &mut hostile_plan.trials.variants {
        for actor in &mut variant.actors {
            let word = format!("/tmp/{}", MARKUP.replace('\0', ""));
            actor.command = vec![
                Text::from(word.as_str()),
                Text::from("\u{202e}".to_owned().as_str()),
            ];
        }
    }
    let mut run = SimulatedRun::new(hostile_plan);
    for number in 1..=40 {
        if number % 4 != 0 {
            run.trial(number, passed());
            continue;
        }
        let mut failed = failure(SEGV);
        failed.signature.title = format!("SIGSEGV in {MARKUP}");
        failed.signature.depth = EvidenceDepth::Stack;
        failed.sites = vec![provoke_model::Site {
            file: format!("/src/{MARKUP}.c"),
            line: 7,
            function: Some(MARKUP.to_owned()),
            ..provoke_model::Site::default()
        }];
        run.keep(number, "stderr", MARKUP.as_bytes());
        run.keep(number, "stdout", b"\xff\xfe");
        let ending = Ending::Exited(1);
        run.trial(
            number,
            (died(ending, MARKUP), Outcome::Fail(Box::new(failed))),
        );
    }
    run.note(MARKUP);
    run.finish();
    run
}

#[test]
fn pages_are_well_formed_and_have_only_harmless_elements() {
    for run in [
        run_with_every_ending(),
        hostile_run(),
        run_of_markup(),
        SimulatedRun::new(plan(5)),
    ] {
        assert_harmless(&page_of(&run));
    }
}

#[test]
fn no_text_from_outside_becomes_markup() {
    let page = page_of(&run_of_markup());
    let elements = assert_harmless(&page);
    let title = elements
        .iter()
        .find(|element| element.name == "title")
        .unwrap();
    assert!(title.text.contains("in 10 of 40 trials"), "{}", title.text);
    assert!(title.text.contains("</style>"), "{}", title.text);
    for misleading in ['\0', '\u{1b}', '\u{202e}', '\u{2066}', '\u{200b}'] {
        assert!(!page.contains(misleading), "{misleading:?}");
    }
    // The text is there as text, in the title of the failure, in the line of source code and in the output.
    let shown = page
        .matches("&lt;script&gt;alert(1)&lt;/script&gt;")
        .count();
    assert!(shown >= 5, "{shown}");
}

#[test]
fn a_page_describes_every_kind_of_ending() {
    let page = page_of(&run_with_every_ending());
    insta::assert_snapshot!(text_lines(&page));
    let mut sections: Vec<String> = parse_page(&page)
        .into_iter()
        .map(|element| element.section)
        .collect();
    sections.dedup();
    let expected = [
        "",
        "how-often",
        "results",
        "next",
        "failures",
        "time",
        "slots",
        "durations",
        "environment",
        "method",
    ];
    assert_eq!(sections, expected);
}

fn trend_of(runs: &[&SimulatedRun], options: &PageOptions) -> String {
    let read: Vec<_> = runs
        .iter()
        .map(|run| {
            let state =
                provoke_journal::read_run(&run.folder.journal_path(), questions::FOLD, |_, _| {})
                    .unwrap();
            (state, run.report())
        })
        .collect();
    let runs: Vec<RunOfTrend<'_>> = runs
        .iter()
        .zip(&read)
        .map(|(run, (state, report))| RunOfTrend {
            run: MaskedRun::new(&run.folder, report).unwrap(),
            state,
        })
        .collect();
    let mut out = Vec::new();
    export_trend(&runs, RunOrder::Given, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns a run with this number of failures among 100 trials.
fn run_with_failures(failures: u64) -> SimulatedRun {
    let mut run = SimulatedRun::new(plan(100));
    for number in 1..=100 {
        let is_failure = number * failures / 100 > (number - 1) * failures / 100;
        run.trial(number, if is_failure { crashed("") } else { passed() });
    }
    run.finish();
    run
}

#[test]
fn a_page_about_several_runs_says_whether_their_rates_differ() {
    let [clean, few, many] = [0, 3, 30].map(run_with_failures);
    let page = trend_of(&[&few, &many], &PageOptions::default());
    let elements = assert_harmless(&page);
    let heading = |elements: &[page_tree::PageElement]| {
        let mut elements = elements.iter();
        elements
            .find(|element| element.name == "h1")
            .unwrap()
            .text
            .clone()
    };
    assert_eq!(
        heading(&elements),
        "The failure rates of 2 runs differ (p < 0.001)"
    );
    let options = PageOptions {
        title: Some("Nightly".to_owned()),
        ..PageOptions::default()
    };
    let page = trend_of(&[&clean, &few, &few], &options);
    let elements = assert_harmless(&page);
    assert_eq!(
        heading(&elements),
        "The failure rates of 3 runs do not clearly differ (p = 0.55)"
    );
    assert!(page.contains("<title>Nightly – The failure rates"));
    // The failure was first seen in the second run.
    assert!(page.contains("<strong>new</strong>"));
}

#[test]
fn a_page_about_several_runs_joins_the_signatures_of_one_failure() {
    let failed_by = |id: u32, depth, also: &[(EvidenceDepth, SignatureId)]| {
        let (seen, outcome) = crashed("");
        let Outcome::Fail(mut failure) = outcome else {
            unreachable!("it crashed");
        };
        failure.signature.id = SignatureId(id);
        failure.signature.title = format!("SIGSEGV known by the {depth}");
        failure.signature.depth = depth;
        failure.signature.also = also.to_vec();
        (seen, Outcome::Fail(failure))
    };
    let logged = (EvidenceDepth::Kernel, SignatureId(8));
    let mut run = SimulatedRun::new(plan(3));
    run.trial(1, failed_by(7, EvidenceDepth::Stack, &[logged]));
    run.trial(2, failed_by(8, EvidenceDepth::Kernel, &[]));
    run.trial(3, passed());
    run.finish();
    let page = trend_of(&[&run, &run], &PageOptions::default());
    assert!(page.contains("SIGSEGV known by the stack"), "{page}");
    assert!(!page.contains("SIGSEGV known by the kernel"), "{page}");
}

#[test]
fn a_page_about_several_runs_is_safe() {
    let page = trend_of(
        &[&run_of_markup(), &run_with_failures(1)],
        &PageOptions::default(),
    );
    let elements = assert_harmless(&page);
    let heading = elements
        .iter()
        .find(|element| element.name == "h1")
        .unwrap();
    assert_eq!(
        heading.text,
        "2 runs, none of which can be compared with the first"
    );
    assert!(page.contains("another command"));
}

#[test]
fn a_page_loads_nothing_and_runs_nothing() {
    let page = page_of(&run_with_every_ending());
    for word in [
        " src=",
        "url(",
        "http:",
        "https:",
        "@import",
        "<script",
        " style=",
        "javascript:",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    let handlers = regex::Regex::new(r"<[^>]* on\w+=").unwrap();
    assert!(!handlers.is_match(&page));
    let style = parse_page(&page)
        .into_iter()
        .find(|element| element.name == "style")
        .unwrap();
    assert_eq!(style.text, style::STYLE);
}

#[test]
fn long_text_and_many_signatures_do_not_make_a_page_large() {
    let mut run = SimulatedRun::new(plan(200));
    let long = "<".repeat(4 << 20);
    for number in 1..=200 {
        let mut failed = failure(FailureKind::Exit {
            code: i32::try_from(number).unwrap(),
        });
        failed.signature.title = format!("{number} {}", &long[..5000]);
        failed.signature.depth = EvidenceDepth::Output;
        let ending = Ending::Exited(i32::try_from(number).unwrap());
        if number <= 30 {
            run.keep(number, "stderr", long.as_bytes());
        }
        run.trial(
            number,
            (died(ending, &long[..1000]), Outcome::Fail(Box::new(failed))),
        );
    }
    run.note(&long);
    run.finish();
    let page = page_of(&run);
    assert_harmless(&page);
    assert!(page.len() <= LARGEST, "{}", page.len());
    let without_output = PageOptions {
        without_output: true,
        ..PageOptions::default()
    };
    let page = page_with(&run, without_output);
    assert!(page.len() <= SMALL, "{}", page.len());
    assert!(page.contains("The output of the trials is left out."));
}

#[test]
fn many_variants_do_not_make_a_page_large() {
    let mut many = plan(1);
    let variant = many.trials.variants[0].clone();
    many.trials.variants = (0..2000)
        .map(|number| provoke_model::VariantPlan {
            name: format!("{number} {}", "long name ".repeat(20)),
            ..variant.clone()
        })
        .collect();
    let mut run = SimulatedRun::new(many);
    for index in 0..2000 {
        run.start(u64::from(index) + 1, index);
        run.end(
            u64::from(index) + 1,
            if index % 3 == 0 {
                crashed("")
            } else {
                passed()
            },
        );
    }
    run.finish();
    let page = page_of(&run);
    assert_harmless(&page);
    assert!(page.len() <= SMALL, "{}", page.len());
    assert!(page.contains("more in the JSON report"));
}

#[test]
fn output_is_left_out_on_request() {
    let mut run = SimulatedRun::new(plan(1));
    run.keep(1, "stderr", b"canary\n");
    run.trial(1, crashed("canary"));
    run.finish();
    assert!(page_of(&run).contains("canary"));
    let options = PageOptions {
        without_output: true,
        title: Some("Nightly".to_owned()),
        ..PageOptions::default()
    };
    let page = page_with(&run, options);
    assert!(!page.contains("canary"));
    assert!(page.contains("<title>Nightly – "));
}

#[test]
fn the_name_of_the_machine_is_shown_only_on_request() {
    let run = run_with_every_ending();
    assert!(!page_of(&run).contains("workstation"));
    let options = PageOptions {
        with_host: true,
        ..PageOptions::default()
    };
    assert!(page_with(&run, options).contains("workstation"));
}

#[test]
fn paths_below_the_home_directory_are_shortened() {
    let home = |text: &str| shorten_home(text, "/home/ann");
    assert_eq!(home("/home/ann/a.c, \"/home/ann\""), "~/a.c, \"~\"");
    assert_eq!(
        home("/home/anna/a /mnt/home/ann/b"),
        "/home/anna/a /mnt/home/ann/b"
    );
    let mut with_home: Plan = plan(1);
    with_home.trials.environment = vec![("HOME".into(), "/home/ann".into())];
    let mut run = SimulatedRun::new(with_home);
    run.keep(1, "stderr", b"at /home/ann/src/a.c:7\n");
    run.trial(1, crashed("at /home/ann/src/a.c:7"));
    run.finish();
    let page = page_of(&run);
    assert!(page.contains("at ~/src/a.c:7"));
    assert!(!page.contains("/home/ann"));
}

#[test]
fn secrets_of_the_environment_are_not_on_the_page() {
    let mut with_secret = plan(1);
    with_secret.trials.environment = vec![("API_TOKEN".into(), "canary-1234567".into())];
    let mut run = SimulatedRun::new(with_secret);
    run.keep(1, "stderr", b"token canary-1234567\n");
    run.trial(1, crashed("token canary-1234567"));
    run.finish();
    let formats: [&Exporter; 3] = [&HTML, &MARKDOWN, &JUNIT];
    for format in formats {
        let text = run.export(format);
        assert!(!text.contains("canary"), "{format:?}");
        assert!(text.contains("token ***"), "{format:?}");
    }
}

#[test]
fn pictures_are_files_with_the_marks_of_the_page_and_harmless_text() {
    let run = run_of_markup();
    let report = run.report();
    let shown = MaskedRun::new(&run.folder, &report).unwrap();
    let pictures = export_pictures(&shown, &PageOptions::default()).unwrap();
    let names: Vec<&str> = pictures.iter().map(|picture| picture.name).collect();
    assert_eq!(
        names,
        ["rates.svg", "trials.svg", "windows.svg", "durations.svg"]
    );
    let allowed = [
        "svg", "title", "desc", "style", "rect", "text", "line", "path", "circle",
    ];
    for picture in &pictures {
        for tag in picture.svg.split('<').skip(1) {
            let name = tag.trim_start_matches('/').split([' ', '>']).next();
            assert!(allowed.contains(&name.unwrap_or_default()), "{tag}");
        }
        assert!(!picture.svg.contains('\u{202e}') && !picture.svg.contains('\0'));
        assert!(picture.svg.contains("SIGSEGV in 10 of 40 trials"));
    }
}

#[test]
fn failures_under_a_hold_are_a_kind_of_their_own() {
    let mut run = SimulatedRun::new(plan(4));
    run.trial(1, passed());
    run.held_trial(2, passed());
    run.held_trial(3, crashed(""));
    run.trial(4, passed());
    run.finish();
    let page = page_of(&run);
    for text in ["passed under a hold", "failed under a hold"] {
        assert!(page.contains(text), "{text}");
    }
    let rows = run.export(&JSONL);
    let classes: Vec<serde_json::Value> = rows
        .lines()
        .map(|row| serde_json::from_str::<serde_json::Value>(row).unwrap()["class"].clone())
        .collect();
    assert_eq!(classes, ["pass", "held", "held", "pass"]);
}
