//! Reads the paths that Python programs recorded.

use provoke_model::{
    MAX_EVENTS, MAX_PLACES, PathEvent, PathPlace, PointName, ThreadEnd, TrialPath,
};
use provoke_sys::files;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Name of the file with the records.
pub(super) const ARRIVALS_FILE: &str = "arrivals";
/// Bytes of a chunk of the file. Each belongs to one process, and ends with zeros.
pub(super) const CHUNK_BYTES: usize = 64 << 10;
/// Limit of the bytes of the file.
pub(super) const MAX_ARRIVAL_BYTES: u64 = 64 << 20;
/// Limit of the calls that are active at the end of a thread.
const MAX_ACTIVE: usize = 64;
/// Limit of the characters of a name in hexadecimal.
const MAX_NAME: usize = 8192;

/// A record of a thread.
struct ArrivalRecord {
    /// Nanoseconds of the monotonic clock.
    time: u64,
    /// Number that the kernel has given the thread.
    tid: u32,
    content: RecordContent,
}

enum RecordContent {
    /// The thread arrived at a place, in this function.
    Arrival(PathPlace, Option<String>),
    /// The thread ended while these lines of files were active.
    End(Vec<(u32, u32)>),
}

/// The path so far.
#[derive(Default)]
struct PathBuilder {
    path: TrialPath,
    indices: BTreeMap<PathPlace, u32>,
    threads: BTreeMap<u32, u32>,
    ends: BTreeMap<u32, Vec<u32>>,
}

/// Reads the path of a trial from the folder of its lines. The program may have written anything.
pub(super) fn read_path(folder: &Path) -> io::Result<TrialPath> {
    let bytes = files::read_itself(&folder.join(ARRIVALS_FILE), MAX_ARRIVAL_BYTES)?;
    Ok(path_of_chunks(&bytes))
}

fn path_of_chunks(bytes: &[u8]) -> TrialPath {
    let mut file_numbers = BTreeMap::new();
    let mut records: Vec<ArrivalRecord> = bytes
        .chunks(CHUNK_BYTES)
        .flat_map(|chunk| read_chunk(chunk, &mut file_numbers))
        .take(MAX_EVENTS + 1)
        .collect();
    let is_cut = records.len() > MAX_EVENTS;
    records.truncate(MAX_EVENTS);
    // The records of a process are in order, and the clock is the same in all processes.
    records.sort_by_key(|record| record.time);
    let mut builder = PathBuilder::default();
    builder.path.files = names_in_order(file_numbers);
    builder.path.is_cut = is_cut;
    for record in records {
        builder.add_record(record);
    }
    builder.finish()
}

/// Reads the records of a chunk. `file_numbers` has the numbers of files in the path.
fn read_chunk(chunk: &[u8], file_numbers: &mut BTreeMap<String, u32>) -> Vec<ArrivalRecord> {
    let end = chunk.iter().position(|byte| *byte == 0);
    let text = String::from_utf8_lossy(&chunk[..end.unwrap_or(chunk.len())]);
    let mut names = BTreeMap::new();
    let mut records = Vec::new();
    // A killed process may leave an incomplete line.
    for line in text.split_inclusive('\n') {
        let Some(line) = line.strip_suffix('\n') else {
            continue;
        };
        if let Some((index, name)) = read_name(line) {
            let number = u32::try_from(file_numbers.len()).unwrap_or(u32::MAX);
            names.insert(index, *file_numbers.entry(name).or_insert(number));
        } else {
            records.extend(read_record(line, &names));
        }
    }
    records
}

fn read_name(line: &str) -> Option<(u32, String)> {
    let (index, name) = line.strip_prefix("file ")?.split_once(' ')?;
    Some((index.parse().ok()?, read_string(name)?))
}

fn read_string(hexadecimal: &str) -> Option<String> {
    if hexadecimal.len() > MAX_NAME || hexadecimal.len() % 2 == 1 {
        return None;
    }
    let digits = hexadecimal.as_bytes().chunks_exact(2);
    let bytes = digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

fn read_record(line: &str, names: &BTreeMap<u32, u32>) -> Option<ArrivalRecord> {
    let mut words = line.splitn(4, ' ');
    let kind = words.next()?;
    let time = words.next()?.parse().ok()?;
    let tid = words.next()?.parse().ok()?;
    let rest = words.next()?;
    let read_place = |word: &str| {
        let (index, line) = word.split_once(':')?;
        Some((*names.get(&index.parse().ok()?)?, line.parse().ok()?))
    };
    let content = match kind {
        "line" => {
            let (place, function) = rest.split_once(' ').unwrap_or((rest, ""));
            let (file, line) = read_place(place)?;
            RecordContent::Arrival(PathPlace::Line(file, line), read_string(function))
        }
        "raised" => {
            let (place, exception) = rest.split_once(' ')?;
            let (file, line) = read_place(place)?;
            let place = PathPlace::Exception(file, line, read_string(exception)?);
            RecordContent::Arrival(place, None)
        }
        "end" => {
            let active = rest.split(' ').take(MAX_ACTIVE).filter_map(read_place);
            RecordContent::End(active.collect())
        }
        _ => return None,
    };
    Some(ArrivalRecord { time, tid, content })
}

fn names_in_order(file_numbers: BTreeMap<String, u32>) -> Vec<provoke_model::Text> {
    let mut names: Vec<(u32, String)> = file_numbers
        .into_iter()
        .map(|(name, number)| (number, name))
        .collect();
    names.sort();
    names.into_iter().map(|(_, name)| name.into()).collect()
}

impl PathBuilder {
    fn add_record(&mut self, record: ArrivalRecord) {
        let next_thread = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        let thread = *self.threads.entry(record.tid).or_insert(next_thread);
        match record.content {
            RecordContent::Arrival(place, function) => {
                let Some(point) = self.index_of_place(place) else {
                    return;
                };
                self.path.events.0.push(PathEvent { thread, point });
                let is_function = |name: &String| !name.starts_with('<');
                if let Some(name) = function.filter(is_function) {
                    let name = PointName {
                        function: Some(name),
                        ..PointName::default()
                    };
                    self.path.names.push((point, name));
                }
            }
            RecordContent::End(lines) => {
                let places = lines.into_iter();
                let places = places.map(|(file, line)| PathPlace::Line(file, line));
                let active = places.filter_map(|place| self.indices.get(&place).copied());
                let active = active.collect();
                self.ends.insert(thread, active);
            }
        }
    }

    fn index_of_place(&mut self, place: PathPlace) -> Option<u32> {
        if let Some(index) = self.indices.get(&place) {
            return Some(*index);
        }
        if self.path.points.len() >= MAX_PLACES {
            self.path.is_cut = true;
            return None;
        }
        let index = u32::try_from(self.path.points.len()).ok()?;
        self.path.points.push(place.clone());
        self.indices.insert(place, index);
        Some(index)
    }

    fn finish(mut self) -> TrialPath {
        let ends = self.ends.into_iter();
        self.path.ends = ends
            .map(|(thread, active)| ThreadEnd { thread, active })
            .collect();
        self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk_of(text: &str) -> Vec<u8> {
        let mut chunk = text.as_bytes().to_vec();
        chunk.resize(CHUNK_BYTES, 0);
        chunk
    }

    #[test]
    fn records_of_processes_are_in_the_order_of_time() {
        let mut bytes = chunk_of("file 0 2f612e7079\nline 10 7 0:1\nline 30 7 0:2\n");
        bytes.extend(chunk_of(
            "file 0 2f622e7079\nfile 1 2f612e7079\nline 20 8 1:1\nraised 40 8 0:5 4b65794572726f72\nend 41 8 0:9 1:1\n",
        ));
        let path = path_of_chunks(&bytes);
        assert_eq!(path.files, ["/a.py", "/b.py"].map(Into::into));
        let places = [
            PathPlace::Line(0, 1),
            PathPlace::Line(0, 2),
            PathPlace::Exception(1, 5, "KeyError".to_owned()),
        ];
        assert_eq!(path.points, places);
        let events = [(0, 0), (1, 0), (0, 1), (1, 2)];
        let events = events.map(|(thread, point)| PathEvent { thread, point });
        assert_eq!(path.events.0, events);
        let end = ThreadEnd {
            thread: 1,
            active: vec![0],
        };
        assert_eq!(path.ends, [end]);
        assert!(!path.is_cut);
    }

    #[test]
    fn records_that_are_not_valid_are_left_out() {
        let text = "line 1 1 0:1\nfile x 2f612e7079\nfile 0 2f612e7079\nline 1 1 5:1\nline 1 1\nline -1 1 0:1\n\
            raised 1 1 0:1 4\nother 1 1 0:1\n\u{1}\nline 1 1 0:4294967296\nline 2 1 0:3\nline 3 1 0:4";
        let path = path_of_chunks(&chunk_of(text));
        assert_eq!(path.points, [PathPlace::Line(0, 3)]);
        assert_eq!(path_of_chunks(&[255; 100]).events.0, []);
    }

    #[test]
    fn places_and_events_are_limited() {
        let mut bytes = Vec::new();
        let mut line = 0_u32;
        while bytes.len() < CHUNK_BYTES * 40 {
            let mut text = String::from("file 0 2f612e7079\n");
            while text.len() < CHUNK_BYTES - 30 {
                line += 1;
                let record = format!("line {line} 1 0:{line}\n");
                text.push_str(&record);
            }
            bytes.extend(chunk_of(&text));
        }
        let path = path_of_chunks(&bytes);
        assert_eq!(path.points.len(), MAX_PLACES);
        assert!(path.is_cut);
    }
}
