//! Distinguishes the source files of the user from those of packages and of language libraries.

use provoke_model::Site;

/// The author of a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceOwner {
    User,
    /// An installed package, such as one in `site-packages`.
    Package,
    /// A system library, a compiler, or the library of a language.
    Library,
}

/// Folders of system libraries and compilers.
const SYSTEM: [&str; 7] = [
    "/rustc/",
    "/usr/include/",
    "/usr/lib/",
    "/usr/src/",
    "/usr/local/go/src/",
    "./",
    "../",
];

/// Parts of the paths of packages: of Python, Rust, Node.js and Go.
const PACKAGES: [&str; 4] = [
    "-packages/",
    "/registry/src/",
    "/node_modules/",
    "/pkg/mod/",
];

/// Parts of the paths of language libraries. A compiler that has the sources of Rust's library names them in its
/// toolchain.
const LANGUAGES: [&str; 6] = [
    "/lib/rustlib/src/rust/",
    "/lib/python3.",
    "/lib64/python3.",
    "/lib/python2.",
    "/lib/pypy3.",
    "/hostedtoolcache/go/",
];

impl SourceOwner {
    pub fn of_file(file: &str) -> Self {
        if PACKAGES.iter().any(|part| file.contains(part)) {
            Self::Package
        } else if file.starts_with("<frozen ")
            || SYSTEM.iter().any(|start| file.starts_with(start))
            || LANGUAGES.iter().any(|part| file.contains(part))
        {
            Self::Library
        } else {
            Self::User
        }
    }
}

/// Returns the innermost call in the user's code, with its caller; the calls are innermost first. If no call is in the
/// user's code, a package is preferred to a library.
pub fn innermost_own_site(calls: &[Site]) -> Option<Site> {
    let owner_of = |site: &Site| SourceOwner::of_file(&site.file);
    let owner = calls.iter().map(owner_of).min()?;
    let mut own_calls = calls.iter().filter(|call| owner_of(call) == owner);
    let innermost = own_calls.next()?.clone();
    Some(Site {
        caller: own_calls.next().cloned().map(Box::new),
        ..innermost
    })
}

#[cfg(test)]
mod tests {
    use super::SourceOwner;

    #[test]
    fn the_owner_of_a_source_file_follows_from_its_path() {
        for (file, owner) in [
            (
                "/rustc/59807616e1fa/library/core/src/ptr/mod.rs",
                SourceOwner::Library,
            ),
            (
                "/home/me/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/ptr/mod.rs",
                SourceOwner::Library,
            ),
            (
                "/usr/include/c++/12/bits/shared_ptr_base.h",
                SourceOwner::Library,
            ),
            ("./nptl/pthread_kill.c", SourceOwner::Library),
            (
                "/opt/python/lib/python3.12/threading.py",
                SourceOwner::Library,
            ),
            ("/usr/lib64/python3.9/queue.py", SourceOwner::Library),
            ("<frozen runpy>", SourceOwner::Library),
            (
                "/home/me/venv/lib/python3.12/site-packages/kit/loop.py",
                SourceOwner::Package,
            ),
            (
                "/usr/lib/python3/dist-packages/kit/loop.py",
                SourceOwner::Package,
            ),
            (
                "/root/.cargo/registry/src/index.crates.io-6f17d22bba15001f/serde-1.0/src/lib.rs",
                SourceOwner::Package,
            ),
            (
                "/srv/app/node_modules/express/lib/router.js",
                SourceOwner::Package,
            ),
            ("/home/me/project/src/main.rs", SourceOwner::User),
            ("src/main.rs", SourceOwner::User),
            ("<string>", SourceOwner::User),
            ("/home/me/lib/python-tools/job.py", SourceOwner::User),
        ] {
            assert_eq!(SourceOwner::of_file(file), owner, "{file}");
        }
    }
}
