//! `--user`: runs the processes of trials as another user.

use super::simple::SEARCH;
use super::{Lever, LeverHelp, LeverSearch, TrialStart, ValueShape};
use provoke_model::{Text, TrialConditions, TrialsPlan, is_secret};
use provoke_sys::user;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::io;

/// Name of the lever.
pub(super) const NAME: &str = "user";

/// The user that runs the processes of trials.
pub(super) struct User;

impl Lever for User {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "another user"
    }

    fn flag(&self) -> Option<LeverHelp> {
        Some(LeverHelp {
            value: "NAME",
            text: "Run the processes of trials as this user; provoke and its hooks run as root",
            heading: "Command and environment",
        })
    }

    fn shape(&self) -> ValueShape {
        ValueShape::Name
    }

    fn parse(&self, typed: &str) -> Result<String, String> {
        if typed.is_empty() {
            return Err("write the name of a user".to_owned());
        }
        Ok(typed.to_owned())
    }

    fn fact_without(&self) -> &'static str {
        "the same as provoke"
    }

    fn instead_in_containers(&self) -> Option<&'static str> {
        Some("choose the user in the container: --container user=NAME")
    }

    fn search(&self) -> Option<LeverSearch> {
        Some(LeverSearch {
            family: "user",
            values: &["nobody"],
            sham: Some("root"),
            cause: "user: it needs rights or the home directory of the user root",
            cause_if_removed: Some("user: it fails with the rights of the user root"),
            is_harsh: true,
            ..SEARCH
        })
    }

    /// Removes secrets from the plan, unless they are set for the trials.
    fn prepare(&self, name: &str, trials: &mut TrialsPlan) -> Result<(), Diagnostic> {
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
    }

    fn apply(&self, name: &str, start: &mut TrialStart) -> io::Result<()> {
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
    }
}

/// Returns whether a variable of this name holds a secret.
pub fn names_secret(name: &Text) -> bool {
    is_secret(&name.as_os_str().to_string_lossy())
}

/// Returns the user that runs the processes of trials, if it is not the user that runs provoke.
pub fn user_of(conditions: &TrialConditions) -> Option<&str> {
    conditions.get(NAME)
}
