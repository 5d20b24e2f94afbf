//! Orders the points of a program, the most promising ones first.

use provoke_model::{CreationSide, Hold, HoldPoint, HuntQuestion, LearnedPoint, Text};
use std::collections::{BTreeMap, BTreeSet};

/// The points that the program reached, in the order in which they are tried.
#[derive(Debug, Default)]
pub(crate) struct HuntPoints {
    points: BTreeMap<HoldPoint, ReachedPoint>,
    /// Functions whose points are tried first.
    first_functions: Vec<String>,
    /// Points that are tried before all others.
    leading: Vec<HoldPoint>,
    /// The points in the order in which they are tried.
    order: Vec<HoldPoint>,
    /// The entries of functions that new threads reach, if nothing else of these functions is known.
    bare_entries: Vec<HoldPoint>,
    /// The file and the address of each function whose instructions are points, if only the entries of functions were
    /// learned.
    detailed: Option<BTreeSet<(Text, u64)>>,
}

/// A point that the program reached.
#[derive(Debug)]
pub(super) struct ReachedPoint {
    pub(super) learned: LearnedPoint,
    /// The threads that reached it first, each in another trial.
    pub(super) threads: BTreeSet<u32>,
}

impl HuntPoints {
    /// Returns an empty set, in which the points that a question names come first.
    pub(super) fn of_question(question: &HuntQuestion) -> Self {
        Self {
            first_functions: question.first.clone(),
            leading: question.leading.clone(),
            ..Self::default()
        }
    }

    /// Adds the points that a trial reached.
    pub(crate) fn add_reached(&mut self, learned: &[LearnedPoint]) {
        for new_point in learned {
            let reached = self.points.entry(new_point.point.clone());
            let reached = reached.or_insert_with(|| ReachedPoint {
                learned: new_point.clone(),
                threads: BTreeSet::new(),
            });
            reached.threads.insert(new_point.thread);
        }
        for side in [CreationSide::Creator, CreationSide::Created] {
            let point = HoldPoint::Start(side);
            if let Some(start) = self.points.get_mut(&point) {
                start
                    .threads
                    .insert(u32::from(side == CreationSide::Created));
            }
        }
        self.sort_points();
    }

    /// Notes the points that are tried before all others.
    pub(super) fn lead_to(&mut self, leading: Vec<HoldPoint>) {
        self.leading = leading;
        self.sort_points();
    }

    /// Returns whether points are known that are tried before all others, reached or not.
    pub(super) fn has_leading(&self) -> bool {
        !self.leading.is_empty()
    }

    /// Returns the reached points that are tried before all others.
    pub(super) fn leading(&self) -> impl Iterator<Item = &HoldPoint> {
        let points = self.order.iter();
        points.take_while(|point| self.leading.contains(point))
    }

    /// Notes that only the entries of functions were learned.
    pub(super) fn note_entries_only(&mut self) {
        self.detailed.get_or_insert_default();
        self.sort_points();
    }

    /// Adds the points in the functions of these holds, which a trial reached.
    pub(super) fn add_details(&mut self, holds: &[Hold], learned: &[LearnedPoint]) {
        let holds = holds.iter();
        let functions: Vec<_> = holds
            .filter_map(|hold| self.function_of(&hold.point))
            .collect();
        self.detailed.get_or_insert_default().extend(functions);
        self.add_reached(learned);
    }

    /// Returns whether the instructions of the function of a point are not known, but only its entry.
    pub(super) fn lacks_details(&self, point: &HoldPoint) -> bool {
        let functions = self.detailed.as_ref().zip(self.function_of(point));
        functions.is_some_and(|(detailed, function)| !detailed.contains(&function))
    }

    /// Returns the entries of functions that new threads reach, if nothing else of these functions is known. The most
    /// promising ones come first.
    pub(super) fn bare_entries(&self) -> &[HoldPoint] {
        &self.bare_entries
    }

    /// Returns the number of functions whose instructions were learned after their entries.
    pub(super) fn detailed_functions(&self) -> usize {
        self.detailed.as_ref().map_or(0, BTreeSet::len)
    }

    /// Returns the points to try before a promising hold is examined: all of the program, or those in functions whose
    /// instructions were learned.
    pub(super) fn searched_first(&self) -> impl Iterator<Item = &HoldPoint> {
        let has_details = self.detailed.as_ref().is_some_and(|set| !set.is_empty());
        let points = self.order.iter().filter(|point| !self.is_of_library(point));
        points.filter(move |point| {
            !has_details || point.as_code().is_some() && !self.lacks_details(point)
        })
    }

    /// Returns the file and the address of the function of a point.
    fn function_of(&self, point: &HoldPoint) -> Option<(Text, u64)> {
        let learned = &self.get(point)?.learned;
        Some((point.as_code()?.object.clone(), learned.function))
    }

    /// Sorts the points in the order in which they are tried: by kind, then functions of the crash, accesses to shared
    /// memory, and the rest. Many points cannot all be tried, so every function has its turn before a function has its
    /// second one.
    fn sort_points(&mut self) {
        let mut sorted: Vec<(PointRank, &LearnedPoint)> = self
            .points
            .values()
            .map(|reached| (self.rank(&reached.learned), &reached.learned))
            .collect();
        sorted.sort_by_key(|(rank, learned)| (*rank, learned.place_number()));
        let mut turns: BTreeMap<(PointRank, u64), u64> = BTreeMap::new();
        let mut by_turn: Vec<_> = sorted
            .into_iter()
            .map(|(rank, learned)| {
                let turn = turns.entry((rank, learned.function)).or_default();
                *turn += 1;
                ((rank, *turn, learned.place_number()), &learned.point)
            })
            .collect();
        by_turn.sort_by_key(|(key, _)| *key);
        let order: Vec<HoldPoint> = by_turn
            .into_iter()
            .map(|(_, point)| point.clone())
            .collect();
        let is_bare =
            |point: &&HoldPoint| self.lacks_details(point) && self.is_of_new_thread(point);
        self.bare_entries = order.iter().filter(is_bare).cloned().collect();
        self.order = order;
    }

    fn rank(&self, learned: &LearnedPoint) -> PointRank {
        let name = learned.name.as_ref();
        let leading = self.leading.iter();
        PointRank {
            leading: leading.take_while(|point| **point != learned.point).count(),
            kind: PointKind::of_point(&learned.point),
            is_not_of_crash: !name.is_some_and(|name| self.first_functions.contains(name)),
            detail: if !self.lacks_details(&learned.point) {
                PointDetail::Complete
            } else if self.is_of_new_thread(&learned.point) {
                PointDetail::OnlyEntry
            } else {
                PointDetail::OnlyEntryOfFirstThread
            },
            is_library: learned.is_library,
            accesses_no_memory: !learned.accesses_memory,
        }
    }

    /// Returns the points in the order in which they are tried.
    pub(crate) fn in_order(&self) -> &[HoldPoint] {
        &self.order
    }

    /// Returns the points at which threads and processes are created.
    pub(super) fn start_points(&self) -> impl Iterator<Item = &HoldPoint> + Clone {
        self.order
            .iter()
            .filter(|point| matches!(point, HoldPoint::Start(_)))
    }

    /// Returns the points of the same kind that the first thread is not alone to reach, the nearest in the code first.
    pub(super) fn nearest(&self, point: &HoldPoint) -> Vec<&HoldPoint> {
        let distance = |other: &HoldPoint| match (other, point) {
            (HoldPoint::Code(other_point), HoldPoint::Code(point)) => Some((
                other_point.object != point.object,
                other_point.address.abs_diff(point.address),
            )),
            (
                HoldPoint::Line {
                    line: other_line,
                    file: other_file,
                },
                HoldPoint::Line { line, file },
            ) => Some((other_file != file, u64::from(other_line.abs_diff(*line)))),
            (
                HoldPoint::Call {
                    process: other_line,
                    ..
                },
                HoldPoint::Call { process, .. },
            ) => (other_line != process).then_some((false, 0)),
            _ => None,
        };
        let mut nearest: Vec<(_, &HoldPoint)> = self
            .order
            .iter()
            .filter(|other| *other != point)
            .filter_map(|other| Some((distance(other)?, other)))
            .collect();
        nearest.sort_by_key(|(distance, _)| *distance);
        nearest.into_iter().map(|(_, other)| other).collect()
    }

    /// Returns whether two threads may be at these points at once. A point that only the first thread was seen to reach
    /// first may be reached by others as well.
    pub(super) fn are_of_different_threads(&self, first: &HoldPoint, second: &HoldPoint) -> bool {
        if let (
            HoldPoint::Call { process: first, .. },
            HoldPoint::Call {
                process: second, ..
            },
        ) = (first, second)
        {
            return first != second;
        }
        let has_other_thread = |point| {
            let reached = self.get(point);
            reached.is_some_and(|reached| reached.threads.iter().any(|thread| *thread > 0))
        };
        has_other_thread(first) || has_other_thread(second)
    }

    /// Returns whether a point is in the code of a library.
    pub(super) fn is_of_library(&self, point: &HoldPoint) -> bool {
        self.get(point)
            .is_some_and(|reached| reached.learned.is_library)
    }

    /// Returns whether a point is in the code, and other threads than the first one reached it first.
    pub(super) fn is_of_new_thread(&self, point: &HoldPoint) -> bool {
        let reached = self.get(point);
        point.as_code().is_some()
            && reached.is_some_and(|reached| reached.threads.iter().all(|thread| *thread > 0))
    }

    /// Returns the points of each kind that pairs can have.
    pub(super) fn by_kind(&self) -> Vec<Vec<&HoldPoint>> {
        let of_kind = |kind: PointKind| {
            let points = self.order.iter();
            points
                .filter(|point| PointKind::of_point(point) == kind)
                .collect::<Vec<_>>()
        };
        let kinds = [PointKind::Line, PointKind::Call, PointKind::Code].map(of_kind);
        kinds
            .into_iter()
            .filter(|points| points.len() > 1)
            .collect()
    }

    /// Returns a point that was reached.
    pub(super) fn get(&self, point: &HoldPoint) -> Option<&ReachedPoint> {
        self.points.get(point)
    }

    /// Returns the points of the same function, or of the same kind, in the order of their addresses. The creation of a
    /// thread has none.
    pub(super) fn neighbours(&self, point: &HoldPoint) -> Vec<&LearnedPoint> {
        let Some(here) = self.get(point) else {
            return Vec::new();
        };
        let is_near = |other: &LearnedPoint| match (&other.point, point) {
            (HoldPoint::Code(other_point), HoldPoint::Code(point)) => {
                other_point.object == point.object && other.function == here.learned.function
            }
            (
                HoldPoint::Line {
                    file: other_file, ..
                },
                HoldPoint::Line { file, .. },
            ) => other_file == file,
            (HoldPoint::Call { .. }, HoldPoint::Call { .. }) => true,
            _ => false,
        };
        let reached = self
            .points
            .values()
            .map(|reached_point| &reached_point.learned);
        reached.filter(|other| is_near(other)).collect()
    }
}

/// The kinds of points, in the order in which they are tried: there are few points of the first kinds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PointKind {
    Start,
    Line,
    Call,
    Code,
}

impl PointKind {
    fn of_point(point: &HoldPoint) -> Self {
        match point {
            HoldPoint::Start(_) => Self::Start,
            HoldPoint::Line { .. } => Self::Line,
            HoldPoint::Call { .. } => Self::Call,
            HoldPoint::Code(_) => Self::Code,
        }
    }
}

/// Order in which points are tried: by kind, then functions of the crash, the program's own code, accesses to shared memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PointRank {
    /// The number of points that were named to be tried before it.
    leading: usize,
    kind: PointKind,
    is_not_of_crash: bool,
    detail: PointDetail,
    is_library: bool,
    accesses_no_memory: bool,
}

/// Whether the instructions near a point were learned, or only the entry of its function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PointDetail {
    Complete,
    OnlyEntry,
    /// The first thread reached it: a program with much code reaches most entries before it creates its threads.
    OnlyEntryOfFirstThread,
}
