//! TEMP
/// TEMP
#[derive(clap::Args)]
pub struct VictimArgs {
    /// TEMP
    pub kind: String,
}
/// TEMP
pub fn run(_: VictimArgs) -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
