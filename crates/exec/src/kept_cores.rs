//! Limits the number of cores that a run keeps: cores are large, and may contain secrets of the
//! program.

use provoke_model::{CASES_FOLDER, CoreObservation, Observation, STORY_FILE, SignatureId};
use provoke_sys::{files, host};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Number of distinct failures whose cores are kept.
const SIGNATURES: usize = 20;
/// Limit of the bytes of all cores of a run.
const BYTES: u64 = 8 << 30;
/// The divisor of the free disk space that the cores of a run may use.
const SHARE: u64 = 4;

/// Cores that were kept so far.
#[derive(Debug, Default)]
pub struct KeptCores {
    /// Bytes of all cores but those of the latest failure.
    bytes: u64,
    /// Bytes of the cores of the latest failure. Until they arrive from another host, this is the number that it reports.
    latest: u64,
    signatures: BTreeSet<SignatureId>,
}

impl KeptCores {
    /// Returns the cores that an interrupted run kept; each trial has a folder below `trials`.
    pub fn of_interrupted_run(trials: &Path) -> Self {
        let entries = |folder: &Path| files::folder_entries(folder).unwrap_or_default();
        let in_folders = entries(trials)
            .into_iter()
            .flat_map(|folder| entries(&folder));
        let cores = in_folders.filter(|file| {
            let name = file.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("core."))
        });
        let sizes = cores.filter_map(|core| files::metadata_itself(&core).ok());
        Self {
            bytes: sizes.map(|metadata| metadata.blocks() * 512).sum(),
            latest: 0,
            signatures: BTreeSet::new(),
        }
    }

    /// Keeps the cores of a failure, or returns the reason why not.
    pub fn add_failure(
        &mut self,
        signature: SignatureId,
        observation: &mut Observation,
    ) -> Option<String> {
        let sizes = all_cores(observation).map(|core| core_size(core));
        let bytes = sizes.fold(0, u64::saturating_add);
        if bytes == 0 {
            return None;
        }
        let folder = all_cores(observation).find_map(|core| {
            let folder = Path::new(core.file.as_os_str()).parent();
            folder.map(Path::to_owned)
        });
        let free = folder.and_then(|folder| host::free_space(&folder));
        let is_known = self.signatures.contains(&signature);
        self.add_latest();
        let kept_bytes = self.bytes.saturating_add(bytes);
        let why_not = if !is_known && self.signatures.len() >= SIGNATURES {
            Some(format!("{SIGNATURES} different failures have cores"))
        } else if kept_bytes > BYTES {
            Some(format!(
                "the cores of a run take up at most {} GiB",
                BYTES >> 30
            ))
        } else if free.is_some_and(|free| kept_bytes > free.saturating_add(kept_bytes) / SHARE) {
            Some(format!(
                "the cores of a run take up at most 1/{SHARE} of the free disk space"
            ))
        } else {
            None
        };
        if why_not.is_none() {
            self.signatures.insert(signature);
            self.latest = bytes;
        }
        why_not
    }

    /// Counts the cores of the latest failure as they have arrived from another host.
    pub fn count_arrived(&mut self, observation: &mut Observation) {
        let sizes = all_cores(observation).filter_map(|core| size_on_disk(core));
        self.latest = self.latest.min(sizes.sum());
    }

    /// Adds the cores of the latest failure to the others.
    fn add_latest(&mut self) {
        self.bytes = self.bytes.saturating_add(std::mem::take(&mut self.latest));
    }
}

/// Returns every core of a trial: of crashes, of hangs, and of leaked processes.
/// Returns every core of a trial.
pub fn all_cores(observation: &mut Observation) -> impl Iterator<Item = &mut CoreObservation> {
    let hung = observation.hang.iter_mut().flat_map(|hang| &mut hang.cores);
    let leaked_cores = observation
        .residue
        .leaked
        .iter_mut()
        .filter_map(|process| process.core.as_mut());
    observation.cores.iter_mut().chain(hung).chain(leaked_cores)
}

/// Removes the core files of a trial, which have already been analysed. Returns whether there were
/// any.
pub fn remove_cores(observation: &mut Observation) -> bool {
    let mut removed_any = false;
    for core in all_cores(observation) {
        let file = std::mem::take(&mut core.file);
        // The file may be missing, and other errors have no consequence here.
        let _ = files::remove_file(Path::new(file.as_os_str()));
        removed_any = true;
    }
    removed_any
}

/// Removes the evidence of a trial that is not kept; its results remain in the observation.
pub fn drop_evidence(folder: &Path, observation: &mut Observation) {
    let has_report = observation.cases.is_some();
    if has_report {
        let _ = files::remove_tree(&folder.join(CASES_FOLDER));
    }
    let had_cores = remove_cores(observation);
    if had_cores {
        let _ = files::remove_file(&folder.join(STORY_FILE));
    }
    if had_cores || has_report {
        let _ = files::remove_empty_folder(folder);
    }
}

/// Returns the disk space of a core. One on another host, which is copied later, is as large as the host reports.
fn core_size(core: &CoreObservation) -> u64 {
    if core.file.as_os_str().is_empty() {
        return 0;
    }
    size_on_disk(core).unwrap_or(core.size)
}

fn size_on_disk(core: &CoreObservation) -> Option<u64> {
    let metadata = files::metadata_itself(Path::new(core.file.as_os_str()));
    Some(metadata.ok()?.blocks() * 512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn observation_with_core(folder: &Path, trial: u64) -> Observation {
        let file = folder.join(trial.to_string());
        fs::create_dir_all(&file).unwrap();
        let file = file.join("core.7");
        fs::write(&file, vec![1; 8192]).unwrap();
        let core = CoreObservation {
            pid: 7,
            file: file.as_path().into(),
            ..CoreObservation::default()
        };
        Observation {
            cores: vec![core],
            ..Observation::default()
        }
    }

    #[test]
    fn cores_are_kept_up_to_a_number_of_failures_and_a_total_size() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = KeptCores::default();
        for number in 0..SIGNATURES as u64 {
            let id = SignatureId(u32::try_from(number).unwrap());
            assert_eq!(
                kept.add_failure(id, &mut observation_with_core(folder.path(), number)),
                None
            );
        }
        let mut other = observation_with_core(folder.path(), 100);
        let refused = kept.add_failure(SignatureId(1000), &mut other).unwrap();
        assert_eq!(refused, "20 different failures have cores");
        assert!(remove_cores(&mut other));
        assert!(!folder.path().join("100/core.7").exists());
        // A failure whose cores were kept before may have more.
        assert_eq!(
            kept.add_failure(
                SignatureId(0),
                &mut observation_with_core(folder.path(), 101)
            ),
            None
        );
        kept.add_latest();
        let again = KeptCores::of_interrupted_run(folder.path());
        assert_eq!(again.bytes, kept.bytes);
        kept.bytes = BYTES;
        let refused = kept.add_failure(
            SignatureId(0),
            &mut observation_with_core(folder.path(), 102),
        );
        assert_eq!(refused.unwrap(), "the cores of a run take up at most 8 GiB");
    }

    #[test]
    fn a_core_that_does_not_arrive_takes_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let mut kept = KeptCores::default();
        let core = CoreObservation {
            file: folder.path().join("core.7").as_path().into(),
            size: 1 << 20,
            ..CoreObservation::default()
        };
        let mut observation = Observation {
            cores: vec![core],
            ..Observation::default()
        };
        assert_eq!(kept.add_failure(SignatureId(1), &mut observation), None);
        assert_eq!(kept.latest, 1 << 20);
        kept.count_arrived(&mut observation);
        assert_eq!((kept.bytes, kept.latest), (0, 0));
    }
}
