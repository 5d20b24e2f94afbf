//! Plans that scenarios and their questions give.

#![expect(clippy::disallowed_methods, reason = "tests show names that they made")]

mod files;
mod load;
mod settings;
mod written;
