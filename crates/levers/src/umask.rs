//! The mask of the modes of new files.

use super::simple::{LEVER, SEARCH};
use super::{Lever, LeverSearch};
use provoke_sys::start_step::StartStep;
use std::io;

fn read_octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mask) if mask <= 0o777 => Ok(mask),
        _ => Err(format!("`{text}` is not an octal mask such as `077`")),
    }
}

pub(super) static UMASK: Lever = Lever {
    name: "umask",
    about: "the octal mask of the modes of new files: `077`",
    parse: |typed| Ok(format!("{:03o}", read_octal(typed)?)),
    apply: |mask, start| {
        let mask = read_octal(mask).map_err(io::Error::other)?;
        start.steps.push(StartStep::SetUmask(mask));
        Ok(())
    },
    instead_in_containers: Some("set it in the command: sh -c 'umask 077; exec \"$@\"'"),
    search: Some(LeverSearch {
        values: &["077"],
        ladder: &["022", "027", "077", "777"],
        cause: "umask: it needs a mode that the mask forbids",
        cause_if_removed: Some("umask: the modes of its files change its result"),
        ..SEARCH
    }),
    ..LEVER
};
