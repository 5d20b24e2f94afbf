//! Chooses the `cargo build` command that creates the program of a command, by its path.

/// Returns the build command for a program in cargo's output folder; `None` if no word names one.
pub fn cargo_build_of<'a>(command: impl IntoIterator<Item = &'a str>) -> Option<String> {
    command.into_iter().find_map(build_of_word)
}

/// Returns whether a build is a plain `cargo build` that creates another profile than the one of this command.
pub fn builds_other_profile(build: &str, needed: &str) -> bool {
    let plain = ["cargo build", "cargo b"];
    let words: Vec<&str> = build.split_whitespace().collect();
    plain.contains(&words.join(" ").as_str()) && needed != plain[0]
}

fn build_of_word(word: &str) -> Option<String> {
    let (before, below) = word.split_once("target/")?;
    // A script may contain the path.
    if before.ends_with(|end: char| end.is_alphanumeric() || "-_.".contains(end)) {
        return None;
    }
    let (profile, program) = below.split_once('/')?;
    let is_name = |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    if profile.is_empty() || !profile.chars().all(is_name) {
        return None;
    }
    let profile_flag = match profile {
        "debug" => String::new(),
        "release" => " --release".to_owned(),
        _ => format!(" --profile {profile}"),
    };
    let examples = if program.starts_with("examples/") {
        " --examples"
    } else {
        ""
    };
    Some(format!("cargo build{profile_flag}{examples}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_program_names_the_profile() {
        let build = |command: &str| cargo_build_of(command.split('|')).unwrap_or_default();
        assert_eq!(build("./target/release/app|-x"), "cargo build --release");
        assert_eq!(build("target/debug/app"), "cargo build");
        assert_eq!(
            build("timeout|9|/home/me/app/target/fuzzing/app"),
            "cargo build --profile fuzzing"
        );
        assert_eq!(
            build("target/release/examples/demo"),
            "cargo build --release --examples"
        );
        assert_eq!(
            build("sh|-c|cd data && ../target/release/app"),
            "cargo build --release"
        );
        for other in [
            "app",
            "./mytarget/release/app",
            "target/app",
            "target/{variant}/app",
        ] {
            assert_eq!(build(other), "", "{other}");
        }
    }

    #[test]
    fn only_a_plain_build_creates_the_wrong_profile_for_certain() {
        let release = "cargo build --release";
        assert!(builds_other_profile("cargo build", release));
        assert!(!builds_other_profile("cargo build", "cargo build"));
        assert!(!builds_other_profile(release, release));
        assert!(!builds_other_profile("make", release));
    }
}
