//! Says how the versions around a boundary fail, if some of them fail in another way than the bad end.

use super::CandidateReport;
use super::candidates::is_fixed;
use provoke_state::State;
use provoke_words as words;

/// How consecutive versions end.
struct Segment<'a> {
    end: &'a str,
    versions: Vec<&'a str>,
}

/// Describes how the versions around the boundary end: "SIGSEGV up to 2, exit 1 in 3 and 4, passes from 5". Returns `None`
/// if none of them only failed in another way.
pub(super) fn describe_kinds(
    state: &State,
    points: &[CandidateReport],
    culprits: &[String],
) -> Option<String> {
    let bug = state.tally_of(State::FAILING).title_of_bugs();
    let bug = bug.as_deref().unwrap_or("fails");
    let is_culprit = |point: &&CandidateReport| culprits.contains(&point.name);
    let first = points.iter().position(|point| is_culprit(&point))?;
    let last = points.iter().rposition(|point| is_culprit(&point))?;
    let around = points.get(first.checked_sub(1)?..=last)?;
    around.iter().find_map(CandidateReport::only_failure)?;
    let mut segments: Vec<Segment> = Vec::new();
    for point in around {
        let end = match point.only_failure() {
            Some(other) => other,
            None if is_culprit(&point) => bug,
            None => "passes",
        };
        match segments.last_mut().filter(|segment| segment.end == end) {
            Some(segment) => segment.versions.push(&point.name),
            None => segments.push(Segment {
                end,
                versions: vec![&point.name],
            }),
        }
    }
    if is_fixed(state) {
        segments.reverse();
        for segment in &mut segments {
            segment.versions.reverse();
        }
    }
    let count = segments.len();
    let describe = |(index, segment): (usize, &Segment)| {
        let end = words::sanitize_line(segment.end);
        match (index, segment.versions.as_slice()) {
            (0, versions) => format!("{end} up to {}", versions.last().unwrap_or(&"")),
            (index, versions) if index + 1 == count => {
                format!("{end} from {}", versions.first().unwrap_or(&""))
            }
            (_, versions) => format!(
                "{end} in {}",
                words::join_names("and", versions.iter().copied())
            ),
        }
    };
    let parts: Vec<String> = segments.iter().enumerate().map(describe).collect();
    Some(parts.join(", "))
}
