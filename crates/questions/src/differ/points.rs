//! Gives the points of all trials common numbers and names.

use provoke_model::{
    BlockKind, CodePoint, HoldPoint, PathPart, PathPlace, PointName, Text, TrialPath,
};
use provoke_stats::paths::{PathPoint, PointKind};
use std::collections::BTreeMap;

/// Signals that usually end a process: that is the failure, not what precedes it.
const FATAL: [i32; 10] = [3, 4, 5, 6, 7, 8, 9, 11, 15, 31];
/// System calls that report a failure if they succeed.
const REPORTING_CALLS: [&str; 2] = ["write", "writev"];

/// The points that trials reached.
#[derive(Debug, Default)]
pub(super) struct KnownPoints {
    files: Vec<Text>,
    points: Vec<KnownPoint>,
    numbers: BTreeMap<PathPlace, u32>,
}

/// A point that a trial reached.
#[derive(Debug)]
pub(super) struct KnownPoint {
    /// The point; its file has the number that [`KnownPoints::file`] knows.
    pub(super) place: PathPlace,
    /// Its name, if it is in code with symbols.
    pub(super) name: PointName,
}

impl KnownPoints {
    /// Adds the points of a trial; returns their numbers.
    pub(super) fn add(&mut self, path: &TrialPath) -> Vec<u32> {
        let files: Vec<u32> = path
            .files
            .iter()
            .map(|file| self.number_of_file(file))
            .collect();
        let file_of = |index: u32| files.get(index as usize).copied().unwrap_or(u32::MAX);
        let places = path.points.iter().map(|place| match place.clone() {
            PathPlace::Code(file, address, kind) => PathPlace::Code(file_of(file), address, kind),
            PathPlace::Line(file, line) => PathPlace::Line(file_of(file), line),
            PathPlace::Exception(file, line, name) => {
                PathPlace::Exception(file_of(file), line, name)
            }
            other @ (PathPlace::Call(..) | PathPlace::Signal(_)) => other,
        });
        let places: Vec<PathPlace> = places.collect();
        let numbers: Vec<u32> = places
            .into_iter()
            .map(|place| self.number_of(place))
            .collect();
        for (index, name) in &path.names {
            let number = numbers.get(*index as usize);
            if let Some(point) = number.and_then(|number| self.points.get_mut(*number as usize)) {
                point.name = name.clone();
            }
        }
        numbers
    }

    fn number_of_file(&mut self, file: &Text) -> u32 {
        let known = self.files.iter().position(|known| known == file);
        let index = known.unwrap_or_else(|| {
            self.files.push(file.clone());
            self.files.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    fn number_of(&mut self, place: PathPlace) -> u32 {
        if let Some(number) = self.numbers.get(&place) {
            return *number;
        }
        let number = u32::try_from(self.points.len()).unwrap_or(u32::MAX);
        self.numbers.insert(place.clone(), number);
        let name = PointName::default();
        self.points.push(KnownPoint { place, name });
        number
    }

    /// Returns a point.
    pub(super) fn get(&self, number: u32) -> Option<&KnownPoint> {
        self.points.get(number as usize)
    }

    /// Returns whether threads can be at the line of a point without reaching the point.
    pub(super) fn is_within_line(&self, number: u32) -> bool {
        let Some(point) = self.get(number) else {
            return false;
        };
        let shares_line = |other: &KnownPoint| {
            other.place != point.place
                && (&other.name.function, &other.name.line)
                    == (&point.name.function, &point.name.line)
        };
        point.name.line.is_some()
            && (point.name.is_within_line || self.points.iter().any(shares_line))
    }

    /// Returns a file by its number.
    pub(super) fn file(&self, number: u32) -> Option<&Text> {
        self.files.get(number as usize)
    }

    /// Returns the point as one at which a thread can be held.
    pub(super) fn hold_point(&self, number: u32) -> Option<HoldPoint> {
        match self.get(number)?.place {
            PathPlace::Code(file, address, _) => Some(HoldPoint::Code(CodePoint {
                object: self.file(file)?.clone(),
                address,
            })),
            PathPlace::Line(file, line) => Some(HoldPoint::Line {
                file: self.file(file)?.clone(),
                line,
            }),
            PathPlace::Call(..) | PathPlace::Signal(_) | PathPlace::Exception(..) => None,
        }
    }

    /// Returns a point in code as an offset in its function, `retry+0x1f`, as disassemblers do; `None` if the entry of the
    /// function is not known.
    pub(super) fn offset_in_function(&self, number: u32) -> Option<String> {
        let point = self.get(number)?;
        let PathPlace::Code(file, address, _) = point.place else {
            return None;
        };
        let entry = self.get(self.function_of(file, address))?;
        let PathPlace::Code(_, start, _) = entry.place else {
            return None;
        };
        // The code of an inlined function has another name than the function that contains it.
        let name = entry.name.function.as_ref()?;
        (Some(name) == point.name.function.as_ref())
            .then(|| format!("{name}+0x{:x}", address - start))
    }

    /// Returns whether some of the points are in native code.
    pub(super) fn has_code(&self) -> bool {
        let mut points = self.points.iter();
        points.any(|point| matches!(point.place, PathPlace::Code(..)))
    }

    /// Returns for each point whether it was recorded in a trial that recorded this part of the code.
    pub(super) fn recorded_in(&self, part: PathPart) -> Vec<bool> {
        let is_recorded = |point: &KnownPoint| match point.place {
            PathPlace::Code(file, address, _) => self
                .file(file)
                .is_some_and(|file| part.includes(file, address)),
            _ => true,
        };
        self.points.iter().map(is_recorded).collect()
    }

    /// Returns what the statistics need to know of the points.
    pub(super) fn described(&self) -> Vec<PathPoint> {
        let entries = self.entries_of_python();
        let points = (0..).zip(&self.points);
        points
            .map(|(number, point)| self.describe(number, point, &entries))
            .collect()
    }

    fn describe(
        &self,
        number: u32,
        point: &KnownPoint,
        entries: &BTreeMap<(u32, &str), (u32, u32)>,
    ) -> PathPoint {
        let (kind, function) = match &point.place {
            PathPlace::Code(file, address, kind) => {
                let kind = match kind {
                    BlockKind::Function => PointKind::Entry,
                    BlockKind::Return => PointKind::Return,
                    BlockKind::Taken | BlockKind::NotTaken | BlockKind::Other => PointKind::Block,
                };
                (kind, self.function_of(*file, *address))
            }
            PathPlace::Call(..) => (PointKind::SystemCall, u32::MAX),
            PathPlace::Signal(_) => (PointKind::Signal, u32::MAX),
            PathPlace::Line(file, _) => {
                let name = point.name.function.as_deref();
                match name.and_then(|name| entries.get(&(*file, name))) {
                    Some((_, entry)) if *entry == number => (PointKind::Entry, number),
                    Some((_, entry)) => (PointKind::Line, *entry),
                    None => (PointKind::Line, u32::MAX - 1 - file),
                }
            }
            PathPlace::Exception(..) => (PointKind::Exception, u32::MAX),
        };
        let is_ignored = match &point.place {
            PathPlace::Signal(signal) => FATAL.contains(signal),
            PathPlace::Call(name, result, _) => {
                result == "ok" && REPORTING_CALLS.contains(&&**name)
            }
            _ => false,
        };
        PathPoint {
            kind,
            function,
            is_ignored,
        }
    }

    /// Returns the first lines of the functions of Python that were reached, with the numbers of their points.
    fn entries_of_python(&self) -> BTreeMap<(u32, &str), (u32, u32)> {
        let mut entries = BTreeMap::new();
        for (number, point) in (0..).zip(&self.points) {
            if let (PathPlace::Line(file, line), Some(name)) = (&point.place, &point.name.function)
            {
                let entry = entries.entry((*file, &**name)).or_insert((*line, number));
                *entry = (*entry).min((*line, number));
            }
        }
        entries
    }

    /// Returns the number of the last entry of a function at or before an address: a thread enters a function before it
    /// reaches a block of it.
    fn function_of(&self, file: u32, address: u64) -> u32 {
        let first = PathPlace::Code(file, 0, BlockKind::Function);
        let last = PathPlace::Code(file, address, BlockKind::Return);
        let entries = self.numbers.range(first..=last).rev();
        let mut entries = entries
            .filter(|(place, _)| matches!(place, PathPlace::Code(_, _, BlockKind::Function)));
        entries.next().map_or(u32::MAX, |(_, number)| *number)
    }
}
