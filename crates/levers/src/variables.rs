//! Conditions that are only environment variables: time zone, locale, seeds of hashes and the like.

use super::simple::{LEVER, SEARCH, parse_choice, parse_integer, stored_number};
use super::{Lever, LeverSearch, TrialStart};
use provoke_sys::tool;
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path};
use std::time::{Duration, Instant};

const ZONES: &str = "/usr/share/zoneinfo";
/// Time and bytes for the list of all locales.
const LIST_WITHIN: Duration = Duration::from_secs(10);
const LONGEST_LIST: usize = 1 << 20;
const IN_CONTAINERS: &str = "set the variable in the container: --env NAME=VALUE";

fn set(start: &mut TrialStart, name: &str, value: &str) {
    start
        .variables
        .push((name.to_owned(), Some(value.to_owned())));
}

fn remove(start: &mut TrialStart, name: &str) {
    start.variables.push((name.to_owned(), None));
}

pub(super) static TIME_ZONE: Lever = Lever {
    name: "tz",
    about: "the time zone, such as `America/St_Johns`: sets TZ",
    parse: |typed| {
        let mut parts = Path::new(typed).components();
        let is_name = parts.all(|part| matches!(part, Component::Normal(_)));
        if typed.is_empty() || !is_name {
            return Err(format!("`{typed}` is not a time zone such as `Asia/Tokyo`"));
        }
        Ok(typed.to_owned())
    },
    apply: |zone, start| {
        if !Path::new(ZONES).join(zone).is_file() {
            let reason = format!("there is no time zone `{zone}` in {ZONES}");
            return Err(io::Error::other(reason));
        }
        set(start, "TZ", zone);
        Ok(())
    },
    way_out: "install the package `tzdata`, or choose another time zone",
    instead_in_containers: Some(IN_CONTAINERS),
    search: Some(LeverSearch {
        family: "time zone",
        values: &["Etc/UTC", "Pacific/Kiritimati", "America/St_Johns"],
        cause: "time zone: it assumes one time zone",
        ..SEARCH
    }),
    ..LEVER
};

pub(super) static LOCALE: Lever = Lever {
    name: "locale",
    about: "the locale: `C`, `tr_TR.UTF-8`, or any with `latin1`; sets LC_ALL, removes LANGUAGE",
    parse: |typed| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.@-".contains(letter);
        if typed.is_empty() || !typed.chars().all(is_plain) {
            return Err(format!(
                "`{typed}` is not a locale such as `C` or `tr_TR.UTF-8`"
            ));
        }
        Ok(typed.to_owned())
    },
    apply: |locale, start| {
        let name = find_locale(locale)?;
        set(start, "LC_ALL", &name);
        remove(start, "LANGUAGE");
        Ok(())
    },
    way_out: "`locale -a` shows the locales; `localedef` or the package `locales-all` adds others",
    instead_in_containers: Some(IN_CONTAINERS),
    search: Some(LeverSearch {
        values: &["C.UTF-8", "C", "latin1", "tr_TR.UTF-8"],
        cause: "locale: it assumes an encoding or a language",
        ..SEARCH
    }),
    ..LEVER
};

pub(super) static HASH_SEED: Lever = Lever {
    name: "hash-seed",
    about: "the seed of hashes in Python and Perl: sets PYTHONHASHSEED and PERL_HASH_SEED",
    parse: |typed| parse_integer(typed, 0, u32::MAX),
    apply: |seed, start| {
        set(start, "PYTHONHASHSEED", seed);
        set(start, "PERL_HASH_SEED", seed);
        Ok(())
    },
    instead_in_containers: Some(IN_CONTAINERS),
    search: Some(LeverSearch {
        family: "hash seed",
        seeds: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"],
        cause: "hash seed: the order of a set or dict reaches the result",
        ..SEARCH
    }),
    ..LEVER
};

pub(super) static COLUMNS: Lever = Lever {
    name: "columns",
    about: "the width of the terminal: sets COLUMNS",
    parse: |typed| parse_integer(typed, 1, u16::MAX.into()),
    apply: |columns, start| {
        set(start, "COLUMNS", columns);
        start.columns = Some(stored_number(columns)?);
        Ok(())
    },
    instead_in_containers: Some(IN_CONTAINERS),
    search: Some(LeverSearch {
        family: "terminal",
        values: &["40"],
        ladder: &["80", "70", "60", "50", "40", "20"],
        cause: "terminal: its output depends on the width",
        ..SEARCH
    }),
    ..LEVER
};

pub(super) static CI: Lever = Lever {
    name: "ci",
    about: "whether it runs in CI: `true` sets CI, `unset` removes it",
    parse: |typed| parse_choice(typed, &["true", "unset"]),
    apply: |value, start| {
        match value {
            "unset" => remove(start, "CI"),
            _ => set(start, "CI", value),
        }
        Ok(())
    },
    instead_in_containers: Some(IN_CONTAINERS),
    search: Some(LeverSearch {
        family: "CI",
        values: &["true", "unset"],
        cause: "CI: it behaves differently if the variable CI is set",
        ..SEARCH
    }),
    ..LEVER
};

/// Returns the name of an installed locale. `latin1` stands for any with this encoding.
fn find_locale(wanted: &str) -> io::Result<String> {
    if matches!(wanted, "C" | "POSIX") {
        return Ok(wanted.to_owned());
    }
    let deadline = Instant::now() + LIST_WITHIN;
    let program = Path::new("locale");
    let list = tool::run_program(program, &[OsStr::new("-a")], deadline, LONGEST_LIST)
        .map_err(|error| io::Error::other(format!("cannot run `locale -a`: {error}")))?;
    let plain = |name: &str| name.replace('-', "").to_lowercase();
    let fits = |name: &&str| match wanted {
        // A name without an encoding mostly has the oldest one of its language.
        "latin1" => plain(name).ends_with(".iso88591"),
        _ => plain(name) == plain(wanted),
    };
    let found = list.lines().find(fits).map(str::to_owned);
    found.ok_or_else(|| match wanted {
        "latin1" => io::Error::other("no locale with the encoding ISO-8859-1 is installed"),
        _ => io::Error::other(format!("the locale `{wanted}` is not installed")),
    })
}
