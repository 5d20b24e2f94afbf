//! `--user`: runs the processes of trials as another user.

use super::simple::{LEVER, SEARCH};
use super::{Lever, LeverHelp, LeverSearch};
use provoke_model::{Text, TrialConditions, is_secret};
use provoke_sys::user;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::io;

/// The user that runs the processes of trials.
pub(super) static USER: Lever = Lever {
    name: "user",
    about: "another user",
    flag: Some(LeverHelp {
        value: "NAME",
        text: "Run the processes of trials as this user; provoke and its hooks run as root",
        heading: "Command and environment",
    }),
    parse: |typed| {
        if typed.is_empty() {
            return Err("write the name of a user".to_owned());
        }
        Ok(typed.to_owned())
    },
    fact_without: "the same as provoke",
    instead_in_containers: Some("choose the user in the container: --container user=NAME"),
    search: Some(LeverSearch {
        family: "user",
        values: &["nobody"],
        sham: Some("root"),
        cause: "user: it needs rights or the home directory of the user root",
        cause_if_removed: Some("user: it fails with the rights of the user root"),
        is_harsh: true,
        ..SEARCH
    }),
    // Removes secrets from the plan, unless they are set for the trials.
    prepare: |_, name, trials| {
        let refuse = |message: String, hint: &str| Err(Diagnostic::usage(message).with_hint(hint));
        if user::find_user(name).is_none() {
            return refuse(
                format!("there is no user `{}`", name.to_safe()),
                "choose a user from `getent passwd`",
            );
        }
        if !user::is_root() {
            return refuse(
                "only root can run trials as another user".to_owned(),
                "leave --user out, or run provoke with sudo",
            );
        }
        trials.environment.retain(|(name, _)| !names_secret(name));
        Ok(())
    },
    apply: |name, start| {
        let Some(user) = user::find_user(name) else {
            return Err(io::Error::other(format!(
                "there is no user `{}`",
                name.to_safe()
            )));
        };
        start.identity = Some(user.process_identity());
        start.hides_secrets = true;
        for (name, value) in [
            ("HOME", &user.home),
            ("USER", &user.name),
            ("LOGNAME", &user.name),
        ] {
            let value = value
                .to_str()
                .ok_or_else(|| io::Error::other(format!("`{}` is not UTF-8", value.to_safe())))?;
            start
                .variables
                .push((name.to_owned(), Some(value.to_owned())));
        }
        Ok(())
    },
    ..LEVER
};

/// Returns whether a variable of this name holds a secret.
pub fn names_secret(name: &Text) -> bool {
    is_secret(&name.as_os_str().to_string_lossy())
}

/// Returns the user that runs the processes of trials, if it is not the user that runs provoke.
pub fn user_of(conditions: &TrialConditions) -> Option<&str> {
    conditions.get(USER.name)
}
