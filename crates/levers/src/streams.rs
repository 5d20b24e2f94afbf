//! Terminals, and the kind of stdin.

use super::simple::{LEVER, SEARCH, parse_choice};
use super::{Lever, LeverSearch};
use provoke_sys::start_step::StartStep;
use serde::{Deserialize, Serialize};

/// The streams of a process that are a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalStreams {
    /// Stdin, stdout and stderr.
    All,
    /// Stdout.
    Stdout,
}

/// What stdin is, if no file is given for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// A pipe to which nothing is written.
    Empty,
    /// A terminal on which nothing is typed.
    Terminal,
}

pub(super) static TTY: Lever = Lever {
    name: "tty",
    about: "a terminal of 80 columns and 24 rows: `all` streams, or only `stdout`",
    parse: |typed| parse_choice(typed, &["all", "stdout"]),
    apply: |value, start| {
        start.terminal = Some(match value {
            "stdout" => TerminalStreams::Stdout,
            _ => TerminalStreams::All,
        });
        Ok(())
    },
    way_out: "mount the file system `devpts` on /dev/pts",
    instead_in_containers: Some("give the container a terminal: --container tty=true"),
    search: Some(LeverSearch {
        family: "terminal",
        values: &["all"],
        ladder: &["stdout", "all"],
        cause: "terminal: it behaves differently on a terminal",
        ..SEARCH
    }),
    ..LEVER
};

pub(super) static STDIN: Lever = Lever {
    name: "stdin",
    about: "a stdin that is `closed`, an `empty` pipe, or a `tty`; by default it is /dev/null",
    parse: |typed| parse_choice(typed, &["closed", "empty", "tty"]),
    apply: |value, start| {
        match value {
            "closed" => start.steps.push(StartStep::CloseStdin),
            "empty" => start.input = Some(InputKind::Empty),
            _ => start.input = Some(InputKind::Terminal),
        }
        Ok(())
    },
    way_out: "mount the file system `devpts` on /dev/pts",
    instead_in_containers: Some("close it in the command: sh -c 'exec \"$@\" <&-'"),
    search: Some(LeverSearch {
        values: &["empty", "closed"],
        cause: "stdin: it depends on what its stdin is",
        is_harsh: true,
        ..SEARCH
    }),
    ..LEVER
};
