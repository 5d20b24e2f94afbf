//! Names the functions and the source lines of the points in the path of a trial, each point once.

use super::evidence::CoreCollector;
use super::hold_names::{is_library, short_name, without_library};
use provoke_model::{
    CodePoint, Frame, Observation, PathPlace, PointName, Text, TrialPath, VariantPlan,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Limit of the points that are named after one trial: a line of a journal has a limit of objects and arrays. The others are
/// named after later trials that reach them.
const MAX_NAMES: usize = 10_000;

impl CoreCollector {
    /// Names the points of a trial's path that were not named before.
    pub(super) fn name_path_points(&self, variant: &VariantPlan, observation: &mut Observation) {
        let holds = observation.holds.as_deref_mut();
        let Some(path) = holds.and_then(|holds| holds.path.as_deref_mut()) else {
            return;
        };
        let mut named = self.named_points.lock().expect("no panic");
        let unnamed: Vec<(u32, CodePoint)> = code_points(path)
            .filter(|(_, point)| !named.contains(&(variant.name.clone(), point.clone())))
            .take(MAX_NAMES)
            .collect();
        if unnamed.is_empty() {
            return;
        }
        let root = self.root_of_files(variant, || {
            let files = path.files.iter();
            files.map(|file| PathBuf::from(file.as_os_str())).collect()
        });
        let (indices, points): (Vec<u32>, Vec<CodePoint>) = unnamed.into_iter().unzip();
        let before: Vec<CodePoint> = points.iter().map(instruction_before).collect();
        let mut examiner = self.examiner.lock().expect("no panic");
        examiner.set_origin(root, Path::new(""), None);
        let frames = examiner.frames_at(&points);
        let mut names: Vec<PointName> = frames.iter().map(|frames| name_of(frames)).collect();
        for (name, frames) in names.iter_mut().zip(examiner.frames_at(&before)) {
            let before = name_of(&frames);
            name.is_within_line = name.line.is_some()
                && (&before.function, &before.line) == (&name.function, &name.line);
        }
        mark_code_without_lines(&points, &mut names);
        let indexed = indices.into_iter().zip(names);
        path.names = indexed
            .filter(|(_, name)| *name != PointName::default())
            .collect();
        named.extend(
            points
                .into_iter()
                .map(|point| (variant.name.clone(), point)),
        );
    }
}

/// Returns the points in the code of a path, with their indices.
fn code_points(path: &TrialPath) -> impl Iterator<Item = (u32, CodePoint)> {
    (0..).zip(&path.points).filter_map(|(index, place)| {
        let PathPlace::Code(file, address, _) = place else {
            return None;
        };
        let object = path.files.get(usize::try_from(*file).ok()?)?.clone();
        let address = *address;
        Some((index, CodePoint { object, address }))
    })
}

/// Returns a point in the instruction before another one.
fn instruction_before(point: &CodePoint) -> CodePoint {
    CodePoint {
        object: point.object.clone(),
        address: point.address.saturating_sub(1),
    }
}

fn name_of(frames: &[Frame]) -> PointName {
    let Some(frame) = without_library(frames).first() else {
        return PointName::default();
    };
    PointName {
        function: short_name(frame),
        line: frame.line.clone(),
        is_library: is_library(frame),
        is_within_line: false,
    }
}

/// Marks code without lines as that of a library, if other code of its file has lines.
fn mark_code_without_lines(points: &[CodePoint], names: &mut [PointName]) {
    let named_points = points.iter().zip(&*names);
    let with_lines: BTreeSet<Text> = named_points
        .filter(|(_, name)| name.line.is_some() && !name.is_library)
        .map(|(point, _)| point.object.clone())
        .collect();
    for (point, name) in points.iter().zip(names) {
        name.is_library |= name.line.is_none() && with_lines.contains(&point.object);
    }
}
