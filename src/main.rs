//! The `provoke` program; everything is in the library.

fn main() -> std::process::ExitCode {
    provoke::cli::main()
}
