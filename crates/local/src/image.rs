//! Copies files out of container images, because a core refers to the files of its image.

use provoke_model::Container;
use provoke_sys::engine::{self, Engine};
use provoke_sys::files;
use provoke_sys::held_folder::check_place;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Limit of files that are copied for a core.
const MAX_FILES: usize = 200;

/// Folders with files from images; dropping this value removes them.
pub(super) struct ImageFolders {
    folder: PathBuf,
    /// Number of each image, and the files that were requested from it.
    known_files: BTreeMap<(String, String), (usize, BTreeSet<PathBuf>)>,
}

impl ImageFolders {
    pub(super) fn new(trials: &Path) -> Self {
        Self {
            folder: trials.join("images"),
            known_files: BTreeMap::new(),
        }
    }

    /// Returns a folder with the files that a core names, at their paths.
    ///
    /// Files that are missing in the image are links to this machine's files, because they come
    /// from mounted folders.
    pub(super) fn root_for_core(
        &mut self,
        container: &Container,
        variant: &str,
        core: &Path,
    ) -> Option<PathBuf> {
        self.root_with_files(
            container,
            variant,
            provoke_autopsy::mapped_paths(core).ok()?,
        )
    }

    /// Returns a folder with these files of an image, at their paths.
    pub(super) fn root_with_files(
        &mut self,
        container: &Container,
        variant: &str,
        files: impl IntoIterator<Item = PathBuf>,
    ) -> Option<PathBuf> {
        let engine = Engine::find_in_path(&container.engine)?;
        let image = container
            .image
            .fill_marks(&[("{variant}", variant)])
            .to_string();
        let next = self.known_files.len();
        let image_key = (container.engine.clone(), image.clone());
        let (number, known_files) = self
            .known_files
            .entry(image_key)
            .or_insert((next, BTreeSet::new()));
        let root = self.folder.join(number.to_string());
        // A path in a core may be crafted to lead out of the folder.
        let fresh: Vec<PathBuf> = files
            .into_iter()
            .filter(|file| is_plain(file))
            .take(MAX_FILES)
            .filter(|file| known_files.insert(file.clone()))
            .collect();
        if !fresh.is_empty() {
            let own_pid = std::process::id().cast_signed();
            let name = format!("provoke-files-{own_pid}-{number}");
            let is_created = engine.create_container(&name, &engine::process_mark(own_pid), &image);
            for file in fresh {
                let target = root.join(file.strip_prefix("/").unwrap_or(&file));
                let _ = target.parent().map(files::create_folders);
                let copied = is_created
                    && check_place(&target).is_ok()
                    && engine
                        .copy_file(&name, &file.to_string_lossy(), &target)
                        .is_ok();
                if !copied || !files::is_regular(&target) {
                    // Remove folders and links from the image, because the path of the next file
                    // may lead through them.
                    let _ = files::remove_tree(&target);
                    if file.is_file() {
                        let _ = files::create_symlink(&file, &target);
                    }
                }
            }
            if is_created {
                engine.remove_one(&name);
            }
        }
        Some(root)
    }
}

/// Returns whether a path is absolute and contains only names.
fn is_plain(path: &Path) -> bool {
    let mut components = path.components();
    components.next() == Some(Component::RootDir)
        && components.all(|component| matches!(component, Component::Normal(_)))
}

impl Drop for ImageFolders {
    fn drop(&mut self) {
        let _ = files::remove_tree(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_and_paths_with_dot_dot_are_not_plain() {
        for (path, plain) in [
            ("/app", true),
            ("/usr/lib/x.so", true),
            ("/../etc/passwd", false),
            ("/usr/../../etc/passwd", false),
            ("app", false),
            ("", false),
        ] {
            assert_eq!(is_plain(Path::new(path)), plain, "{path}");
        }
    }
}
