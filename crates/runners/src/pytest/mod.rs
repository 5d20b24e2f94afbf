//! pytest, by a plugin that writes a stream.
//!
//! The plugin is loaded by environment variables, so the command line of pytest stays as it is:
//!
//! * write [`PLUGIN`] to `DIR/provoke_cases.py`, and put `DIR` in front of `PYTHONPATH`;
//! * add [`PLUGIN_MODULE`] to `PYTEST_PLUGINS`, after a comma if the user has set it;
//! * set [`STREAM_VARIABLE`] to the absolute path of the file that the plugin appends to.
//!
//! [`crate::stream::read_stream`] reads that file.

use super::command::file_name;
use super::runner::{Exclusion, OrderControl, RUNNER, Runner, SharedFile};
pub use super::stream::STREAM_VARIABLE;
use super::stream::{STREAM, read_stream};
use provoke_model::{ActorPlan, ActorRole, CaseName, CaseOrder, Text, VariantPlan};
use provoke_words::untrusted::shell_word;
use std::path::Path;

/// Name of the folder of the plugin, beside the folders of the trials.
const PLUGIN_FOLDER: &str = "pytest-plugin";
/// The names of the only tests to run, in the folder of the reports.
const SELECTION: &str = "selection.jsonl";

/// Text of the plugin, a Python module.
pub const PLUGIN: &str = include_str!("provoke_cases.py");
/// Name of the module, which must be the name of its file.
pub const PLUGIN_MODULE: &str = "provoke_runners";
const PLUGIN_FILE: &str = "provoke_runners.py";
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

/// pytest, by the plugin.
pub(crate) static PYTEST: Runner = Runner {
    name: "pytest",
    title: "pytest",
    recognize: |words| {
        let program = words.first()?;
        if matches!(file_name(program), "pytest" | "py.test") {
            return Some(0);
        }
        // Flags of Python may come first, such as in `python -X dev -m pytest`.
        let module = 1 + words.iter().skip(1).position(|word| word == "-m")? + 1;
        let is_module = words.get(module).is_some_and(|word| word == "pytest");
        (is_python(program) && is_module).then_some(module)
    },
    order: OrderControl::SeedOrReverse,
    list_variable: Some(SELECTION_VARIABLE),
    exclusion: Some(Exclusion {
        name: "pytest-deselect",
        write: write_exclusion,
    }),
    shared_file: Some(SharedFile {
        folder: PLUGIN_FOLDER,
        name: PLUGIN_FILE,
        text: PLUGIN,
    }),
    adapt: |command, place| {
        let environment = place.environment;
        let folder = place.trials.join(PLUGIN_FOLDER);
        command.prepend_variable(environment, "PYTHONPATH", &folder, ":");
        command.prepend_variable(environment, "PYTEST_PLUGINS", Path::new(PLUGIN_MODULE), ",");
        Ok(())
    },
    set_up: |_, order, variant, setup| {
        setup.add_path_variable(STREAM_VARIABLE, STREAM);
        match order {
            Some(CaseOrder::OfTrial) => setup.add_variable(SHUFFLE_VARIABLE, "{seed}"),
            Some(order) => setup.add_variable(SHUFFLE_VARIABLE, &order.to_string()),
            None => {}
        }
        if let Some(names) = take_selection(variant) {
            setup.files.push((SELECTION.to_owned(), names));
            setup.add_path_variable(SELECTION_FILE_VARIABLE, SELECTION);
        }
    },
    select: |case, command| {
        command.set_variable(SELECTION_VARIABLE, case.name.as_str());
        command.set_variable(ALONE_VARIABLE, "1");
        Ok(())
    },
    read: |report| report.read_file(STREAM, read_stream),
    missing_report: Some(
        "pytest reported no tests; if another program starts it, such as tox, that program must pass on the variables PYTHONPATH, PYTEST_PLUGINS and PROVOKE_CASES",
    ),
    ..RUNNER
};

/// Returns arguments that leave tests out.
fn write_exclusion(names: &[&CaseName]) -> String {
    let arguments = names
        .iter()
        .map(|name| format!("--deselect={}", shell_word(name.to_string().as_ref())));
    arguments.collect::<Vec<_>>().join("\n")
}

/// Removes the names of the only cases to run. Returns each as a line of JSON, which contains no marks.
fn take_selection(variant: &mut VariantPlan) -> Option<String> {
    let is_main = |actor: &&mut ActorPlan| actor.role == ActorRole::Main;
    let main = variant.actors.iter_mut().find(is_main)?;
    let selection = Text::from(SELECTION_VARIABLE);
    let index = main.env.iter().position(|(name, _)| *name == selection)?;
    let (_, names) = main.env.remove(index);
    Some(encode_names(names?.to_string().lines()))
}

/// Returns whether a word names Python, such as `python3.11`.
fn is_python(word: &str) -> bool {
    let name = file_name(word);
    ["python", "pypy"].iter().any(|prefix| {
        let version = name.strip_prefix(prefix);
        version.is_some_and(|version| {
            version
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    })
}
