//! Parses the place in the source that a runner names.

use provoke_model::Site;

/// Parses `path:12`.
pub(crate) fn parse_site(text: &str) -> Option<Site> {
    let (file, line) = text.trim().rsplit_once(':')?;
    let line = line.parse().ok()?;
    let is_path = !file.is_empty() && !file.contains([' ', '\t', '"']);
    is_path.then(|| Site {
        file: file.to_owned(),
        line,
        ..Site::default()
    })
}
