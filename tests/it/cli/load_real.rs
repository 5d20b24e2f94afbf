//! Tests `load` with widely used servers.

use super::load::{first_variant, load, port};
use super::support::{Sandbox, words};
use crate::needs::{needs, program, python};

const ARGS: [&str; 6] = ["-n", "1", "-c", "8", "--requests", "400"];

#[test]
fn the_threaded_server_of_python_passes() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    sandbox.write("classify", "hello\n");
    let port = port();
    let number = port.to_string();
    let command = [
        "python3",
        "-m",
        "http.server",
        &number,
        "--bind",
        "127.0.0.1",
    ];
    // The queue of its listener has room for five connections.
    let args = words("-n 1 -c 4 --requests 400 --connect-limit 30s");
    let (report, output) = load(&sandbox, port, &args, &command);
    let variant = first_variant(&report);
    assert_eq!(variant["outcomes"]["pass"], 1, "{output}");
    // It closes each connection after its response, which is not an error.
    assert_eq!(variant["load"]["ends"]["ok"], 400, "{output}");
    assert_eq!(variant["load"]["errors"], 0, "{output}");
}

#[test]
fn nginx_with_two_workers_passes_as_one_service() {
    needs!(program("nginx"));
    let sandbox = Sandbox::new();
    let port = port();
    let folder = sandbox.path("");
    let folder = folder.display();
    let root = if rustix::process::geteuid().is_root() {
        "user root;\n"
    } else {
        ""
    };
    let config = format!(
        "{root}daemon off;\nworker_processes 2;\npid {folder}/pid;\nerror_log stderr;\n\
         events {{}}\nhttp {{ access_log off; server {{ listen 127.0.0.1:{port};\n\
         location / {{ return 200 'hello'; }} }} }}\n"
    );
    let config = sandbox.write("nginx.conf", &config).display().to_string();
    let command = ["nginx", "-p", ".", "-c", &config];
    let (report, output) = load(&sandbox, port, &ARGS, &command);
    let variant = first_variant(&report);
    assert_eq!(variant["outcomes"]["pass"], 1, "{output}");
    assert_eq!(variant["load"]["ends"]["ok"], 400, "{output}");
    assert_eq!(variant["load"]["connections"], 8, "{output}");
}

#[test]
fn a_crashed_gunicorn_worker_is_a_crash_of_the_service() {
    needs!(program("python3"), python("gunicorn"));
    let sandbox = Sandbox::new();
    sandbox.write(
        "app.py",
        "import os, signal\nserved = 0\n\
         def app(environ, start):\n\
         \x20   global served\n\
         \x20   served += 1\n\
         \x20   if served == 100:\n\
         \x20       os.kill(os.getpid(), signal.SIGSEGV)\n\
         \x20   start('200 OK', [('content-length', '2')])\n\
         \x20   return [b'ok']\n",
    );
    let port = port();
    let bind = format!("127.0.0.1:{port}");
    let command = [
        "python3", "-m", "gunicorn", "-w", "1", "-b", &bind, "app:app",
    ];
    let (report, output) = load(&sandbox, port, &ARGS, &command);
    let variant = first_variant(&report);
    assert_eq!(variant["outcomes"]["SIGSEGV"], 1, "{output}");
    // The signal may arrive a moment after the response to the request that sends it.
    let served = variant["load"]["served_before_death"][0].as_u64().unwrap();
    assert!((99..=100).contains(&served), "{output}");
}

#[test]
fn a_passing_trial_can_have_growing_memory() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    sandbox.write(
        "app.py",
        "import http.server, sys\nkept = []\n\
         class Handler(http.server.BaseHTTPRequestHandler):\n\
         \x20   protocol_version = 'HTTP/1.1'\n\
         \x20   def do_GET(self):\n\
         \x20       kept.append(bytearray(20_000))\n\
         \x20       self.send_response(200)\n\
         \x20       self.send_header('content-length', '0')\n\
         \x20       self.end_headers()\n\
         \x20   def log_message(self, *_): pass\n\
         http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()\n",
    );
    let port = port();
    let number = port.to_string();
    let command = ["python3", "app.py", &number];
    // Steady growth, so that it does not count as a warm-up.
    let args = words("-n 1 --rate 100/s --connections 2 --time 5s");
    let (report, output) = load(&sandbox, port, &args, &command);
    let variant = first_variant(&report);
    assert_eq!(variant["outcomes"]["pass"], 1, "{output}");
    let grew = &variant["load"]["grew"][0];
    assert_eq!(grew["what"], "rss_kib", "{output}");
}

#[test]
fn a_native_crash_of_a_python_service_shows_the_python_line() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    sandbox.write(
        "app.py",
        "import ctypes, http.server, sys\nseen = []\n\
         def resize():\n\
         \x20   ctypes.string_at(0)\n\
         class Handler(http.server.BaseHTTPRequestHandler):\n\
         \x20   def do_GET(self):\n\
         \x20       seen.append(1)\n\
         \x20       if len(seen) > 9: resize()\n\
         \x20       self.send_response(200)\n\
         \x20       self.send_header('content-length', '0')\n\
         \x20       self.end_headers()\n\
         \x20   def log_message(self, *_): pass\n\
         http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()\n",
    );
    let port = port();
    let number = port.to_string();
    let url = format!("http://127.0.0.1:{port}/");
    let args = [
        "-n",
        "1",
        "-c",
        "1",
        "--requests",
        "20",
        "--warm-requests",
        "5",
        &url,
        "--",
        "python3",
        "app.py",
        &number,
    ];
    let (_, output) = sandbox.run_with_report("load", &args);
    assert!(
        output
            .stdout
            .contains("app.py:4 in resize, called by Handler.do_GET (app.py:8)"),
        "{output}"
    );
    assert!(
        output.stdout.contains("4 | ctypes.string_at(0)"),
        "{output}"
    );
    assert!(
        output
            .stdout
            .contains("responses before the death, including the warm-up: 9"),
        "{output}"
    );
    let explanation = sandbox.provoke(&["explain", "last"]).stdout;
    assert!(
        explanation.contains("in Python at app.py:4 in resize"),
        "{explanation}"
    );
    assert!(
        explanation.contains("after 9 responses (5 in the warm-up), with"),
        "{explanation}"
    );
}
