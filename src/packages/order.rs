//! Compares versions by the rules of each package tool.
//!
//! Invalid versions come before all valid ones; no tool would list them.

use std::cmp::Ordering;

/// Compares versions of Python packages by PEP 440.
pub(super) fn compare_python(a: &str, b: &str) -> Ordering {
    PythonVersion::parse(a).cmp(&PythonVersion::parse(b))
}

/// Returns whether a version is a pre-release or a development release.
pub(super) fn is_python_pre(version: &str) -> bool {
    PythonVersion::parse(version)
        .is_some_and(|version| version.pre != PreRelease::None || version.dev != DevRelease::None)
}

/// Compares versions of crates and Node.js packages by Semantic Versioning. Build metadata after
/// `+`, which it does not order, is compared as text.
pub(super) fn compare_semantic(a: &str, b: &str) -> Ordering {
    SemanticVersion::parse(a).cmp(&SemanticVersion::parse(b))
}

/// Returns whether a version is a pre-release.
pub(super) fn is_semantic_pre(version: &str) -> bool {
    version
        .split('+')
        .next()
        .is_some_and(|core| core.contains('-'))
}

/// Compares versions of Debian packages like `dpkg --compare-versions`.
pub(super) fn compare_debian(a: &str, b: &str) -> Ordering {
    let parts = |version: &'_ str| -> (u64, String, String) {
        let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
        let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
        (
            parse_digits(epoch),
            upstream.to_owned(),
            revision.to_owned(),
        )
    };
    let (a, b) = (parts(a), parts(b));
    a.0.cmp(&b.0)
        .then_with(|| debian_part(a.1.as_bytes(), b.1.as_bytes()))
        .then_with(|| debian_part(a.2.as_bytes(), b.2.as_bytes()))
}

/// Compares a part in which text and numbers alternate. `~` is older than the end, and letters are
/// older than other characters.
fn debian_part(mut a: &[u8], mut b: &[u8]) -> Ordering {
    let rank = |sign: Option<&u8>| match sign {
        Some(b'~') => -1,
        Some(sign) if sign.is_ascii_digit() => 0,
        Some(sign) if sign.is_ascii_alphabetic() => i32::from(*sign),
        Some(sign) => i32::from(*sign) + 256,
        None => 0,
    };
    let digits = |text: &[u8]| text.iter().take_while(|sign| sign.is_ascii_digit()).count();
    while !(a.is_empty() && b.is_empty()) {
        while [a, b]
            .iter()
            .any(|text| text.first().is_some_and(|sign| !sign.is_ascii_digit()))
        {
            let order = rank(a.first()).cmp(&rank(b.first()));
            if order != Ordering::Equal {
                return order;
            }
            a = a.get(1..).unwrap_or_default();
            b = b.get(1..).unwrap_or_default();
        }
        let ((x, after_a), (y, after_b)) = (a.split_at(digits(a)), b.split_at(digits(b)));
        let value = |digits: &[u8]| parse_digits(&String::from_utf8_lossy(digits));
        let order = value(x).cmp(&value(y));
        if order != Ordering::Equal {
            return order;
        }
        (a, b) = (after_a, after_b);
    }
    Ordering::Equal
}

/// Parses digits as a number; an empty text is zero.
fn parse_digits(digits: &str) -> u64 {
    if digits.is_empty() {
        return 0;
    }
    digits.parse().unwrap_or(u64::MAX)
}

/// Removes trailing zeros: `1.0` equals `1.0.0`.
fn without_zeros(mut release: Vec<u64>) -> Vec<u64> {
    while release.last() == Some(&0) {
        release.pop();
    }
    release
}

/// Fields in the order of their significance; smaller values are older.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PythonVersion {
    epoch: u64,
    release: Vec<u64>,
    pre: PreRelease,
    post: Option<u64>,
    dev: DevRelease,
    local: Option<Vec<LocalSegment>>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum PreRelease {
    /// A development release of the release itself is older than its first alpha.
    OnlyDev,
    Some(char, u64),
    None,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum DevRelease {
    Some(u64),
    None,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum LocalSegment {
    Word(String),
    Number(u64),
}

impl PythonVersion {
    fn parse(version: &str) -> Option<Self> {
        let version = version.trim().to_ascii_lowercase();
        let version = version.strip_prefix('v').unwrap_or(&version);
        let (public, local) = match version.split_once('+') {
            Some((public, local)) => (public, Some(local)),
            None => (version, None),
        };
        let (epoch, mut rest) = match public.split_once('!') {
            Some((epoch, rest)) => (epoch.parse().ok()?, rest),
            None => (0, public),
        };
        let mut release = vec![parse_digits(take_digits(&mut rest)?)];
        while let Some(mut after) = rest.strip_prefix('.') {
            let Some(next) = take_digits(&mut after) else {
                break;
            };
            release.push(parse_digits(next));
            rest = after;
        }
        let names = [
            ("alpha", 'a'),
            ("beta", 'b'),
            ("preview", 'r'),
            ("pre", 'r'),
            ("rc", 'r'),
            ("a", 'a'),
            ("b", 'b'),
            ("c", 'r'),
        ];
        let pre = names
            .into_iter()
            .find_map(|(name, kind)| Some((kind, take_part(&mut rest, name)?)));
        let bare = rest.strip_prefix('-').and_then(|mut after| {
            let post = parse_digits(take_digits(&mut after)?);
            rest = after;
            Some(post)
        });
        let names = ["post", "rev", "r"];
        let post = bare.or_else(|| {
            names
                .into_iter()
                .find_map(|name| take_part(&mut rest, name))
        });
        let dev = take_part(&mut rest, "dev");
        let local = local.map(|local| {
            let parts = local.split(['.', '-', '_']);
            let part = |part: &str| {
                part.parse()
                    .map_or(LocalSegment::Word(part.to_owned()), LocalSegment::Number)
            };
            parts.map(part).collect()
        });
        rest.is_empty().then(|| Self {
            epoch,
            release: without_zeros(release),
            pre: match pre {
                Some((kind, number)) => PreRelease::Some(kind, number),
                None if post.is_none() && dev.is_some() => PreRelease::OnlyDev,
                None => PreRelease::None,
            },
            post,
            dev: dev.map_or(DevRelease::None, DevRelease::Some),
            local,
        })
    }
}

/// Splits digits off the start of a text.
fn take_digits<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let end = rest
        .find(|sign: char| !sign.is_ascii_digit())
        .unwrap_or(rest.len());
    let (found, after) = rest.split_at(end);
    (end > 0).then(|| *rest = after)?;
    Some(found)
}

/// Splits `.name1`, `name-1`, or `name`, which means zero, off the start of a text.
fn take_part(rest: &mut &str, name: &str) -> Option<u64> {
    let sign = ['.', '-', '_'];
    let mut after = rest.strip_prefix(sign).unwrap_or(rest).strip_prefix(name)?;
    let mut behind = after.strip_prefix(sign).unwrap_or(after);
    let found = take_digits(&mut behind);
    if found.is_some() {
        after = behind;
    }
    *rest = after;
    Some(found.map_or(0, parse_digits))
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SemanticVersion {
    core: Vec<u64>,
    pre: SemanticPreRelease,
    build: String,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum SemanticPreRelease {
    Some(Vec<PreReleaseIdentifier>),
    None,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum PreReleaseIdentifier {
    Number(u64),
    Word(String),
}

impl SemanticVersion {
    fn parse(version: &str) -> Option<Self> {
        let (rest, build) = version.split_once('+').unwrap_or((version, ""));
        let (core, pre) = match rest.split_once('-') {
            Some((core, pre)) => (core, Some(pre)),
            None => (rest, None),
        };
        let core: Result<_, _> = core.split('.').map(str::parse).collect();
        let identifier = |part: &str| {
            part.parse().map_or(
                PreReleaseIdentifier::Word(part.to_owned()),
                PreReleaseIdentifier::Number,
            )
        };
        Some(Self {
            core: without_zeros(core.ok()?),
            pre: pre.map_or(SemanticPreRelease::None, |pre| {
                SemanticPreRelease::Some(pre.split('.').map(identifier).collect())
            }),
            build: build.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn is_in_order(versions: &[&str], compare: fn(&str, &str) -> Ordering) {
        for (i, a) in versions.iter().enumerate() {
            for (j, b) in versions.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} and {b}");
            }
        }
    }

    #[test]
    fn versions_of_python_are_ordered_as_pep_440_says() {
        let versions = [
            "no version",
            "0.9",
            "1.dev0",
            "1.0.dev456",
            "1.0a1",
            "1.0a2.dev456",
            "1.0a12.dev456",
            "1.0a12",
            "1.0b1.dev456",
            "1.0b2",
            "1.0b2.post345.dev456",
            "1.0b2.post345",
            "1.0rc1.dev456",
            "1.0rc1",
            "1.0",
            "1.0+abc.5",
            "1.0+abc.7",
            "1.0+5",
            "1.0.post456.dev34",
            "1.0.post456",
            "1.0.15",
            "1.1.dev1",
            "1.9",
            "1.10",
            "2013.10",
            "1!0.1",
        ];
        is_in_order(&versions, compare_python);
    }

    #[test]
    fn a_version_of_python_has_many_spellings() {
        for (a, b) in [
            ("1.0", "1.0.0"),
            ("1.0alpha1", "1.0a1"),
            ("1.0-beta.2", "1.0b2"),
            ("1.0c1", "1.0rc1"),
            ("1.0.preview", "1.0rc0"),
            ("v1.0", "1"),
            ("1.0-1", "1.0.post1"),
            ("1.0_r1", "1.0.post1"),
            ("1.0RC1", "1.0rc1"),
            ("1.0+Ubuntu-1", "1.0+ubuntu.1"),
        ] {
            assert_eq!(compare_python(a, b), Ordering::Equal, "{a} and {b}");
        }
    }

    #[test]
    fn pre_releases_are_known() {
        for version in ["1.0a1", "1.0rc1", "1.0.dev1", "1.0.post1.dev2", "1.0-beta"] {
            assert!(is_python_pre(version), "{version}");
        }
        for version in ["1.0", "1.0.post1", "1.0+cpu", "1.0-1", "nonsense"] {
            assert!(!is_python_pre(version), "{version}");
        }
        assert!(is_semantic_pre("1.0.0-rc.1+build"));
        assert!(!is_semantic_pre("1.0.0+build-1"));
    }

    #[test]
    fn versions_of_crates_are_ordered_as_semver_says() {
        let versions = [
            "nonsense",
            "0.9.9",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.0+1",
            "1.2.0",
            "1.10.0",
        ];
        is_in_order(&versions, compare_semantic);
        assert_eq!(compare_semantic("1.2", "1.2.0"), Ordering::Equal);
    }

    #[test]
    fn versions_of_debian_are_ordered_as_dpkg_does() {
        let versions = [
            "1.0~~",
            "1.0~~a",
            "1.0~",
            "1.0~rc1-1",
            "1.0",
            "1.0-1",
            "1.0-1+b1",
            "1.0-1.1",
            "1.0-2~bpo1",
            "1.0-2",
            "1.0-10",
            "1.0a",
            "1.0a1",
            "1.0+dfsg",
            "1.0.1",
            "1.9",
            "1.10",
            "1:0.5",
        ];
        is_in_order(&versions, compare_debian);
        for pair in versions.windows(2) {
            let mut dpkg = Command::new("dpkg");
            let done = dpkg
                .args(["--compare-versions", pair[0], "lt", pair[1]])
                .status();
            assert!(done.unwrap().success(), "{pair:?}");
        }
        assert_eq!(compare_debian("0:1.0", "1.00"), Ordering::Equal);
    }
}
