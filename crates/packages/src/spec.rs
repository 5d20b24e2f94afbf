//! Parses a package specification, `NAME[EXTRA]==A..B`, and selects the versions that match.

use super::{PackageManager, VersionList, refuse_with_hint};
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::names::nearest_names;
use std::cmp::Ordering;

/// A package and its selected versions.
#[derive(Debug)]
pub(super) struct PackageSpec {
    pub(super) manager: PackageManager,
    pub(super) name: String,
    /// For pip: the extras, including the brackets.
    pub(super) extras: String,
    pub(super) choice: VersionSelection,
}

/// Selection of versions.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum VersionSelection {
    /// All listed versions between two, both included.
    Between(Option<String>, Option<String>),
    /// These versions.
    Named(Vec<String>),
}

/// Number of elements that are shown of a list.
pub(super) const SHOWN: usize = 5;

impl PackageSpec {
    pub(super) fn parse(manager: PackageManager, text: &str) -> Result<Self, Diagnostic> {
        let refuse = |problem: &str| {
            let tool = manager.name();
            refuse_with_hint(
                format!("`{text}` {problem}"),
                format!(
                    "write NAME, NAME==A..B, NAME==A.. or NAME==A,B,C, as {tool} writes the versions"
                ),
            )
        };
        let (package, versions) = match text.split_once('=') {
            Some((package, versions)) => (
                package,
                Some(versions.strip_prefix('=').unwrap_or(versions)),
            ),
            None => (text, None),
        };
        let package = package.trim();
        let (name, extras) = match package.find('[') {
            Some(position) if manager == PackageManager::Pip && package.ends_with(']') => {
                package.split_at(position)
            }
            _ => (package, ""),
        };
        // The names become arguments in a script, and must not look like options.
        let named = |name: &str, signs: &str| {
            let may = |sign: char| sign.is_ascii_alphanumeric() || signs.contains(sign);
            let begins = |sign: char| sign.is_ascii_alphanumeric() || sign == '@';
            name.starts_with(begins) && name.chars().all(may)
        };
        let signs = match manager {
            PackageManager::Npm => "@/._-~",
            PackageManager::Apt => ".+-:",
            PackageManager::Pip | PackageManager::Cargo => "._-",
        };
        let inside = extras.trim_matches(['[', ']']);
        if !named(name, signs) || !(extras.is_empty() || named(inside, "._-, ")) {
            return refuse("does not begin with the name of a package");
        }
        let version = |version: &str| {
            let version = version.trim();
            named(version, "._+-!~:").then(|| version.to_owned())
        };
        let choice = match versions.map(str::trim) {
            None => VersionSelection::Between(None, None),
            Some(versions) => match versions.split_once("..") {
                Some((first, last)) => {
                    let end = |end: &str| match end.trim() {
                        "" => Some(None),
                        end => version(end).map(Some),
                    };
                    let (Some(first), Some(last)) = (end(first), end(last)) else {
                        return refuse("has an end that is not a version");
                    };
                    VersionSelection::Between(first, last)
                }
                None => match versions.split(',').map(version).collect() {
                    Some(versions) => VersionSelection::Named(versions),
                    None => return refuse("contains something that is not a version"),
                },
            },
        };
        Ok(Self {
            manager,
            name: name.to_owned(),
            extras: extras.replace(' ', ""),
            choice,
        })
    }

    /// Returns the selected versions of a listing, the oldest first.
    pub(super) fn choose_versions(&self, listing: VersionList) -> Result<VersionList, Diagnostic> {
        let VersionSelection::Between(first, last) = &self.choice else {
            return Ok(listing);
        };
        let (manager, name) = (self.manager, &self.name);
        let compare =
            |a: &String, b: &String| manager.compare_versions(a, b).then_with(|| a.cmp(b));
        let mut available = listing.versions;
        available.sort_by(compare);
        available.dedup();
        let ends = || [first, last].into_iter().flatten();
        let has_pre = ends().any(|end| manager.is_pre(end));
        let (pre, released): (Vec<_>, Vec<_>) = available
            .iter()
            .cloned()
            .partition(|version| manager.is_pre(version));
        let takes_pre = has_pre || released.is_empty();
        for end in ends() {
            if !available
                .iter()
                .any(|version| manager.compare_versions(version, end) == Ordering::Equal)
            {
                let listed = if takes_pre { &available } else { &released };
                return self.refuse_end(end, listed);
            }
        }
        if let (Some(first), Some(last)) = (first, last)
            && manager.compare_versions(first, last) == Ordering::Greater
        {
            return refuse_with_hint(
                format!("`{first}` of {name} is newer than `{last}`"),
                format!("write the older version first: {name}=={last}..{first}"),
            );
        }
        let inside = |version: &String| {
            let after = |first: &String| manager.compare_versions(version, first) != Ordering::Less;
            let is_until =
                |last: &String| manager.compare_versions(version, last) != Ordering::Greater;
            first.as_ref().is_none_or(after) && last.as_ref().is_none_or(is_until)
        };
        let mut notes = listing.notes;
        let omitted: Vec<_> = pre.into_iter().filter(|version| inside(version)).collect();
        if !(takes_pre || omitted.is_empty()) {
            notes.push(format!(
                "left out: pre-releases ({}); they are included if an end is a pre-release",
                words::list_first(&omitted, SHOWN)
            ));
        }
        let versions: Vec<_> = if takes_pre { available } else { released };
        let versions: Vec<_> = versions.into_iter().filter(inside).collect();
        if versions.is_empty() {
            return refuse_with_hint(
                format!("{} lists no versions of {name}", manager.name()),
                format!("name versions if you know them: {name}==A,B,C"),
            );
        }
        Ok(VersionList { versions, notes })
    }

    fn refuse_end(&self, end: &str, listed: &[String]) -> Result<VersionList, Diagnostic> {
        let (tool, name) = (self.manager.name(), &self.name);
        let index = listed.partition_point(|listed_version| {
            self.manager.compare_versions(listed_version, end) == Ordering::Less
        });
        let start = index.saturating_sub(SHOWN / 2);
        let near = listed[start..]
            .iter()
            .take(SHOWN - 1)
            .cloned()
            .collect::<Vec<_>>();
        let near_text = if near.is_empty() {
            format!("{tool} lists no versions")
        } else {
            format!(
                "the nearest versions that {tool} lists: {}",
                near.join(", ")
            )
        };
        let other_name = match self.manager {
            PackageManager::Pip => " or needs another interpreter",
            _ => "",
        };
        refuse_with_hint(
            format!("{tool} lists no version `{end}` of {name}"),
            format!("{near_text}; name a version that is not listed{other_name}: {name}==A,B,C"),
        )
    }
}

/// Quotes known names that this name may mean.
pub(super) fn similar_names(name: &str, known_names: impl IntoIterator<Item = String>) -> String {
    let quoted = nearest_names(name, known_names)
        .into_iter()
        .map(|near| format!("`{near}`"));
    quoted.collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_spec(text: &str) -> PackageSpec {
        PackageSpec::parse(PackageManager::Pip, text)
            .unwrap_or_else(|fault| panic!("{text}: {fault}"))
    }

    fn between(first: &str, last: &str) -> VersionSelection {
        let end = |end: &str| Some(end.to_owned()).filter(|end| !end.is_empty());
        VersionSelection::Between(end(first), end(last))
    }

    fn choose_versions_from(text: &str, listed: &[&str]) -> Result<VersionList, Diagnostic> {
        parse_spec(text).choose_versions(VersionList {
            versions: listed.iter().map(ToString::to_string).collect(),
            notes: Vec::new(),
        })
    }

    #[test]
    fn a_range_may_be_open_and_a_list_keeps_its_order() {
        assert_eq!(parse_spec("torch").choice, between("", ""));
        assert_eq!(parse_spec("torch==..").choice, between("", ""));
        assert_eq!(parse_spec("torch==1.0..1.4").choice, between("1.0", "1.4"));
        assert_eq!(parse_spec("torch=1.0..").choice, between("1.0", ""));
        assert_eq!(parse_spec("torch==..1.4").choice, between("", "1.4"));
        let listed = VersionSelection::Named(vec!["1.4".to_owned(), "1.0".to_owned()]);
        assert_eq!(parse_spec("torch==1.4, 1.0").choice, listed);
        let spec = parse_spec("torch[cuda, x]==1.0..");
        assert_eq!(
            (spec.name.as_str(), spec.extras.as_str()),
            ("torch", "[cuda,x]")
        );
        assert_eq!(spec.choice, between("1.0", ""));
    }

    #[test]
    fn ambiguous_and_invalid_package_specs_are_refused() {
        for text in [
            "",
            "==1",
            "-e",
            "a b",
            "a;b",
            "torch>=1.0",
            "torch==",
            "torch==1,,2",
            "torch==1..$(x)",
            "torch==-r",
            "torch[",
            "torch[x;y]==1",
            "a/b",
            "torch=='1'..2",
        ] {
            let fault = PackageSpec::parse(PackageManager::Pip, text).expect_err(text);
            assert!(fault.hint().contains("NAME==A..B"), "{text}");
        }
        assert!(PackageSpec::parse(PackageManager::Npm, "@scope/name==1.0.0..").is_ok());
        assert!(PackageSpec::parse(PackageManager::Apt, "libstdc++6:i386==1:2.0~rc-1..").is_ok());
        assert!(PackageSpec::parse(PackageManager::Cargo, "serde[derive]").is_err());
    }

    #[test]
    fn versions_are_sorted_oldest_first_including_both_ends() {
        let listed = ["1.10", "1.9", "1.0.0", "1.4", "1.9"];
        assert_eq!(
            choose_versions_from("x", &listed).unwrap().versions,
            ["1.0.0", "1.4", "1.9", "1.10"]
        );
        assert_eq!(
            choose_versions_from("x==1.0..1.9", &listed)
                .unwrap()
                .versions,
            ["1.0.0", "1.4", "1.9"]
        );
        assert_eq!(
            choose_versions_from("x==1.9..", &listed).unwrap().versions,
            ["1.9", "1.10"]
        );
    }

    #[test]
    fn pre_releases_are_included_only_if_an_end_is_one() {
        let listed = ["1.0", "1.1rc1", "1.1", "1.2.dev1"];
        let some = choose_versions_from("x", &listed).unwrap();
        assert_eq!(some.versions, ["1.0", "1.1"]);
        assert!(
            some.notes[0].contains("(1.1rc1, 1.2.dev1)"),
            "{:?}",
            some.notes
        );
        let some = choose_versions_from("x==1.1rc1..", &listed).unwrap();
        assert_eq!(some.versions, ["1.1rc1", "1.1", "1.2.dev1"]);
        assert!(some.notes.is_empty());
        assert_eq!(
            choose_versions_from("x", &["1.0a1", "1.0a2"])
                .unwrap()
                .versions,
            ["1.0a1", "1.0a2"]
        );
    }

    #[test]
    fn an_end_that_is_not_listed_is_refused_with_its_neighbours() {
        let listed = ["1.0", "1.1", "1.2", "1.3", "2.0"];
        let fault = choose_versions_from("x==1.0..1.15", &listed).err().unwrap();
        assert_eq!(fault.to_string(), "pip lists no version `1.15` of x");
        assert!(
            fault.hint().contains("1.3, 2.0; name a version"),
            "{}",
            fault.hint()
        );
        let fault = choose_versions_from("x==1.2..1.0", &listed).err().unwrap();
        assert!(fault.hint().contains("x==1.0..1.2"), "{}", fault.hint());
        assert!(choose_versions_from("x", &[]).is_err());
    }

    #[test]
    fn similar_names_differ_by_few_letters() {
        let known = || ["numpy", "scipy", "nump", "torch"].map(str::to_owned);
        assert_eq!(similar_names("numpi", known()), "`nump` or `numpy`");
        assert_eq!(similar_names("zebra", known()), "");
    }
}
