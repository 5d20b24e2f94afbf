//! Entry point of the program `provoke`.

fn main() -> std::process::ExitCode {
    provoke::cli::main()
}
