//! Counts events that the kernel notes in a file of a cgroup.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// A number that the kernel counts up in a file of a cgroup.
pub(super) struct EventCounter {
    file: File,
    key: &'static str,
    counted: u64,
}

impl EventCounter {
    pub(super) fn open(path: &Path, key: &'static str) -> Option<Self> {
        Some(Self {
            file: File::open(path).ok()?,
            key,
            counted: 0,
        })
    }

    fn count(&self) -> Option<u64> {
        let mut buffer = [0; 512];
        let length = self.file.read_at(&mut buffer, 0).ok()?;
        let text = str::from_utf8(&buffer[..length]).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix(self.key)?.parse().ok())
    }

    pub(super) fn has_new_events(&self) -> bool {
        self.count().is_some_and(|count| count > self.counted)
    }

    /// Returns the number of events since the last query.
    pub(super) fn new_events(&mut self) -> Option<u64> {
        let count = self.count()?;
        Some(count - std::mem::replace(&mut self.counted, count).min(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_event_counter_counts_from_its_last_query() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pids.events");
        fs::write(&path, "other 9\nmax 3\n").unwrap();
        let mut counter = EventCounter::open(&path, "max ").unwrap();
        assert_eq!(counter.new_events(), Some(3));
        assert_eq!(counter.new_events(), Some(0));
        fs::write(&path, "other 9\nmax 5\n").unwrap();
        assert_eq!(counter.new_events(), Some(2));
        assert!(
            EventCounter::open(&path, "none ")
                .unwrap()
                .new_events()
                .is_none()
        );
    }
}
