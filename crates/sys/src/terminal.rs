//! Opens pseudo-terminals.

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    LocalModes, OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize,
};
use std::io;
use std::os::fd::OwnedFd;

/// Rows of a terminal.
const ROWS: u16 = 24;
/// Ctrl-D. A reader gets the end of its input once for each.
const END_OF_INPUT: [u8; 64] = [4; 64];

/// Opens a terminal with this number of columns, on which nothing is typed. Returns the end that reads what is written to
/// it, and the terminal. Output is not changed, and input ends at once.
pub fn open_terminal(columns: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let reader = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&reader)?;
    unlockpt(&reader)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = ioctl_tiocgptpeer(&reader, flags)?;
    let mut modes = tcgetattr(&terminal)?;
    modes.output_modes.remove(OutputModes::OPOST);
    modes.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&terminal, OptionalActions::Now, &modes)?;
    tcsetwinsize(
        &terminal,
        Winsize {
            ws_row: ROWS,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )?;
    rustix::io::write(&reader, &END_OF_INPUT)?;
    Ok((reader, terminal))
}
