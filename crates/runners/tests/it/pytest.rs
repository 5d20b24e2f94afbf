//! Tests of the plugin with real pytest.

use crate::samples::describe_results;
use provoke_model::{CaseEnd, TrialCases};
use provoke_runners::pytest::{PLUGIN, PLUGIN_MODULE, SHUFFLE_VARIABLE, STREAM_VARIABLE};
use provoke_runners::stream::read_stream;
use provoke_test_needs::{needs, python};
use std::fs::{self, File};
use std::io::BufReader;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A folder with tests of pytest and the plugin.
struct Project {
    folder: TempDir,
}

impl Project {
    fn with_files(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plugin_folder = folder.path().join("plugin");
        fs::create_dir(&plugin_folder).unwrap();
        fs::write(plugin_folder.join(format!("{PLUGIN_MODULE}.py")), PLUGIN).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Self { folder }
    }

    /// Runs pytest once and reads its stream.
    fn run_pytest(&self, arguments: &[&str], variables: &[(&str, &str)]) -> TrialCases {
        let stream = self.folder.path().join("stream.jsonl");
        let _ = fs::remove_file(&stream);
        Command::new("python3")
            .args(["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .args(arguments)
            .current_dir(self.folder.path())
            .env("PYTHONPATH", self.folder.path().join("plugin"))
            .env("PYTEST_PLUGINS", PLUGIN_MODULE)
            .env("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
            .env(STREAM_VARIABLE, &stream)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        read_stream(BufReader::new(File::open(&stream).unwrap()))
    }
}

const CRASH: &str = "
import os, signal
def test_before(): pass
def test_crash(): os.kill(os.getpid(), signal.SIGSEGV)
def test_after(): pass
";

#[test]
fn a_test_that_kills_the_interpreter_is_the_running_one() {
    needs!(python("pytest"));
    let cases = Project::with_files(&[("test_it.py", CRASH)]).run_pytest(&[], &[]);
    assert_eq!(
        describe_results(&cases),
        [
            "test_it.py::test_before Passed",
            "test_it.py::test_crash Unknown"
        ]
    );
    assert_eq!(cases.unstarted_cases().len(), 1);
}

#[test]
fn parallel_workers_write_one_stream() {
    needs!(python("pytest, xdist"));
    let project = Project::with_files(&[("test_it.py", CRASH)]);
    let cases = project.run_pytest(&["-p", "xdist", "-n", "2"], &[]);
    // Either worker may run the test.
    let results = describe_results(&cases).into_iter();
    let mut results: Vec<String> = results
        .map(|result| result.replace("'gw0'", "'gw1'"))
        .collect();
    results.sort();
    assert_eq!(
        results,
        [
            "test_it.py::test_after Passed",
            "test_it.py::test_before Passed",
            "test_it.py::test_crash Crashed worker 'gw1' crashed while running 'test_it.py::test_crash'",
        ]
    );
    assert_eq!(cases.planned.map(|planned| planned.len()), Some(3));
}

#[test]
fn a_pytest_inside_a_test_does_not_add_cases() {
    needs!(python("pytest"));
    let inner = "
pytest_plugins = ['pytester']
def test_outer(pytester):
    pytester.makepyfile('def test_inner(): pass')
    pytester.runpytest_inprocess()
    assert pytester.runpytest_subprocess().ret == 0
";
    let cases = Project::with_files(&[("test_it.py", inner)]).run_pytest(&[], &[]);
    assert_eq!(describe_results(&cases), ["test_it.py::test_outer Passed"]);
}

#[test]
fn the_seed_decides_the_order_and_modules_stay_together() {
    needs!(python("pytest"));
    let tests: Vec<String> = (0..6)
        .map(|index| format!("def test_{index}(): pass\n"))
        .collect();
    let tests = tests.concat();
    let class = format!(
        "{tests}class TestGroup:\n    def test_x(self): pass\n    def test_y(self): pass\n"
    );
    let project = Project::with_files(&[("test_a.py", &class), ("test_b.py", &tests)]);
    let order = |seed: &str| -> Vec<String> {
        let cases = project.run_pytest(&[], &[(SHUFFLE_VARIABLE, seed)]);
        assert!(
            cases
                .results
                .iter()
                .all(|result| result.end == CaseEnd::Passed)
        );
        let results = cases.results.into_iter();
        let names: Vec<String> = results.map(|result| result.case.name).collect();
        assert_eq!(names.len(), 14);
        names
    };
    let first = order("1");
    assert_eq!(first, order("1"));
    assert_ne!(first, order("2"));
    let module_changes = |names: &[String]| {
        let pairs = names.windows(2);
        pairs.filter(|pair| pair[0][..9] != pair[1][..9]).count()
    };
    assert_eq!(module_changes(&first), 1);
    let position = |name: &str| {
        first
            .iter()
            .position(|other| other.ends_with(name))
            .unwrap()
    };
    assert_eq!(position("test_x").abs_diff(position("test_y")), 1);
    assert!(module_changes(&order("1:all")) > 1);
}
