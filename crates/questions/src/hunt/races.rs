//! Reports the data races that were seen while threads were held.

use super::places::base_name;
use provoke_model::{AccessingThread, Frame, RacingAccess, Site, TrialId};
use provoke_words as words;
use serde::Serialize;
use std::cmp::Reverse;

/// Title of a race. It may be harmless, because some atomic operations are plain instructions; a failure under the hold
/// does not show that they are none.
pub(super) const RACE_TITLE: &str = "data race, unless both accesses are atomic operations";
/// Functions of a stack that are shown.
const SHOWN_FRAMES: usize = 3;
/// Beginning of the names of Go's runtime, which accesses memory of its threads without locks on purpose.
const GO_RUNTIME: &str = "runtime.";
/// Functions of the C library that start a thread or a program.
const THREAD_STARTS: [&str; 6] = [
    "start_thread",
    "clone",
    "clone3",
    "__clone3",
    "__libc_start_call_main",
    "__libc_start_main",
];

/// A data race that was seen: two threads access the same memory, and at least one of them writes.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RaceReport {
    /// Number of bytes.
    pub size: u8,
    /// Number of times it was seen.
    pub times: u64,
    /// A trial in which it was seen.
    pub trial: u64,
    /// The thread that was held before its access.
    pub held: RaceSide,
    /// The thread that accessed the memory meanwhile.
    pub other: RaceSide,
}

/// One side of a data race.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RaceSide {
    /// Number of the thread, from 1 in the order of creation.
    pub thread: u32,
    /// Whether it writes.
    pub writes: bool,
    /// The functions that it runs, the innermost first.
    pub stack: Vec<String>,
    /// Source file of the innermost function of the program, or of a library if there is none.
    pub file: Option<String>,
    /// Line in the source file.
    pub line: Option<u32>,
    /// Number of functions of libraries that this line has called.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    library_calls: usize,
}

impl RaceReport {
    /// Describes both sides.
    pub fn describe(&self) -> String {
        let verb = |side: &RaceSide| if side.writes { "writes" } else { "reads" };
        format!(
            "thread {} {} {} at {}; meanwhile thread {} {} them at {} (seen in #{})",
            self.held.thread,
            verb(&self.held),
            words::format_count(u64::from(self.size), "byte"),
            self.held.place(),
            self.other.thread,
            verb(&self.other),
            self.other.place(),
            self.trial,
        )
    }
}

impl RaceSide {
    fn new(side: &AccessingThread) -> Self {
        let line = side
            .stack
            .get(side.in_libraries)
            .and_then(|frame| frame.line.clone());
        Self {
            thread: side.thread + 1,
            writes: side.writes,
            stack: side.stack.iter().map(frame_name).collect(),
            file: line.as_ref().map(|(file, _)| file.clone()),
            line: line.map(|(_, line)| line),
            library_calls: side.in_libraries,
        }
    }

    /// Returns whether the other side runs the same line of the same function.
    fn is_same_place(&self, other: &Self) -> bool {
        self.line == other.line && self.stack.first() == other.stack.first()
    }

    fn is_at(&self, site: &Site) -> bool {
        self.line == Some(site.line) && self.file.as_ref() == Some(&site.file)
    }

    fn place(&self) -> String {
        let is_own = |name: &&str| !THREAD_STARTS.contains(name);
        let names = self.stack.iter().map(|name| &**name);
        let own_functions = names.skip(self.library_calls).take_while(is_own);
        let stack: Vec<&str> = own_functions.take(SHOWN_FRAMES).collect();
        let called = self
            .library_calls
            .checked_sub(1)
            .map(|last| &self.stack[last]);
        let called = called.map_or(String::new(), |name| format!(", which called {name}"));
        let stack_text = stack.join(" < ") + &called;
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{}:{line} in {stack_text}", base_name(file)),
            _ => stack_text,
        }
    }
}

fn frame_name(frame: &Frame) -> String {
    let module = || {
        format!(
            "{}+0x{:x}",
            frame.module.as_deref().unwrap_or("?"),
            frame.offset
        )
    };
    frame.function.clone().unwrap_or_else(module)
}

/// Returns each race once, whichever of its sides was held: those at the lines of the crash first, then those without
/// calls of libraries, then the most frequent.
pub(super) fn seen_races(
    seen: &[(TrialId, RacingAccess)],
    crash_sites: &[Site],
) -> Vec<RaceReport> {
    let mut races: Vec<RaceReport> = Vec::new();
    for (trial, race) in seen {
        let is_of_runtime = |side: &AccessingThread| {
            let innermost = side.stack.first().and_then(|frame| frame.function.as_ref());
            innermost.is_some_and(|name| name.starts_with(GO_RUNTIME))
        };
        if !(race.held.writes || race.other.writes)
            || is_of_runtime(&race.held)
            || is_of_runtime(&race.other)
        {
            continue;
        }
        let (held_side, other_side) = (RaceSide::new(&race.held), RaceSide::new(&race.other));
        let is_same_race = |race: &&mut RaceReport| {
            let sides = [&race.held, &race.other];
            let is_between = |held: &RaceSide, other: &RaceSide| {
                held.is_same_place(&held_side) && other.is_same_place(&other_side)
            };
            is_between(sides[0], sides[1]) || is_between(sides[1], sides[0])
        };
        match races.iter_mut().find(is_same_race) {
            Some(race) => race.times += 1,
            None => races.push(RaceReport {
                size: race.size,
                times: 1,
                trial: trial.0,
                held: held_side,
                other: other_side,
            }),
        }
    }
    let is_at_crash = |race: &RaceReport| {
        let sides = [&race.held, &race.other];
        let mut sites = crash_sites.iter().flat_map(Site::with_callers);
        sites.any(|site| sides.iter().any(|side| side.is_at(site)))
    };
    let in_library = |race: &RaceReport| race.held.library_calls + race.other.library_calls > 0;
    races.sort_by_key(|race| (!is_at_crash(race), in_library(race), Reverse(race.times)));
    races
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(thread: u32, writes: bool, function: &str, line: u32) -> AccessingThread {
        AccessingThread {
            thread,
            tid: 1,
            point: None,
            writes,
            stack: vec![Frame {
                function: Some(function.to_owned()),
                line: Some(("race.c".to_owned(), line)),
                ..Frame::default()
            }],
            in_libraries: 0,
        }
    }

    #[test]
    fn an_access_in_a_library_is_placed_at_the_line_that_called_it() {
        let mut side = side(2, true, "closer", 29);
        let library = Frame {
            function: Some("free".to_owned()),
            line: Some(("malloc.c".to_owned(), 3177)),
            ..Frame::default()
        };
        side.stack.insert(0, library);
        side.in_libraries = 1;
        assert_eq!(
            RaceSide::new(&side).place(),
            "race.c:29 in closer, which called free"
        );
    }

    fn race(held: AccessingThread, other: AccessingThread) -> (TrialId, RacingAccess) {
        let race = RacingAccess {
            hold: 0,
            held,
            other,
            memory: 0x1000,
            size: 8,
            core: None,
        };
        (TrialId(1), race)
    }

    #[test]
    fn a_race_is_listed_once_whichever_thread_is_held() {
        let (read, write) = (side(1, false, "user", 16), side(2, true, "owner", 29));
        let seen = [race(read.clone(), write.clone()), race(write, read)];
        let races = seen_races(&seen, &[]);
        assert_eq!(races.len(), 1);
        assert_eq!(races[0].times, 2);
    }

    #[test]
    fn races_at_the_lines_of_the_crash_come_first() {
        let frequent = race(side(1, false, "user", 16), side(2, true, "owner", 34));
        let at_crash = race(side(1, false, "user", 18), side(2, true, "owner", 29));
        let seen = [frequent.clone(), frequent, at_crash];
        let crash = Site {
            file: "race.c".to_owned(),
            line: 18,
            ..Site::default()
        };
        let lines = |sites: &[Site]| -> Vec<_> {
            let races = seen_races(&seen, sites);
            races.iter().map(|race| race.held.line.unwrap()).collect()
        };
        assert_eq!(lines(&[]), [16, 18]);
        assert_eq!(lines(&[crash]), [18, 16]);
    }
}
