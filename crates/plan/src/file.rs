//! Reads a scenario file; every error has a position and a hint.

use super::check::{find_first_fault, schema_advice};
use super::error::{in_file, refuse_part};
use super::schema::SCENARIO_SCHEMA;
use super::syntax::explain_error;
use super::table_deserializer::ValueError;
use super::{PlanContext, Scenario};
use provoke_model::Plan;
use provoke_words::diagnostic::{Diagnostic, ErrorCategory, Excerpt};
use provoke_words::names::nearest_name;
use provoke_words::untrusted::Untrusted as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Maximum size of a scenario file; a larger file was named by mistake.
const LARGEST: u64 = 1 << 20;
/// Name of the kind of file in messages.
const SCENARIO: &str = "scenario file";
/// Some editors write it at the start of a file; it would shift the columns of the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a scenario and makes a plan of it. `overlay` applies the settings of the command line. `context_of` receives
/// the resulting scenario and the directory of the file, to which relative paths refer. `plan` makes the plan.
pub fn plan_file(
    file: &Path,
    overlay: &dyn Fn(&mut Scenario),
    context_of: impl FnOnce(&Scenario, &Path) -> Result<PlanContext, Diagnostic>,
    plan: impl Fn(&Scenario, PlanContext) -> Result<Plan, Diagnostic>,
) -> Result<Plan, Diagnostic> {
    let source = read_file(file)?;
    let complain = |error| in_file(error, file, Some(&source));
    let file_scenario = parse_scenario(&source).map_err(complain)?;
    let mut scenario = file_scenario.clone();
    overlay(&mut scenario);
    let folder = file.parent().unwrap_or(file);
    scenario.hosts.read_lists(folder)?;
    let absolute =
        std::path::absolute(file).map_err(|error| cannot_read(file, SCENARIO, &error))?;
    let context = context_of(&scenario, absolute.parent().unwrap_or(&absolute))
        .map_err(|refusal| locate_refusal(file, &source, refusal, true))?;
    plan(&scenario, context.clone()).map_err(|refusal| {
        let mut alone = file_scenario;
        let is_read = alone.hosts.read_lists(folder).is_ok();
        let by_file = is_read && plan(&alone, context).err().as_ref() == Some(&refusal);
        locate_refusal(file, &source, refusal, by_file)
    })
}

/// Returns the position in a scenario file of a setting that was refused when the plan was made.
pub fn complain_about(file: &Path, refusal: Diagnostic) -> Diagnostic {
    match read_file(file) {
        Ok(source) => locate_refusal(file, &source, refusal, true),
        Err(complaint) => complaint,
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(source: &str) -> Result<Self, String> {
        parse_scenario(source).map_err(|error| error.message)
    }
}

fn parse_scenario(source: &str) -> Result<Scenario, Diagnostic> {
    let root = DeTable::parse(source).map_err(|error| explain_error(source, &error))?;
    if let Some(error) = find_first_fault(source, root.get_ref(), &SCENARIO_SCHEMA) {
        return Err(error);
    }
    Scenario::from_table(root.get_ref()).map_err(|ValueError { message, span }| {
        let help = span
            .as_ref()
            .and_then(|span| schema_advice(&SCENARIO_SCHEMA, root.get_ref(), span))
            .unwrap_or_else(|| "see docs/scenario.md".to_owned());
        refuse_part(message, span.unwrap_or(0..0), help)
    })
}

/// Finds the position of a refused setting. A setting from the command line may have no position. Other errors than wrong
/// settings have none.
fn locate_refusal(file: &Path, source: &str, refusal: Diagnostic, by_file: bool) -> Diagnostic {
    if refusal.category != ErrorCategory::Usage {
        return refusal;
    }
    let root = DeTable::parse(source).ok();
    let span = root.and_then(|root| span_of(root.get_ref(), &refusal.position));
    let start = (by_file || refusal.position.is_empty()).then_some(0..0);
    let notes = if by_file {
        Vec::new()
    } else {
        vec!["flags of the command line win over the file".to_owned()]
    };
    let excerpt = Excerpt {
        span: span.or(start),
        notes,
        ..Excerpt::default()
    };
    let refusal = Diagnostic {
        excerpt: Some(Box::new(excerpt)),
        ..refusal
    };
    in_file(refusal, file, Some(source))
}

/// Returns the span of the value at a path of keys and indices, or of the last existing part of the path.
fn span_of(table: &DeTable<'_>, path: &[String]) -> Option<Range<usize>> {
    let (first, rest) = path.split_first()?;
    let mut value = table.get(first.as_str())?;
    for step in rest {
        let next: Option<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Table(table) => table.get(step.as_str()),
            DeValue::Array(items) => step
                .parse::<usize>()
                .ok()
                .and_then(|index| items.get(index)),
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => break,
        }
    }
    Some(value.span())
}

fn read_file(file: &Path) -> Result<String, Diagnostic> {
    if file.is_dir() {
        let inside = file.join("scenario.toml");
        let help = if inside.is_file() {
            inside
        } else {
            file.join("NAME.toml")
        };
        return Err(refuse_file(
            file,
            "this is a directory, not a scenario file",
            format!("did you mean the file in it: `{}`?", help.to_safe()),
        ));
    }
    read_text(file, SCENARIO)
}

/// Reads the text of a file; `purpose` is what it should contain.
pub(super) fn read_text(file: &Path, purpose: &str) -> Result<String, Diagnostic> {
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|opened| opened.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| cannot_read(file, purpose, &error))?;
    if bytes.len() as u64 > LARGEST {
        let help = "is it the right file? Put long input in a file that `stdin` or `command` names";
        let message = format!("the file is too large for a {purpose}: more than 1 MiB");
        return Err(refuse_file(file, message, help));
    }
    decode_file(file, bytes)
}

/// Refuses a whole file.
fn refuse_file(file: &Path, message: impl Into<String>, help: impl Into<String>) -> Diagnostic {
    in_file(Diagnostic::usage(message).with_hint(help), file, None)
}

fn decode_file(file: &Path, mut bytes: Vec<u8>) -> Result<String, Diagnostic> {
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    String::from_utf8(bytes).map_err(|error| {
        let start = error.utf8_error().valid_up_to();
        let refusal = refuse_part(
            "the file is not UTF-8 text",
            start..start + 1,
            "save it as UTF-8; is it the right file?",
        );
        in_file(
            refusal,
            file,
            Some(&String::from_utf8_lossy(error.as_bytes())),
        )
    })
}

fn cannot_read(file: &Path, purpose: &str, error: &io::Error) -> Diagnostic {
    let give_path = || format!("give the path of a {purpose}");
    let (message, help) = match error.kind() {
        io::ErrorKind::NotFound => {
            let help = match similar_file(file, purpose) {
                Some(similar) => format!("did you mean `{}`?", similar.to_safe()),
                None => give_path(),
            };
            ("there is no such file".to_owned(), help)
        }
        io::ErrorKind::PermissionDenied => (
            "permission to read the file was denied".to_owned(),
            "check its owner and mode with `ls -l`".to_owned(),
        ),
        _ => (format!("cannot read the file: {error}"), give_path()),
    };
    refuse_file(file, message, help)
}

/// Returns a file with a similar name in the directory of the missing one. Scenario files end in `.toml`.
fn similar_file(file: &Path, purpose: &str) -> Option<PathBuf> {
    let folder = file.parent()?;
    let parent = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let (end, wanted_name) = match purpose {
        SCENARIO => (".toml", file.file_stem()?),
        _ => ("", file.file_name()?),
    };
    let entries = parent.read_dir().ok()?.flatten();
    let files = entries.filter(|entry| !entry.path().is_dir());
    let names: Vec<String> = files
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(end)?.to_owned()))
        .collect();
    let name = nearest_name(wanted_name.to_str()?, names.iter().map(String::as_str))?;
    Some(folder.join(format!("{name}{end}")))
}
