//! The real program against real processes.

mod bisect;
mod bisect_made;
mod compare;
mod confirm;
mod containers;
mod earlier;
mod errors;
mod evidence;
mod growth;
mod hangs;
mod hooks;
mod left_behind;
mod load;
mod load_real;
mod outcomes;
mod reduce;
mod sharing;
mod stopping;
mod storage;
mod support;
mod surroundings;
mod trust;
mod untrusted_text;
mod variants;
mod where_it_runs;
mod worked;
