//! `--user`: runs the processes of trials as another user.

use super::error::ExperimentError;
use provoke_model::{Text, TrialsPlan, is_secret};
use provoke_sys::user;
use provoke_words::untrusted::Untrusted as _;

/// Checks that trials can run as the user of the plan, and sets the variables that name the user.
pub(super) fn become_user(trials: &mut TrialsPlan) -> Result<(), ExperimentError> {
    let Some(name) = &trials.conditions.user else {
        return Ok(());
    };
    let refuse = |message: String, hint: &str| {
        Err(ExperimentError::usage(message).with_hint(hint.to_owned()))
    };
    let Some(user) = user::find_user(name) else {
        return refuse(
            format!("there is no user `{}`", name.to_safe()),
            "choose a user from `getent passwd`",
        );
    };
    if !user::is_root() {
        return refuse(
            "only root can run trials as another user".to_owned(),
            "leave --user out, or run provoke with sudo",
        );
    }
    let actors = trials.variants.iter().flat_map(|variant| &variant.actors);
    if actors.into_iter().any(|actor| actor.container.is_some()) {
        return refuse(
            "`--user` does not apply to trials in containers".to_owned(),
            "choose the user in the container: --container user=NAME",
        );
    }
    // Secrets of root are not passed to the user, unless they are set for the trials.
    trials
        .environment
        .retain(|(name, _)| !is_secret(&name.as_os_str().to_string_lossy()));
    let variables = [
        ("HOME", &user.home),
        ("USER", &user.name),
        ("LOGNAME", &user.name),
    ];
    for (name, value) in variables {
        let name = Text::from(name);
        trials.environment.retain(|(own_name, _)| *own_name != name);
        trials.environment.push((name, Text::from(value)));
    }
    Ok(())
}
