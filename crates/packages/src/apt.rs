//! Packages of Debian: unpacked beside the installed ones, which needs no root rights.

use super::script::{self, quote_word};
use super::spec::PackageSpec;
use super::{
    EnvironmentRecipe, VersionList, VersionQuery, ask_tool, prepend_to_variable,
    refuse_unknown_name, refuse_with_hint,
};
use provoke_words::diagnostic::Diagnostic;

/// Lists the versions in the sources of apt.
pub(super) fn list_versions(
    query: &VersionQuery,
    spec: &PackageSpec,
) -> Result<VersionList, Diagnostic> {
    let output = ask_tool(query, "apt-cache", &["madison", &spec.name])?;
    let lines = output
        .stdout
        .lines()
        .filter(|line| !line.ends_with(" Sources"));
    let mut versions: Vec<_> = lines
        .filter_map(|line| Some(line.split('|').nth(1)?.trim().to_owned()))
        .collect();
    if !versions.is_empty() {
        // Several sources may have the same version.
        versions.sort();
        versions.dedup();
        return Ok(VersionList {
            versions,
            notes: vec![
                "apt lists the versions of its sources, as of the last `apt-get update`".to_owned(),
            ],
        });
    }
    if !output.fine {
        return refuse_with_hint(
            format!("apt does not list {}: {}", spec.name, output.failure_line()),
            format!("does `apt-cache madison {}` work?", spec.name),
        );
    }
    let names = ask_tool(query, "apt-cache", &["pkgnames"])?.stdout;
    if names.lines().any(|name| *name == spec.name) {
        return refuse_with_hint(
            format!("no apt source has {}", spec.name),
            "it is installed, or another package provides it; choose a package that `apt-cache madison` lists",
        );
    }
    refuse_unknown_name(spec, names.lines().map(str::to_owned))
}

/// Returns the recipe that unpacks a version.
pub(super) fn unpack_recipe(spec: &PackageSpec) -> (EnvironmentRecipe, Vec<String>) {
    let package = quote_word(&format!("{}={{variant}}", spec.name));
    let get =
        format!("cd \"$PROVOKE_MADE\" && apt-get download {package} && dpkg-deb -x ./*.deb root");
    let mut script = script::run_command_lines(&get, "^E: |^dpkg-deb: error");
    script += "rm -f \"$PROVOKE_MADE\"/*.deb\n";
    let paths_below = |folders: &[&str]| {
        let folders = folders
            .iter()
            .map(|folder| format!("{{made}}/root/{folder}"));
        folders.collect::<Vec<_>>()
    };
    let triplet = multiarch_triplet(&spec.name);
    let (usr, top) = (format!("usr/lib/{triplet}"), format!("lib/{triplet}"));
    let libraries = paths_below(&[&usr, &top, "usr/lib", "lib"]);
    let recipe = EnvironmentRecipe {
        script,
        path: paths_below(&[
            "usr/local/bin",
            "usr/sbin",
            "usr/bin",
            "sbin",
            "bin",
            "usr/games",
        ]),
        env: vec![prepend_to_variable("LD_LIBRARY_PATH", libraries)],
        cwd: None,
        shared: true,
    };
    let notes = [
        "each version is unpacked in its own directory and found by PATH and LD_LIBRARY_PATH; its scripts do not run",
        "its dependencies stay as installed",
    ];
    (recipe, notes.map(str::to_owned).to_vec())
}

/// Returns Debian's name for the library folder of an architecture.
fn multiarch_triplet(package: &str) -> String {
    let machine = match package.split_once(':').map(|(_, machine)| machine) {
        Some("amd64") => "x86_64",
        Some("i386") => "x86",
        Some("arm64") => "aarch64",
        Some("armhf") => "arm",
        Some("ppc64el") => "powerpc64",
        Some("native" | "any" | "all") | None => std::env::consts::ARCH,
        Some(other_arch) => other_arch,
    };
    match machine {
        "x86" => "i386-linux-gnu".to_owned(),
        "arm" => "arm-linux-gnueabihf".to_owned(),
        "powerpc64" => "powerpc64le-linux-gnu".to_owned(),
        other_arch => format!("{other_arch}-linux-gnu"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_directory_depends_on_the_architecture() {
        assert_eq!(multiarch_triplet("libc6:i386"), "i386-linux-gnu");
        assert_eq!(multiarch_triplet("libc6:arm64"), "aarch64-linux-gnu");
        assert_eq!(multiarch_triplet("libc6:s390x"), "s390x-linux-gnu");
        assert_eq!(
            multiarch_triplet("libc6"),
            multiarch_triplet("libc6:native")
        );
    }
}
