//! Tests the worked example of `docs/first-crash.md` as it is written, and the examples of the library.

use super::support::{PROVOKE, Sandbox, example, words};
use crate::needs::{needs, program};
use std::path::Path;

#[test]
fn the_commands_of_first_crash_find_and_confirm_a_fix() {
    needs!(program("git"), program("make"));
    let sandbox = Sandbox::new();
    let history = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/till/history.sh");
    let status = sandbox
        .program_command("sh", &[history.to_str().unwrap(), "."])
        .status();
    assert!(status.unwrap().success());
    let make = || {
        assert!(
            sandbox
                .program_command("make", &["-s"])
                .status()
                .unwrap()
                .success()
        );
    };
    make();

    let run = sandbox.provoke(&words("run --max-fail 3 --seed 3 -- ./till orders.txt"));
    assert!(
        run.stdout
            .contains("SIGSEGV in 3 of 34 trials: 8.8 % (95 % interval 1.8 to 24 %)"),
        "{run}"
    );
    let name = std::fs::read_link(sandbox.path("provoke-out/last")).unwrap();

    assert!(run.stdout.contains("till.c:35 in with_coupon"), "{run}");
    let explain = sandbox.provoke(&["explain", "last"]);
    assert!(explain.stdout.contains("till.c:35"), "{explain}");

    let reduce = sandbox.provoke(&words(
        "reduce --lines orders.txt --only SIGSEGV --seed 1 -- ./till orders.txt",
    ));
    let needed = "`order lamp 1 coupon kettle` (line 5) is needed; without it, 0 of";
    assert!(reduce.stdout.contains(needed), "{reduce}");

    let bisect = sandbox.provoke(&words(
        "bisect --git v1.0..main --build make --seed 1 --conf 99.9 -- ./till orders.txt",
    ));
    // The search tries the candidate with the lowest cost, which varies, so a high confidence is used.
    let culprit = "ae1c2f2 \"coupons: a gift with an order\" is the first bad commit";
    assert!(bisect.stdout.contains(culprit), "{bisect}");

    let source = sandbox.read("till.c");
    let (before, coupon) = source.split_once("static int with_coupon").unwrap();
    let coupon = coupon.replacen(
        "struct price *price = look_up",
        "struct price price = *look_up",
        1,
    );
    let repaired = format!(
        "{before}static int with_coupon{}",
        coupon.replacen("price->", "price.", 3)
    );
    sandbox.write("till.c", &repaired);
    make();
    let confirm = sandbox.provoke(&["confirm", "--baseline", name.to_str().unwrap()]);
    assert_eq!(confirm.code, Some(0), "{confirm}");
    assert!(
        confirm
            .stdout
            .contains("FIXED (95 %): 117 passing trials; before, 3 of 34 failed"),
        "{confirm}"
    );
}

#[test]
fn the_examples_of_the_library_run() {
    let sandbox = Sandbox::new();
    let output_of = |name: &str, args: &[&str]| {
        let ended = sandbox
            .program_command(&example(name), args)
            .output()
            .unwrap();
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    };
    // It depends on chance whether its threads meet.
    assert!(output_of("executor", &[]).contains(" of 500 trials"));
    assert_eq!(
        output_of("question", &[]),
        "10 of 61 failed; the longest series of passes was 12\n"
    );
    let text = output_of("experiment", &[]);
    assert!(
        text.starts_with("exit 1 in 14 of 100 trials: 14 % ") && text.ends_with("\nFailing\n"),
        "{text}"
    );
    sandbox.provoke(&[
        "run", "-n", "7", "--", PROVOKE, "victim", "exit", "--rate", "100%",
    ]);
    let text = output_of("journal", &["last"]);
    assert!(
        text.contains("     7  ") && text.contains("exit 1"),
        "{text}"
    );
}
