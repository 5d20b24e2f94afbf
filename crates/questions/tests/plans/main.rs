//! Plans that scenarios and their questions give.

mod files;
mod load;
mod settings;
mod written;
