//! Compares versions by the rules of each package tool.
//!
//! Invalid versions come before all valid ones; no tool would list them.

use pep440_rs::Version as PythonVersion;
use semver::Version as SemanticVersion;
use std::cmp::Ordering;
use std::str::FromStr as _;

/// Compares versions of Python packages by PEP 440.
pub(super) fn compare_python(a: &str, b: &str) -> Ordering {
    let parse = |version: &str| PythonVersion::from_str(version).ok();
    parse(a).cmp(&parse(b))
}

/// Returns whether a version is a pre-release or a development release.
pub(super) fn is_python_pre(version: &str) -> bool {
    PythonVersion::from_str(version).is_ok_and(|version| version.any_prerelease())
}

/// Compares versions of crates and Node.js packages by Semantic Versioning.
pub(super) fn compare_semantic(a: &str, b: &str) -> Ordering {
    parse_semantic(a).cmp(&parse_semantic(b))
}

/// Returns whether a version is a pre-release.
pub(super) fn is_semantic_pre(version: &str) -> bool {
    version
        .split('+')
        .next()
        .is_some_and(|core| core.contains('-'))
}

/// Parses a version, in which a range may omit the last numbers: `1.2` means `1.2.0`.
fn parse_semantic(version: &str) -> Option<SemanticVersion> {
    let (core, rest) = version.split_at(version.find(['-', '+']).unwrap_or(version.len()));
    let zeros = ".0".repeat(2_usize.saturating_sub(core.matches('.').count()));
    SemanticVersion::parse(&format!("{core}{zeros}{rest}")).ok()
}

/// Compares versions of Debian packages like `dpkg --compare-versions`.
pub(super) fn compare_debian(a: &str, b: &str) -> Ordering {
    let version_parts = |version: &'_ str| -> (u64, String, String) {
        let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
        let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
        (
            parse_digits(epoch),
            upstream.to_owned(),
            revision.to_owned(),
        )
    };
    let (a, b) = (version_parts(a), version_parts(b));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn assert_in_order(versions: &[&str], compare: fn(&str, &str) -> Ordering) {
        for (i, a) in versions.iter().enumerate() {
            for (j, b) in versions.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} and {b}");
            }
        }
    }

    #[test]
    fn python_versions_are_ordered_by_pep_440() {
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
        assert_in_order(&versions, compare_python);
    }

    #[test]
    fn different_spellings_of_a_python_version_are_equal() {
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
    fn pre_releases_are_recognized() {
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
    fn crate_versions_are_ordered_by_semver() {
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
        assert_in_order(&versions, compare_semantic);
        assert_eq!(compare_semantic("1.2", "1.2.0"), Ordering::Equal);
    }

    #[test]
    fn debian_versions_are_ordered_like_dpkg() {
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
        assert_in_order(&versions, compare_debian);
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
