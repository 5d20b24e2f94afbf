//! Describes the points at which threads are held, by lines of the source.

use super::points::HuntPoints;
use provoke_model::{CreationSide, Hold, HoldPoint, Occurrence};
use serde::Serialize;

/// A point at which a thread is held.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldPlace {
    /// The place in words: `drop() at refcount.c:7`.
    pub place: String,
    /// Name of the function, if it is known.
    pub function: Option<String>,
    /// Source file, if it is known.
    pub file: Option<String>,
    /// Line in the source file.
    pub line: Option<u32>,
    /// Path of the executable or the shared object.
    pub object: Option<String>,
    /// Address in this file.
    pub address: Option<u64>,
    /// Which arrival is held, from 1; null for about every second one, or for each one.
    pub occurrence: Option<u32>,
}

/// Describes the point of a hold, and the arrival that is held.
pub(super) fn describe_place(points: &HuntPoints, hold: &Hold) -> HeldPlace {
    let learned = points.get(&hold.point).map(|point| &point.learned);
    let function = learned.and_then(|point| point.name.clone());
    let (file, line) = match (&hold.point, learned.and_then(|point| point.line.clone())) {
        (HoldPoint::Line { file, line }, _) => (Some(file.to_string()), Some(*line)),
        (_, Some((file, line))) => (Some(file), Some(line)),
        (_, None) => (None, None),
    };
    let occurrence = match hold.occurrence {
        Occurrence::Nth(number) => Some(number),
        Occurrence::Half(_) | Occurrence::Every => None,
    };
    let occurrence_text = match (&hold.point, hold.occurrence) {
        (HoldPoint::Start(_), _) | (_, Occurrence::Nth(1)) => String::new(),
        (_, Occurrence::Nth(number)) => format!(", at arrival {number}"),
        (_, Occurrence::Half(_)) => ", at about every second arrival".to_owned(),
        (_, Occurrence::Every) => ", at each arrival".to_owned(),
    };
    let created = match hold.occurrence {
        Occurrence::Nth(1) => "the first thread or process".to_owned(),
        Occurrence::Nth(number) => format!("thread or process number {number}"),
        Occurrence::Half(_) => "about every second thread or process".to_owned(),
        Occurrence::Every => "each thread or process".to_owned(),
    };
    let (object, address) = match &hold.point {
        HoldPoint::Code(point) => (Some(point.object.to_string()), Some(point.address)),
        _ => (None, None),
    };
    let place_text = match &hold.point {
        HoldPoint::Start(CreationSide::Creator) if hold.occurrence == Occurrence::Every => {
            "after each creation of a thread or process".to_owned()
        }
        HoldPoint::Start(CreationSide::Creator) => format!("right after it created {created}"),
        HoldPoint::Start(CreationSide::Created) => {
            format!("before its first instruction ({created} that was created)")
        }
        HoldPoint::Call { process, .. } => format!(
            "before {} in process {}",
            function.as_deref().unwrap_or("a system call"),
            process + 1
        ),
        HoldPoint::Line { .. } => {
            format!(
                "at {}",
                line_name(file.as_deref(), line, function.as_deref())
            )
        }
        HoldPoint::Code(point) if function.is_none() && line.is_none() => {
            format!(
                "at {}+0x{:x}",
                base_name(&point.object.to_string()),
                point.address
            )
        }
        HoldPoint::Code(_) => format!(
            "at {}",
            line_name(file.as_deref(), line, function.as_deref())
        ),
    };
    HeldPlace {
        place: format!("{place_text}{occurrence_text}"),
        function,
        file,
        line,
        object,
        address,
        occurrence,
    }
}

/// Returns a place in words: `refcount.c:7 in drop()`.
pub(crate) fn line_name(file: Option<&str>, line: Option<u32>, function: Option<&str>) -> String {
    let function = function.map(|name| {
        if name.contains('(') {
            name.to_owned()
        } else {
            format!("{name}()")
        }
    });
    match (file.zip(line), function) {
        (Some((file, line)), Some(function)) => format!("{}:{line} in {function}", base_name(file)),
        (Some((file, line)), None) => format!("{}:{line}", base_name(file)),
        (None, Some(function)) => function,
        (None, None) => "an unknown place".to_owned(),
    }
}

/// Returns the last part of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
