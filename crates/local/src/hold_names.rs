//! Names the functions and the source lines of points at which threads are held, and of racing accesses.

use super::evidence::CoreCollector;
use provoke_judge::signature::is_library_source;
use provoke_messages::bare_name;
use provoke_model::{
    CodePoint, Frame, HoldObservation, HoldPoint, LearnedPoint, Observation, Text, VariantPlan,
};
use provoke_sys::{calls, files};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Limit of the callers that a side of a race has.
const FRAMES: usize = 8;

impl CoreCollector {
    /// Names the points that a trial reached, and both sides of the races that were seen in it.
    pub(super) fn name_hold_points(&self, variant: &VariantPlan, observation: &mut Observation) {
        let Some(holds) = &mut observation.holds else {
            return;
        };
        let root = self.root_of_files(variant, || {
            let objects = code_points(holds).map(|point| point.object.as_os_str());
            objects.map(PathBuf::from).collect()
        });
        let mut examiner = self.examiner.lock().expect("no panic");
        examiner.set_origin(root, Path::new(""), None);
        let points: Vec<CodePoint> = code_points(holds).cloned().collect();
        let frames = examiner.frames_at(&points);
        let frames_by_point: BTreeMap<CodePoint, Vec<Frame>> =
            points.into_iter().zip(frames).collect();
        let frames_of = |point: &CodePoint| {
            without_library(frames_by_point.get(point).map_or(&[], Vec::as_slice))
        };
        for learned in &mut holds.learned {
            match &learned.point {
                HoldPoint::Code(point) => {
                    if let Some(frame) = frames_of(point).first() {
                        learned.is_library = is_library(frame);
                        learned.name = short_name(frame);
                        learned.line.clone_from(&frame.line);
                    }
                }
                HoldPoint::Call { call, .. } => {
                    learned.name = i64::try_from(*call).ok().map(calls::syscall_name);
                }
                HoldPoint::Start(_) | HoldPoint::Line { .. } => {}
            }
        }
        mark_code_without_lines(&mut holds.learned);
        for race in &mut holds.races {
            for side in [&mut race.held, &mut race.other] {
                side.stack = side.point.iter().flat_map(frames_of).cloned().collect();
            }
        }
        for race in &mut holds.races {
            let Some(core) = race.core.take() else {
                continue;
            };
            let file = Path::new(core.file.as_os_str());
            let threads = examiner.examine_core(file).map(|autopsy| autopsy.threads);
            let _ = files::remove_file(file);
            for side in [&mut race.held, &mut race.other] {
                let held_thread = threads
                    .iter()
                    .flatten()
                    .find(|thread| thread.tid == side.tid);
                // The instruction of the access is known; the stack is that of the instruction behind it.
                if let Some(thread) = held_thread {
                    let callers = thread
                        .frames
                        .iter()
                        .skip_while(|frame| frame.inlined)
                        .skip(1);
                    side.stack.extend(callers.take(FRAMES).cloned());
                }
            }
        }
        let races = holds.races.iter_mut();
        for side in races.flat_map(|race| [&mut race.held, &mut race.other]) {
            let is_own = |frame: &Frame| frame.line.is_some() && !is_library(frame);
            side.in_libraries = side.stack.iter().position(is_own).unwrap_or_default();
            for frame in &mut side.stack {
                frame.function = short_name(frame);
            }
        }
    }
}

impl CoreCollector {
    /// Returns a folder with files of the programs of a trial, if it ran in a container.
    pub(super) fn root_of_files(
        &self,
        variant: &VariantPlan,
        files: impl FnOnce() -> BTreeSet<PathBuf>,
    ) -> Option<PathBuf> {
        let mut actors = variant.actors.iter();
        let container = actors.find_map(|actor| actor.container.as_ref())?;
        let mut images = self.images.lock().expect("no panic");
        images.root_with_files(container, &variant.name, files())
    }
}

/// Returns the points in the code of files that a trial reached, and those of the races that were seen in it.
fn code_points(holds: &HoldObservation) -> impl Iterator<Item = &CodePoint> {
    let learned = holds
        .learned
        .iter()
        .filter_map(|learned| learned.point.as_code());
    let sides = holds
        .races
        .iter()
        .flat_map(|race| [&race.held, &race.other]);
    learned.chain(sides.filter_map(|side| side.point.as_ref()))
}

/// Returns the name of a function without its parameters and template arguments, as signatures have it.
pub(super) fn short_name(frame: &Frame) -> Option<String> {
    let name = frame.function.as_deref().map(bare_name);
    name.filter(|name| !name.is_empty())
}

/// Returns whether the code of a frame belongs to a library or a runtime, by its source file.
pub(super) fn is_library(frame: &Frame) -> bool {
    let line = frame.line.as_ref();
    line.is_some_and(|(file, _)| is_library_source(file))
}

/// Marks code without lines as that of a library, if other code of its file has lines: then the program was compiled with
/// debug information.
fn mark_code_without_lines(learned: &mut [LearnedPoint]) {
    let object = |learned: &LearnedPoint| Some(learned.point.as_code()?.object.clone());
    let with_lines: BTreeSet<Text> = learned
        .iter()
        .filter(|point| point.line.is_some() && !point.is_library)
        .filter_map(object)
        .collect();
    for point in learned {
        let is_of_such_file = object(point).is_some_and(|object| with_lines.contains(&object));
        point.is_library |= point.line.is_none() && is_of_such_file;
    }
}

/// Returns frames of one instruction without inlined functions of libraries, unless all are of libraries.
pub(super) fn without_library(frames: &[Frame]) -> &[Frame] {
    let is_own = |frame: &Frame| frame.line.is_some() && !is_library(frame);
    &frames[frames.iter().position(is_own).unwrap_or(0)..]
}
