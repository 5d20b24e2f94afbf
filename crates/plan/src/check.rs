//! Checks names and types of a scenario file against the schema, so that every error has a position.

use super::error::refuse_part;
use super::expected_value::{
    allowed_texts, allowed_types, field_example, field_purpose, list_alternatives, resolve_link,
    type_name, type_words,
};
use provoke_words::diagnostic::Diagnostic;
use provoke_words::names::{intended_name, known_name};
use serde_json::{Map, Value};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// The position of a value: its field, and the table of the field.
#[derive(Clone, Copy)]
struct ValuePosition<'p> {
    /// The nearest field name above it.
    field: &'p str,
    /// The schema of that field.
    node: &'p Value,
    /// The header of its table, such as `[[actor]]`; empty at the top.
    table: &'p str,
    /// Whether it is an item of the field, not the field itself.
    item: bool,
}

struct SchemaCheck<'a> {
    source: &'a str,
    schema: &'a Value,
    /// The errors with their starts.
    findings: Vec<(usize, Diagnostic)>,
}

/// Returns the first error of the file, in the order of its text.
pub(super) fn find_first_fault(
    source: &str,
    root: &DeTable<'_>,
    schema: &Value,
) -> Option<Diagnostic> {
    let mut check = SchemaCheck {
        source,
        schema,
        findings: Vec::new(),
    };
    let position = ValuePosition {
        field: "",
        node: schema,
        table: "",
        item: false,
    };
    check.check_table(position, schema, root, false);
    let first = check.findings.into_iter().min_by_key(|(start, _)| *start);
    first.map(|(_, error)| error)
}

impl SchemaCheck<'_> {
    fn add_finding(&mut self, span: Range<usize>, message: String, help: impl Into<String>) {
        let start = span.start;
        self.findings
            .push((start, refuse_part(message, span, help)));
    }

    fn check_value(
        &mut self,
        position: ValuePosition<'_>,
        node: &Value,
        value: &Spanned<DeValue<'_>>,
    ) {
        let shape = resolve_link(self.schema, node);
        let span = value.span();
        let types = allowed_types(shape);
        let type_found = type_name(value.get_ref());
        let fits = |type_wanted: &&str| {
            *type_wanted == type_found || (*type_wanted == "number" && type_found == "integer")
        };
        if !types.is_empty() && !types.iter().any(fits) {
            return self.report_mismatch(position, &types, value);
        }
        match value.get_ref() {
            DeValue::String(text) => {
                let choices = allowed_texts(shape);
                if !choices.is_empty() && !choices.contains(&text.as_ref()) {
                    let list = list_alternatives(&choices);
                    let help = match intended_name(text, choices) {
                        Some(name) => format!("did you mean `{name}`? It is {list}"),
                        None => format!("it is {list}"),
                    };
                    self.add_finding(
                        span,
                        format!("`{}` cannot be `{text}`", position.field),
                        help,
                    );
                } else if text.contains('\0') {
                    let help = "arguments, variables and paths cannot contain NUL";
                    let message = format!("`{}` contains a NUL character", position.field);
                    self.add_finding(span, message, help);
                }
            }
            DeValue::Integer(number) => self.check_range(position, shape, node, number, span),
            DeValue::Array(items) => {
                let item_position = ValuePosition {
                    item: true,
                    ..position
                };
                for item in items {
                    self.check_value(
                        item_position,
                        shape.get("items").unwrap_or(&Value::Null),
                        item,
                    );
                }
            }
            DeValue::Table(table) => {
                let header = if position.item {
                    let outer = position.table.trim_matches(['[', ']']);
                    let dot = if outer.is_empty() { "" } else { "." };
                    format!("[[{outer}{dot}{}]]", position.field)
                } else {
                    format!("[{}]", position.field)
                };
                let headed = self.source[span.start..].starts_with('[');
                self.check_table(
                    ValuePosition {
                        table: &header,
                        ..position
                    },
                    shape,
                    table,
                    headed,
                );
            }
            DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {}
        }
    }

    fn check_range(
        &mut self,
        position: ValuePosition<'_>,
        shape: &Value,
        node: &Value,
        number: &DeInteger<'_>,
        span: Range<usize>,
    ) {
        let too_large = if number.as_str().starts_with('-') {
            i128::MIN
        } else {
            i128::MAX
        };
        let value = i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(too_large);
        let bound = |name| {
            node.get(name)
                .or_else(|| shape.get(name))
                .and_then(Value::as_i64)
        };
        let min = i128::from(bound("minimum").unwrap_or(i64::MIN));
        let max = bound("maximum").map_or(i128::from(u64::MAX), i128::from);
        let limit = if value < min {
            format!("at least {min}")
        } else if value > max {
            format!("at most {max}")
        } else {
            return;
        };
        self.add_finding(
            span,
            format!("{} must be {limit}", describe_subject(position)),
            self.example_of(position),
        );
    }

    fn check_table(
        &mut self,
        position: ValuePosition<'_>,
        node: &Value,
        table: &DeTable<'_>,
        headed: bool,
    ) {
        let shape = resolve_link(self.schema, node);
        let fields = shape.get("properties").and_then(Value::as_object);
        let rest = shape
            .get("additionalProperties")
            .filter(|rest| rest.is_object());
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let entry_position = ValuePosition {
                field: name,
                item: false,
                ..position
            };
            if name.contains('\0') {
                let message = "a name contains a NUL character".to_owned();
                self.add_finding(key.span(), message, "names cannot contain NUL");
            } else if let Some(field) = fields.and_then(|fields| fields.get(name)) {
                self.check_value(
                    ValuePosition {
                        node: field,
                        ..entry_position
                    },
                    field,
                    value,
                );
            } else if let Some(any) = rest {
                if headed && self.is_swallowed(entry_position, value) {
                    self.report_swallowed(entry_position, key.span(), value);
                }
                self.check_value(
                    ValuePosition {
                        node: any,
                        ..entry_position
                    },
                    any,
                    value,
                );
            } else {
                let no_fields = Map::new();
                let fields = fields.unwrap_or(&no_fields);
                self.report_unknown(entry_position, key.span(), fields, value);
            }
        }
    }

    /// Returns whether this is probably a field of the scenario. A list below `[matrix]` is one only if the field is a
    /// list too: any other word may be the name of a variable.
    fn is_swallowed(&self, position: ValuePosition<'_>, value: &Spanned<DeValue<'_>>) -> bool {
        let Some(field) = self.top_fields().get(position.field) else {
            return false;
        };
        let list = matches!(value.get_ref(), DeValue::Array(_));
        let wants_list = allowed_types(resolve_link(self.schema, field)).contains(&"array");
        position.table != "[matrix]" || !list || wants_list
    }

    /// Reports a field of the scenario below `[env]`, where it would be an unused variable.
    fn report_swallowed(
        &mut self,
        position: ValuePosition<'_>,
        span: Range<usize>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let ValuePosition { field, table, .. } = position;
        let text = self.source[value.span()].lines().next().unwrap_or_default();
        let name = table.trim_matches(['[', ']']);
        let kind = match table {
            "[matrix]" => "a variable of the matrix",
            _ => "an environment variable",
        };
        let message = format!("`{field}` below `{table}` would be {kind}");
        let hint =
            format!("to set `{field}` of the scenario, move it above the first line in brackets");
        let start = span.start;
        let mut error = refuse_part(message, span, hint);
        if table != "[matrix]" {
            error.hints.push(format!(
                "to set a variable: `{name} = {{ {field} = {text} }}`"
            ));
        }
        self.findings.push((start, error));
    }

    fn report_unknown(
        &mut self,
        position: ValuePosition<'_>,
        span: Range<usize>,
        fields: &Map<String, Value>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let ValuePosition { field, table, .. } = position;
        let message = match table {
            "" => format!("there is no field `{field}`"),
            "[rlimit]" => format!("there is no limit `{field}`"),
            table => format!("there is no field `{field}` in `{table}`"),
        };
        let names = || fields.keys().map(String::as_str);
        // `run = 5` means `runs`, and `run = ["./test"]` means `command`.
        let takes_value = |name: &&str| {
            let types = allowed_types(resolve_link(self.schema, &fields[*name]));
            let kind = type_name(value.get_ref());
            types.contains(&kind) || kind == "integer" && types.contains(&"number")
        };
        let fitting_names = || names().filter(takes_value);
        let plain = field.replace('_', "-");
        let help = if !table.is_empty() && self.top_fields().contains_key(&plain) {
            format!(
                "`{plain}` belongs to the whole scenario: move it above the first line in brackets"
            )
        } else if let Some(name) = known_name(field, fitting_names()) {
            did_you_mean(name, &fields[name])
        } else if let Some(other_table) = self.other_table(field) {
            format!("`{field}` is a field of `[[{other_table}]]`")
        } else if let Some(name) =
            intended_name(field, fitting_names()).or_else(|| intended_name(field, names()))
        {
            did_you_mean(name, &fields[name])
        } else if table.is_empty() {
            "fields have the names of flags: see `provoke run --help`".to_owned()
        } else {
            format!(
                "valid names: {}",
                list_alternatives(&names().collect::<Vec<_>>())
            )
        };
        self.add_finding(span, message, help);
    }

    fn top_fields(&self) -> &Map<String, Value> {
        self.schema["properties"]
            .as_object()
            .expect("the schema of a struct")
    }

    /// Returns the list of tables that has this field.
    fn other_table(&self, field: &str) -> Option<&str> {
        let field_entry = self.top_fields().iter().find(|(_, node)| {
            let items = node
                .get("items")
                .map(|items| resolve_link(self.schema, items));
            items.is_some_and(|items| items["properties"].get(field).is_some())
        });
        field_entry.map(|(name, _)| name.as_str())
    }

    fn report_mismatch(
        &mut self,
        position: ValuePosition<'_>,
        types: &[&str],
        value: &Spanned<DeValue<'_>>,
    ) {
        let wanted_types: Vec<_> = types.iter().map(|name| type_words(name)).collect();
        let type_found = match value.get_ref() {
            DeValue::Float(_) => "a fraction",
            other_value => type_words(type_name(other_value)),
        };
        let message = format!(
            "{} must be {}, not {type_found}",
            describe_subject(position),
            wanted_types.join(" or ")
        );
        let help = self
            .suggest_repair(position, types, value)
            .unwrap_or_else(|| self.example_of(position));
        self.add_finding(value.span(), message, help);
    }

    /// Returns the corrected form of a probable mistake.
    fn suggest_repair(
        &self,
        position: ValuePosition<'_>,
        types: &[&str],
        value: &Spanned<DeValue<'_>>,
    ) -> Option<String> {
        let field = position.field;
        let raw = self.source[value.span()].lines().next().unwrap_or_default();
        let set = if position.item {
            String::new()
        } else {
            format!("{field} = ")
        };
        let lines = "followed by lines such as `NAME = \"value\"`";
        match (types, value.get_ref()) {
            (["array"], DeValue::String(text)) if field == "command" => Some(as_command(text)),
            (["array"], DeValue::String(_)) => Some(format!("it is a list: `{field} = [{raw}]`")),
            (["array"], DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_))
                if position.table == "[matrix]" =>
            {
                Some(format!("it is a list: `{field} = [{raw}]`"))
            }
            (["array"], DeValue::Table(_)) => Some(format!(
                "write `[[{field}]]` with two brackets, because there can be several"
            )),
            (["object"], _) if position.item => Some(format!("write `[[{field}]]`, {lines}")),
            (["object"], DeValue::Array(_)) => {
                Some(format!("write `[{field}]` with one bracket, {lines}"))
            }
            (["object"], _) => Some(format!("write `[{field}]`, {lines}")),
            // A value that looks like a number may be a version: `3.10` differs from `3.1`.
            (["string", "integer"], DeValue::Float(_) | DeValue::Boolean(_)) => {
                Some(format!("put it in quotes: `{set}\"{raw}\"`"))
            }
            (types, DeValue::String(text)) => {
                let bare = text.trim();
                let number = types.contains(&"integer") && bare.parse::<i64>().is_ok();
                let truth = types.contains(&"boolean") && matches!(bare, "true" | "false");
                (number || truth).then(|| format!("without the quotes: `{set}{bare}`"))
            }
            (_, DeValue::Array(_) | DeValue::Table(_)) => None,
            (["string"], _) => Some(format!("put it in quotes: `{set}\"{raw}\"`")),
            // The value of a variable, which may be `false` as well.
            (types, _) if types.contains(&"string") && types.contains(&"boolean") => {
                Some(format!("put it in quotes: `{set}\"{raw}\"`"))
            }
            _ => None,
        }
    }

    fn example_of(&self, position: ValuePosition<'_>) -> String {
        field_example(
            position.field,
            position.node,
            resolve_link(self.schema, position.node),
        )
    }
}

fn did_you_mean(name: &str, node: &Value) -> String {
    let purpose_text = field_purpose(node).map(|text| format!(" {text}"));
    format!("did you mean `{name}`?{}", purpose_text.unwrap_or_default())
}

fn describe_subject(position: ValuePosition<'_>) -> String {
    let item_prefix = if position.item { "each item of " } else { "" };
    format!("{item_prefix}`{}`", position.field)
}

fn as_command(text: &str) -> String {
    let plain = !text.contains(['|', '&', ';', '<', '>', '$', '`', '*', '(', '~']);
    match shlex::split(text).filter(|words| plain && !words.is_empty()) {
        Some(words) => {
            let words = words
                .into_iter()
                .map(|word| toml::Value::from(word).to_string())
                .collect::<Vec<_>>()
                .join(", ");
            format!("it is a list of the program and its arguments: `command = [{words}]`")
        }
        None => format!(
            "to run a line of shell: `shell = {}`",
            toml::Value::from(text)
        ),
    }
}

/// Returns help from the schema about the field at this position: an example of a value, and its purpose.
pub(super) fn schema_advice(
    schema: &Value,
    root: &DeTable<'_>,
    span: &Range<usize>,
) -> Option<String> {
    let (field, node) = find_field(schema, schema, root, span)?;
    Some(field_example(field, node, resolve_link(schema, node)))
}

fn find_field<'a>(
    schema: &'a Value,
    node: &'a Value,
    table: &'a DeTable<'_>,
    span: &Range<usize>,
) -> Option<(&'a str, &'a Value)> {
    let shape = resolve_link(schema, node);
    table.iter().find_map(|(key, value)| {
        let name = key.get_ref().as_ref();
        let shape_of_rest = shape.get("additionalProperties");
        let field = shape["properties"].get(name).or(shape_of_rest)?;
        let deeper = match value.get_ref() {
            DeValue::Table(table) => find_field(schema, field, table, span),
            DeValue::Array(items) => {
                let node = resolve_link(schema, field)
                    .get("items")
                    .unwrap_or(&Value::Null);
                let mut tables = items.iter().filter_map(|item| item.get_ref().as_table());
                tables.find_map(|table| find_field(schema, node, table, span))
            }
            _ => None,
        };
        let inside = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
        let is_inside = inside(value.span()) || inside(key.span());
        deeper.or_else(|| is_inside.then_some((name, field)))
    })
}
