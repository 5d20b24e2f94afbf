//! Kind of request in a scenario, and its conversion into that of a plan.

use super::LimitValue;
use provoke_model::{FilePick, RequestBody, RequestPlan, Text};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use provoke_words::untrusted::Untrusted as _;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// A kind of request. Its path, headers and body may hold `{row.NAME}`, `{seq}`, `{rand}` and `{env.NAME}`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Request {
    /// Its name in reports; default: its method and path.
    pub name: Option<String>,
    /// How often it is sent, relative to the other requests.
    pub weight: Option<NonZeroU32>,
    /// Default: `GET`; `POST` with a body.
    pub method: Option<String>,
    /// The path, after the host of the URL.
    pub path: Option<String>,
    /// Headers to send.
    pub headers: BTreeMap<String, String>,
    /// The body, as text.
    pub body: Option<String>,
    /// Files to take the body from; the last part of a path may contain `*`.
    pub body_files: Vec<String>,
    /// How the next file is chosen.
    pub pick: Option<FilePick>,
    /// The column of `rows` to take the body from.
    pub body_column: Option<String>,
    /// A file with the bytes of the whole request, sent unchanged; `body-files` follow them.
    pub raw: Option<PathBuf>,
    /// Accepted status codes of a response; default: below 400.
    pub status: Vec<u16>,
    /// Headers of a response, and regular expressions that their values must match.
    pub expect_headers: BTreeMap<String, String>,
    /// A regular expression that the body of a response must match.
    pub expect_body: Option<String>,
    /// The SHA-256 of the body of a response, in hexadecimal.
    pub expect_sha256: Option<String>,
    /// JSON pointers into the response, such as `/items/0/class`, and their expected values; `*` for any value.
    pub expect_json: BTreeMap<String, String>,
    /// Maximum length of the body of a response.
    pub max_bytes: Option<LimitValue>,
}

impl Request {
    /// Returns the request that flags describe; `None` if they describe none. A body that begins with `@` names files.
    pub fn from_flags(
        method: Option<String>,
        headers: &[(String, String)],
        body: Option<String>,
    ) -> Option<Self> {
        if method.is_none() && headers.is_empty() && body.is_none() {
            return None;
        }
        let files = body.as_ref().and_then(|body| body.strip_prefix('@'));
        Some(Self {
            method,
            headers: headers.iter().cloned().collect(),
            body_files: files.map(str::to_owned).into_iter().collect(),
            body: if files.is_none() { body } else { None },
            ..Self::default()
        })
    }

    pub(super) fn to_plan(&self, index: usize, base: &Path) -> Result<RequestPlan, Diagnostic> {
        let index = index.to_string();
        let field_position = |field| ["request", index.as_str(), field];
        let body = match (&self.body, self.body_files.as_slice(), &self.body_column) {
            (None, [], None) => RequestBody::None,
            (Some(text), [], None) => RequestBody::Text(text.clone()),
            (None, [], Some(column)) => RequestBody::Column(column.clone()),
            (None, patterns, None) => RequestBody::Files {
                files: matching_files(patterns, base, &field_position("body-files"))?,
                pick: self.pick.unwrap_or_default(),
            },
            _ => {
                let message = "a request has more than one body";
                let hint = "give one of `body`, `body-files` and `body-column`";
                return Err(refuse_at(message, &field_position("body"), hint));
            }
        };
        if self.pick.is_some() && self.body_files.is_empty() {
            let message = "`pick` needs `body-files`";
            return Err(refuse_at(
                message,
                &field_position("pick"),
                "add `body-files`",
            ));
        }
        let written = [
            ("method", self.method.is_some()),
            ("path", self.path.is_some()),
            ("headers", !self.headers.is_empty()),
            (
                "body",
                !matches!(body, RequestBody::None | RequestBody::Files { .. }),
            ),
        ];
        if let (Some(_), Some((field, _))) =
            (&self.raw, written.iter().find(|(_, is_given)| *is_given))
        {
            let message = format!("a request has both `raw` and `{field}`");
            return Err(refuse_at(
                message,
                &field_position(field),
                "give `raw` alone or with `body-files`, or leave it out",
            ));
        }
        let path = self.path.clone().unwrap_or_else(|| "/".to_owned());
        let fallback = if body == RequestBody::None {
            "GET"
        } else {
            "POST"
        };
        let method = self.method.clone().unwrap_or_else(|| fallback.to_owned());
        let pairs = |map: &BTreeMap<String, String>| {
            let pairs = map
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()));
            pairs.collect::<Vec<_>>()
        };
        let expected_value = |value: &String| (value != "*").then(|| Text::from(value.as_str()));
        let json = self.expect_json.iter();
        Ok(RequestPlan {
            name: self.name.clone().unwrap_or_else(|| match &self.raw {
                Some(file) => file.to_string_lossy().into_owned(),
                None => format!("{method} {path}"),
            }),
            weight: self.weight.map_or(1, NonZeroU32::get),
            method,
            path,
            headers: pairs(&self.headers),
            body,
            raw: self
                .raw
                .as_ref()
                .map(|file| Text::from(base.join(file).as_path())),
            expect: provoke_model::ResponseRules {
                status: self.status.clone(),
                headers: pairs(&self.expect_headers),
                body_regex: self.expect_body.clone(),
                body_sha256: self.expect_sha256.clone(),
                json: json
                    .map(|(pointer, value)| (pointer.clone(), expected_value(value)))
                    .collect(),
                max_bytes: self.max_bytes.and_then(|amount| amount.0),
            },
        })
    }
}

/// Returns the files that match patterns, sorted by name.
fn matching_files(patterns: &[String], base: &Path, at: &[&str]) -> Result<Vec<Text>, Diagnostic> {
    let mut files = Vec::new();
    for pattern in patterns {
        let path = base.join(pattern);
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        let Some((start, end)) = name.split_once('*') else {
            files.push(Text::from(path.as_path()));
            continue;
        };
        let folder = path.parent().unwrap_or(base);
        let entries = std::fs::read_dir(folder).map_err(|error| {
            let message = format!("cannot list `{}`: {error}", folder.to_safe());
            refuse_at(message, at, "give the path of an existing directory")
        })?;
        let named = entries.flatten().map(|entry| entry.path());
        let fits = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            let long = |name: &&str| name.len() >= start.len() + end.len();
            let name = name.filter(long);
            name.is_some_and(|name| name.starts_with(start) && name.ends_with(end))
        };
        let mut paths: Vec<PathBuf> = named.filter(fits).collect();
        if paths.is_empty() {
            let message = format!("no file matches `{pattern}`");
            return Err(refuse_at(
                message,
                at,
                "check the directory and the extension",
            ));
        }
        paths.sort();
        files.extend(paths.iter().map(|path| Text::from(path.as_path())));
    }
    Ok(files)
}
