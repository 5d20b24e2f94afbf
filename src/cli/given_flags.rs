//! Flags of a group of settings, to be applied to a scenario.

use clap::builder::Resettable;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::any::TypeId;
use std::marker::PhantomData;

/// The flags of `T` that were given.
#[derive(Clone, Debug)]
pub(super) struct Given<T> {
    matches: ArgMatches,
    group: PhantomData<T>,
}

impl<T: Args + Default> Given<T> {
    /// Overrides the settings whose flags were given.
    pub(super) fn apply_to(&self, settings: &mut T) {
        settings
            .update_from_arg_matches(&self.matches)
            .expect("no flag of settings is required");
    }

    /// Returns the given settings alone.
    pub(super) fn alone(&self) -> T {
        let mut settings = T::default();
        self.apply_to(&mut settings);
        settings
    }

    /// Like [`apply_to`](Self::apply_to), for settings that exclude each other: if a flag was given, no earlier setting
    /// remains.
    pub(super) fn replace(&self, settings: &mut T)
    where
        T: PartialEq,
    {
        let given = self.alone();
        if given != T::default() {
            *settings = given;
        }
    }
}

/// Makes the flag of an optional Boolean a flag without a value, unless it says how many it has.
fn without_value(flag: Arg) -> Arg {
    let is_boolean = flag.get_value_parser().type_id() == TypeId::of::<bool>();
    if is_boolean && flag.get_action().takes_values() && flag.get_num_args().is_none() {
        return flag.num_args(0).default_missing_value("true");
    }
    flag
}

impl<T: Args> Args for Given<T> {
    fn augment_args(command: Command) -> Command {
        // The heading of the group ends with the group.
        T::augment_args_for_update(command)
            .next_help_heading(Resettable::Reset)
            .mut_args(without_value)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Args> FromArgMatches for Given<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            matches: matches.clone(),
            group: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.matches = matches.clone();
        Ok(())
    }
}
