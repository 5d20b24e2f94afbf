//! Describes differences between failing and passing trials in words.

use super::places::PathPlaceReport;
use super::points::KnownPoints;
use crate::FailureCounts;
use provoke_stats::paths::{PathComparison, PathGroup, PathStatement};
use serde::Serialize;

/// Something that is true in failing trials more often than in passing ones.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DifferenceReport {
    /// The statement in words.
    pub statement: String,
    /// The points that it is about.
    pub places: Vec<PathPlaceReport>,
    /// Failing trials, and those in which it is true.
    pub failing: TrueIn,
    /// Passing trials, and those in which it is true.
    pub passing: TrueIn,
    /// Probability that chance shows a difference like it in any of the tests.
    pub adjusted_p: f64,
    /// Harmonic mean of the shares of failing trials in which it is true and of passing ones in which it is not.
    pub score: f64,
    /// Whether it becomes true only on the way to the failure that failing trials take.
    pub is_after_failure: bool,
    /// Further statements that are true in the same trials.
    pub same_trials: Vec<String>,
    /// Whether it is an order of threads or calls, which a hold may force.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub(super) is_order: bool,
}

/// Trials in which a statement is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TrueIn {
    /// Trials in which it is true.
    pub count: u64,
    /// All of them.
    pub trials: u64,
}

/// A point whose observation changes the failure rate.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObservedPoint {
    /// The point.
    pub place: PathPlaceReport,
    /// Trials in which it was observed.
    pub observed: FailureCounts,
    /// Trials in which it was not.
    pub not_observed: FailureCounts,
    /// Probability that chance shows a difference like it at any of the points.
    pub adjusted_p: f64,
}

impl TrueIn {
    /// Returns `3 of 20`.
    pub(super) fn in_words(self) -> String {
        format!("{} of {}", self.count, self.trials)
    }
}

/// Describes the statements of a comparison.
pub(super) struct Narrator<'a> {
    pub(super) points: &'a KnownPoints,
    pub(super) source_line: &'a dyn Fn(&str, u32) -> Option<String>,
}

impl Narrator<'_> {
    /// Describes a group, of which the first statement is the clearest.
    pub(super) fn describe_group(
        &self,
        group: &PathGroup,
        failing: u64,
        passing: u64,
    ) -> Option<DifferenceReport> {
        let (first, others) = group.statements.split_first()?;
        let mut statement = self.describe(first)?;
        let mut places = self.places_of(first);
        if let (PathStatement::Reached { times: 1, .. }, [place]) = (first, &places[..])
            && !place.is_named_entry()
            && let Some(entry) = self.entered_function(others)
        {
            statement.push_str(", then ");
            statement.push_str(&entry.done());
            places.push(entry);
        }
        let others = others
            .iter()
            .filter_map(|statement| self.describe(statement));
        Some(DifferenceReport {
            statement,
            places,
            is_order: is_order(*first),
            failing: TrueIn {
                count: group.failing,
                trials: failing,
            },
            passing: TrueIn {
                count: group.passing,
                trials: passing,
            },
            adjusted_p: group.adjusted_p,
            score: group.score,
            is_after_failure: group.is_after_failure,
            same_trials: others.collect(),
        })
    }

    /// Describes the difference that comes first among the clearest ones.
    pub(super) fn describe_lead(&self, comparison: &PathComparison) -> Option<DifferenceReport> {
        let group = comparison.groups.get(comparison.lead?)?;
        self.describe_group(group, comparison.failing, comparison.passing)
    }

    /// Describes groups of all compared trials.
    pub(super) fn describe_groups(
        &self,
        groups: &[PathGroup],
        comparison: &PathComparison,
    ) -> Vec<DifferenceReport> {
        let described = groups
            .iter()
            .map(|group| self.describe_group(group, comparison.failing, comparison.passing));
        described.flatten().collect()
    }

    /// Returns the first function that threads enter by statements, which are in the order of time.
    fn entered_function(&self, statements: &[PathStatement]) -> Option<PathPlaceReport> {
        let mut entered = statements.iter().filter_map(|statement| match *statement {
            PathStatement::Reached { point, times: 1 } => self.place(point),
            _ => None,
        });
        entered.find(PathPlaceReport::is_named_entry)
    }

    /// Describes the points whose observation changes the failure rate.
    pub(super) fn describe_arming(&self, comparison: &PathComparison) -> Vec<ObservedPoint> {
        let counts = |(failures, trials)| FailureCounts { failures, trials };
        let effects = comparison.arming.iter().filter_map(|effect| {
            Some(ObservedPoint {
                place: self.place(*effect.points.first()?)?,
                observed: counts(effect.armed),
                not_observed: counts(effect.unarmed),
                adjusted_p: effect.adjusted_p,
            })
        });
        effects.collect()
    }

    /// Describes a point.
    pub(super) fn place(&self, point: u32) -> Option<PathPlaceReport> {
        PathPlaceReport::new(self.points, point, self.source_line)
    }

    fn places_of(&self, statement: &PathStatement) -> Vec<PathPlaceReport> {
        let points = statement.points();
        points
            .into_iter()
            .filter_map(|point| self.place(point))
            .collect()
    }

    fn describe(&self, statement: &PathStatement) -> Option<String> {
        let place = |point: u32| self.place(point);
        Some(match *statement {
            PathStatement::Reached { point, times: 1 } => {
                format!("the program {}", place(point)?.done())
            }
            PathStatement::Reached { point, times } => {
                format!(
                    "the program {} at least {times} times",
                    place(point)?.done()
                )
            }
            PathStatement::NotReached { point } => {
                format!("the program did not {}", place(point)?.not_done())
            }
            PathStatement::Before {
                thread,
                point,
                other_thread,
                other_point,
            } => {
                let (first, then) = (place(point)?.done(), place(other_point)?.done());
                if thread == other_thread {
                    format!("{} {first} before it {then}", name_thread(thread))
                } else {
                    format!(
                        "{} {first} before {} {then}",
                        name_thread(thread),
                        name_thread(other_thread)
                    )
                }
            }
            PathStatement::Between { from, to, other } => format!(
                "while one thread was {}, another one {}",
                between(&place(from)?, &place(to)?),
                place(other)?.done()
            ),
            PathStatement::Together {
                from,
                to,
                other_from,
                other_to,
            } => {
                let window = between(&place(from)?, &place(to)?);
                let other = between(&place(other_from)?, &place(other_to)?);
                if window == other {
                    format!("two threads were {window} at once")
                } else {
                    format!("one thread was {window} while another one was {other}")
                }
            }
        })
    }
}

/// Returns whether a statement is about an order, and not about a single point.
fn is_order(statement: PathStatement) -> bool {
    !matches!(
        statement,
        PathStatement::Reached { .. } | PathStatement::NotReached { .. }
    )
}

/// Returns the points of differences that may be forced, the most promising ones first: a thread that waits there gives
/// others the time that they had in failing trials. The point where the other thread is follows each. Of equally clear
/// differences, the latest is the nearest to the failure.
pub(super) fn leading_points(comparison: &PathComparison) -> Vec<u32> {
    let groups = comparison.groups.iter();
    let mut groups: Vec<&PathGroup> = groups.filter(|group| !group.is_after_failure).collect();
    groups.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.time.total_cmp(&a.time)));
    let statements = groups
        .into_iter()
        .flat_map(|group| group.latest.iter().chain(group.statements.first()));
    let of_statements = statements.flat_map(|statement| match *statement {
        PathStatement::Together { to, other_to, .. } => vec![to, other_to],
        PathStatement::Between { to, other, .. } => vec![to, other],
        PathStatement::Before {
            point, other_point, ..
        } => vec![other_point, point],
        PathStatement::Reached { .. } | PathStatement::NotReached { .. } => Vec::new(),
    });
    let raising = comparison.arming.iter().filter(|effect| effect.raises);
    let raising = raising.filter_map(|effect| effect.points.first().copied());
    of_statements.chain(raising).collect()
}

/// Returns `between a.c:9 and a.c:11 in drop()`.
fn between(from: &PathPlaceReport, to: &PathPlaceReport) -> String {
    if from.place == to.place {
        format!("at {}", to.with_function())
    } else if from.function == to.function {
        format!("between {} and {}", from.place, to.with_function())
    } else {
        format!(
            "between {} and {}",
            from.with_function(),
            to.with_function()
        )
    }
}

/// Names a thread by its number in the order of creation.
fn name_thread(number: u32) -> String {
    match number {
        0 => "the first thread".to_owned(),
        number => format!("thread {}", u64::from(number) + 1),
    }
}
