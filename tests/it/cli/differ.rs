//! Tests `differ` with real programs: it names what precedes a failure, and nothing where only chance decides.

use super::evidence::compile;
use super::support::{CommandOutput, Sandbox};
use crate::needs::{needs, program};
use serde_json::Value;

/// Numbers that differ from trial to trial and are the same in each run, and functions that are called or not without a meaning.
const RANDOM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static unsigned long long drawn;
__attribute__((constructor)) static void seed(void) { drawn = strtoull(getenv("PROVOKE_SEED"), 0, 10); }
static unsigned draw(void) {
  unsigned long long number = __sync_add_and_fetch(&drawn, 0x9e3779b97f4a7c15);
  number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
  number = (number ^ number >> 27) * 0x94d049bb133111eb;
  return number >> 33;
}
static volatile int total;
__attribute__((noinline)) static void add(void) { if (draw() % 2) total += 1; else total -= 1; }
__attribute__((noinline)) static void work(void) { for (int i = 0; i < 3; i++) if (draw() % 2) add(); }
"#;

/// Fails if the value is parsed on the rare path.
const RARE_PATH: &str = r"
__attribute__((noinline)) static int parse_short(int value) { return value + 1; }
__attribute__((noinline)) static int parse(int value) { return value; }
int main(void) {
  work();
  int value = draw() % 3 == 0 ? parse_short(1) : parse(1);
  work();
  return value == 2;
}
";

/// Fails if both threads read the count before one writes it.
const LOST_UPDATE: &str = r"
static volatile int count;
__attribute__((noinline)) static void increase(void) {
  int old = count;
  usleep(300);
  count = old + 1;
}
static void *run(void *unused) { work(); usleep(draw() % 4000); increase(); return unused; }
int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, run, 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  return count != 2;
}
";

/// Fails if a file is missing, which is removed sometimes.
const MISSING_FILE: &str = r#"
__attribute__((noinline)) static int load(void) {
  int file = open("settings", O_RDONLY);
  if (file < 0) return 0;
  close(file);
  return 1;
}
int main(void) {
  if (draw() % 3) close(open("settings", O_CREAT | O_WRONLY, 0600)); else unlink("settings");
  int loaded = load();
  work();
  return !loaded;
}
"#;

/// The exit code is drawn.
const CHANCE: &str = "int main(void) { work(); return draw() % 4 == 0; }\n";

/// Calls a function that ends the process, by chance.
const EXITING: &str = r"
__attribute__((noinline)) static void give_up(void) { work(); exit(1); }
int main(void) { work(); if (draw() % 4 == 0) give_up(); work(); return 0; }
";

/// Retries sometimes, fails because of it later, and writes a message before it ends.
const RETRIED: &str = r#"
static int size;
__attribute__((noinline)) static int fetch(unsigned number) { return number % 3 ? 0 : -1; }
__attribute__((noinline)) static int retry(void) { size += 4; return 0; }
__attribute__((noinline)) static void store(int more) {
  size += more;
  if (size > 5) {
    fprintf(stderr, "%d is too much\n", size);
    abort();
  }
}
int main(void) {
  if (fetch(draw()) < 0) retry();
  work();
  store(1 + draw() % 2);
  return 0;
}
"#;

/// Reaches many blocks, in time that passes unseen unless they are observed. `FAILS` depends on whether it was fast enough.
const QUICK: &str = r"
#include <time.h>
#define TWICE(text) text text
#define BLOCK if (total != number) total = number;
__attribute__((noinline)) static int many_blocks(int number) {
  TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(TWICE(BLOCK)))))))))
  return number;
}
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000 + t.tv_nsec / 1000000; }
__attribute__((noinline)) static int skip(void) { return 1; }
__attribute__((noinline)) static int wait_for_it(void) { return 0; }
int main(void) {
  long began = now();
  many_blocks(total + 1);
  int is_quick = now() - began < 4;
  int skipped = draw() % 2 ? skip() : wait_for_it();
  return FAILS;
}
";

/// Fails if an update is lost, which a hold provokes, and if the strict check is chosen.
const CHECKED_UPDATE: &str = r"
static volatile int count;
__attribute__((noinline)) static void increase(void) { count = count + 1; }
static void *run(void *unused) { increase(); return unused; }
__attribute__((noinline)) static int is_exact(void) { return count == 2; }
__attribute__((noinline)) static int is_positive(void) { return count > 0; }
int main(void) {
  int is_strict = draw() % 10 < 8;
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, run, 0);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
  int is_right = is_strict ? is_exact() : is_positive();
  work();
  return !is_right;
}
";

/// A server that dies after some requests if it answered one of them in a rare way.
const SERVER: &str = r#"
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
static const char *response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
static int answers, was_rare;
__attribute__((noinline)) static void answer_rarely(int client) { was_rare = 1; write(client, response, strlen(response)); }
__attribute__((noinline)) static void answer_often(int client) { write(client, response, strlen(response)); }
static void serve(int client) {
  char request[4096];
  while (read(client, request, sizeof request) > 0) {
    if (draw() % 50 == 0) answer_rarely(client); else answer_often(client);
    if (++answers == 20 && was_rare) _exit(3);
  }
  close(client);
}
int main(int count, char **words) {
  struct sockaddr_in address = {AF_INET, htons(atoi(words[1])), {htonl(INADDR_LOOPBACK)}};
  int yes = 1, server = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  bind(server, (struct sockaddr *)&address, sizeof address);
  listen(server, 8);
  for (;;) serve(accept(server, 0, 0));
}
"#;

/// Compiles a program of these tests.
fn build(sandbox: &Sandbox, source: &str) -> String {
    compile(
        sandbox,
        "program",
        &format!("{RANDOM}{source}"),
        &["-O1", "-g", "-pthread"],
    )
}

fn differ(sandbox: &Sandbox, source: &str, args: &[&str]) -> (Value, CommandOutput) {
    let program = build(sandbox, source);
    let args = [&["--seed", "1"], args, &["--", &program]].concat();
    let (report, output) = sandbox.run_with_report("differ", &args);
    (report["answer"]["differ"].clone(), output)
}

/// Returns the functions and the statement of the lead.
fn lead_of(answer: &Value) -> (Vec<&str>, &str) {
    let places = answer["lead"]["places"].as_array().unwrap();
    let functions = places.iter().filter_map(|place| place["function"].as_str());
    (
        functions.collect(),
        answer["lead"]["statement"].as_str().unwrap(),
    )
}

#[test]
fn the_rare_path_of_failing_trials_is_named() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    let (answer, output) = differ(&sandbox, RARE_PATH, &[]);
    assert_eq!(output.code, Some(0), "{output}");
    let (functions, statement) = lead_of(&answer);
    assert!(functions.contains(&"parse_short"), "{statement}");
    assert_eq!(answer["lead"]["passing"]["count"], 0, "{output}");
    assert!(
        output.stdout.contains("Before the failure, in "),
        "{output}"
    );
    assert!(output.stdout.contains(" without observation ("), "{output}");
}

#[test]
fn a_lost_update_is_named_explained_and_hunted_first() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    let (answer, output) = differ(&sandbox, LOST_UPDATE, &[]);
    let (functions, statement) = lead_of(&answer);
    assert!(functions.contains(&"increase"), "{statement}: {output}");
    assert!(statement.contains("thread"), "{statement}");
    assert!(
        output.stdout.contains("provoke hunt --baseline"),
        "{output}"
    );

    let explained = sandbox.provoke(&["explain", "last"]);
    assert!(
        explained.stdout.contains("(provoke differ, run "),
        "{explained}"
    );

    let (report, hunted) = sandbox.run_with_report("hunt", &["--baseline", "last", "--seed", "1"]);
    let places = report["answer"]["hunt"]["places"].as_array().unwrap();
    assert_eq!(places.last().unwrap()["function"], "increase", "{hunted}");
}

#[test]
fn the_result_of_a_system_call_is_named() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    let (answer, output) = differ(&sandbox, MISSING_FILE, &[]);
    let differences = answer["differences"].as_array().unwrap();
    let names = |difference: &Value| {
        let statements = difference["same_trials"].as_array().unwrap().iter();
        let mut statements = statements.chain([&difference["statement"]]);
        statements.any(|text| {
            text.as_str()
                .unwrap()
                .contains("ENOENT from openat(settings)")
        })
    };
    assert!(names(&differences[0]), "{output}");
}

#[test]
fn nothing_is_named_where_only_chance_decides() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    let (answer, output) = differ(&sandbox, CHANCE, &[]);
    assert!(answer["lead"].is_null(), "{output}");
    assert!(
        output.stdout.contains("NO DIFFERENCE before the failure"),
        "{output}"
    );
    assert_eq!(output.code, Some(1), "{output}");
}

#[test]
fn the_way_to_the_failure_is_not_what_precedes_it() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    let (answer, output) = differ(&sandbox, EXITING, &[]);
    assert!(answer["lead"].is_null(), "{output}");
    assert_eq!(
        answer["failure_path"]["calls"]["function"], "give_up",
        "{output}"
    );
}

#[test]
fn a_difference_that_passing_trials_have_as_well_precedes_the_message_of_the_failure() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    let (answer, output) = differ(&sandbox, RETRIED, &[]);
    let (functions, statement) = lead_of(&answer);
    assert!(functions.contains(&"retry"), "{statement}: {output}");
    // All trials reach the line of the branch, so the branch is named.
    let differences = answer["differences"].to_string();
    assert!(
        differences.contains("took the branch to main+0x"),
        "{differences}"
    );
    let lead = &answer["lead"];
    assert_eq!(
        lead["failing"]["count"], lead["failing"]["trials"],
        "{output}"
    );
    assert!(lead["passing"]["count"].as_u64() > Some(0), "{output}");
    assert_eq!(
        answer["failure_path"]["place"]["function"], "store",
        "{output}"
    );
    let tested = answer["differences"].as_array().unwrap().len()
        + answer["not_significant"].as_array().unwrap().len();
    assert!(tested as u64 == answer["tests"] || tested >= 20, "{output}");
    assert!(output.stdout.contains(" --md"), "{output}");
}

#[test]
fn lines_of_python_are_named() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    let script = "import os\n\ndef short():\n    return 2\n\ndef long():\n    return 1\n\n\
        value = short() if int(os.environ['PROVOKE_SEED']) % 3 == 0 else long()\nraise SystemExit(value == 2)\n";
    sandbox.write("program.py", script);
    let args = ["-n", "120", "--seed", "1", "--", "python3", "program.py"];
    let (report, output) = sandbox.run_with_report("differ", &args);
    let lead = &report["answer"]["differ"]["lead"];
    assert_eq!(
        lead["statement"], "the program reached program.py:4 in short()",
        "{output}"
    );
}

#[test]
fn only_functions_are_observed_if_blocks_hide_the_failure() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    let source = format!("#define FAILS is_quick && skipped{QUICK}");
    let (answer, output) = differ(&sandbox, &source, &[]);
    assert_eq!(answer["only_functions"], true, "{output}");
    assert!(
        answer["ended_alike"]["failures"].as_u64() < Some(3),
        "{output}"
    );
    let (functions, statement) = lead_of(&answer);
    assert_eq!(functions, ["skip"], "{statement}");
}

#[test]
fn only_functions_are_observed_if_blocks_make_every_trial_fail() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    let source = format!("#define FAILS !is_quick || skipped{QUICK}");
    let (answer, output) = differ(&sandbox, &source, &[]);
    assert_eq!(answer["only_functions"], true, "{output}");
    let observed = &answer["ended_alike"];
    let passes = observed["trials"].as_u64().unwrap() - observed["failures"].as_u64().unwrap();
    assert!(passes < 3, "{output}");
    let (functions, statement) = lead_of(&answer);
    assert_eq!(functions, ["skip"], "{statement}");
}

#[test]
fn trials_in_which_threads_are_held_are_compared() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    let program = build(&sandbox, CHECKED_UPDATE);
    let hunted = sandbox.provoke(&["hunt", "-q", "--seed", "1", "-d", "10s", "--", &program]);
    assert_eq!(hunted.code, Some(1), "{hunted}");
    let (answer, output) = differ(&sandbox, CHECKED_UPDATE, &["--held", "last"]);
    assert_eq!(answer["is_held"], true, "{output}");
    let (functions, statement) = lead_of(&answer);
    assert!(functions.contains(&"is_exact"), "{statement}: {output}");
}

#[test]
fn trials_of_a_service_under_load_are_compared() {
    needs!(program("cc"));
    let sandbox = Sandbox::new();
    let server = build(&sandbox, SERVER);
    let port = super::load::port();
    let file = format!(
        "command = ['{server}', '{port}']\nask = 'differ'\nseed = 1\n\
         [load]\nurl = 'http://127.0.0.1:{port}'\nclients = 1\nrequests = 20\nwarm-requests = 0\nquiet-time = '10ms'\n"
    );
    sandbox.write("differ.toml", &file);
    let (report, output) = sandbox.run_with_report("scenario", &["differ.toml"]);
    let (functions, statement) = lead_of(&report["answer"]["differ"]);
    assert!(
        functions.contains(&"answer_rarely"),
        "{statement}: {output}"
    );
}

#[test]
fn a_program_that_rarely_fails_has_no_answer_yet() {
    let sandbox = Sandbox::new();
    let args = ["-n", "9", "--seed", "1", "--", "true"];
    let (_, output) = sandbox.run_with_report("differ", &args);
    assert!(
        output
            .stdout
            .contains("NOT KNOWN YET: 0 failing and 3 passing"),
        "{output}"
    );
}
