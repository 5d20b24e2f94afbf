//! The pytest plugin that writes a stream.
//!
//! The plugin is loaded by environment variables, so the command line of pytest stays as it is:
//!
//! * write [`PLUGIN`] to `DIR/provoke_cases.py`, and put `DIR` in front of `PYTHONPATH`;
//! * add [`PLUGIN_MODULE`] to `PYTEST_PLUGINS`, after a comma if the user has set it;
//! * set [`STREAM_VARIABLE`] to the absolute path of the file that the plugin appends to.
//!
//! [`crate::stream::read_stream`] reads that file.

/// Text of the plugin, a Python module.
pub const PLUGIN: &str = include_str!("provoke_cases.py");
/// Name of the module, which must be the name of its file.
pub const PLUGIN_MODULE: &str = "provoke_runners";
/// Environment variable that names the file of the stream.
pub const STREAM_VARIABLE: &str = "PROVOKE_CASES";
/// Environment variable of a plan with the names of the only tests to run, one a line, in their order. The plugin reads
/// them from the file that [`SELECTION_FILE_VARIABLE`] names.
pub const SELECTION_VARIABLE: &str = "PROVOKE_SELECT";
/// Environment variable that names a file with the names of the only tests to run, each as a line of JSON, in their order.
pub const SELECTION_FILE_VARIABLE: &str = "PROVOKE_SELECT_FILE";
/// Environment variable that makes pytest collect only the selected tests, as if they were its arguments.
pub const ALONE_VARIABLE: &str = "PROVOKE_ALONE";
/// Environment variable with the seed of a random order.
///
/// Modules, the classes of a module and the tests of a class stay together. `SEED:all` mixes all tests.
pub const SHUFFLE_VARIABLE: &str = "PROVOKE_SHUFFLE";

/// Returns names as lines of JSON without braces, which have a meaning in files of a trial.
pub fn encode_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut lines = String::new();
    for name in names {
        let line = serde_json::Value::from(name).to_string();
        lines.push_str(&line.replace('{', "\\u007b"));
        lines.push('\n');
    }
    lines
}
