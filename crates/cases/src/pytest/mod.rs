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
pub const PLUGIN_MODULE: &str = "provoke_cases";
/// Environment variable that names the file of the stream.
pub const STREAM_VARIABLE: &str = "PROVOKE_CASES";
/// Environment variable with the names of the only tests to run, one a line, in their order.
pub const SELECTION_VARIABLE: &str = "PROVOKE_SELECT";
/// Environment variable with the seed of a random order.
///
/// Modules, the classes of a module and the tests of a class stay together. `SEED:all` mixes all tests.
pub const SHUFFLE_VARIABLE: &str = "PROVOKE_SHUFFLE";
