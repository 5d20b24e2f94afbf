//! Files of trials that ran on another host: their names, and the paths in observations.

use provoke_exec::all_cores;
use provoke_model::{Observation, TrialId};
use std::path::{Component, Path, PathBuf};

/// Longest path of a file below the directory of a trial.
const MAX_DEPTH: usize = 16;

/// Returns the path of a file below a folder, if a name from another host stays below it.
pub(super) fn path_below(folder: &Path, name: &Path) -> Option<PathBuf> {
    let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    let depth = name.components().count();
    let stays_below = name.components().all(is_normal) && (1..=MAX_DEPTH).contains(&depth);
    stays_below.then(|| folder.join(name))
}

/// Replaces the directory of trials on another host by the one on this machine. A path that is not that of a core of this
/// trial is removed, because cores may be deleted.
pub(super) fn relocate_cores(
    observation: &mut Observation,
    trial: TrialId,
    there: &Path,
    here: &Path,
) {
    let number = trial.0.to_string();
    let (there, here) = (there.join(&number), here.join(&number));
    let is_core = |name: &&Path| {
        let name = name.to_str();
        name.is_some_and(|name| name.starts_with("core.") && !name.contains('/'))
    };
    for core in all_cores(observation) {
        let below = Path::new(core.file.as_os_str()).strip_prefix(&there).ok();
        let path = below.filter(is_core).map(|name| here.join(name));
        core.file = path.map_or_else(Default::default, |path| path.as_path().into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::CoreObservation;

    #[test]
    fn a_file_stays_below_its_folder() {
        let below = |name: &str| path_below(Path::new("/run/7"), Path::new(name));
        assert_eq!(below("out.0.0"), Some(PathBuf::from("/run/7/out.0.0")));
        assert_eq!(below("a/b"), Some(PathBuf::from("/run/7/a/b")));
        for name in [
            "",
            ".",
            "..",
            "../8/out",
            "a/../../x",
            "/etc/passwd",
            &"a/".repeat(17),
        ] {
            assert_eq!(below(name), None, "{name}");
        }
    }

    #[test]
    fn cores_of_another_host_never_name_other_files_here() {
        let core = |file: &str| CoreObservation {
            file: Path::new(file).into(),
            ..CoreObservation::default()
        };
        let mut observation = Observation {
            cores: vec![
                core("/tmp/w/3/core.7"),
                core("/etc/passwd"),
                core("/tmp/w/../x"),
                core("/tmp/w/4/core.7"),
                core("/tmp/w/3/stdout"),
                core("/tmp/w/3/core.1/../../4/core.7"),
            ],
            ..Observation::default()
        };
        let (there, here) = (Path::new("/tmp/w"), Path::new("/run"));
        relocate_cores(&mut observation, TrialId(3), there, here);
        let files = observation.cores.iter().map(|core| core.file.to_string());
        assert_eq!(
            files.collect::<Vec<_>>(),
            ["/run/3/core.7", "", "", "", "", ""]
        );
    }
}
