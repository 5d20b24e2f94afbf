//! Compares the help of all commands with golden files.

use super::support::Sandbox;
use crate::golden::GoldenFolder;

#[test]
fn the_help_of_every_command_is_golden() {
    let sandbox = Sandbox::new();
    let help = |arguments: &[&str]| sandbox.provoke(arguments).stdout;
    let overview = help(&["--help"]);
    let commands = overview.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("  ")?.split_once("  ")?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        is_name.then_some(name)
    });
    let commands: Vec<&str> = commands.collect();
    assert!(
        commands.contains(&"run") && commands.contains(&"plan"),
        "{overview}"
    );
    let mut golden = GoldenFolder::open("help");
    golden.compare("provoke", &overview);
    for command in commands {
        golden.compare(command, &help(&[command, "--help"]));
        let short_help = help(&[command, "-h"]);
        let most_lines = if command == "run" { 24 } else { 45 };
        assert!(short_help.lines().count() <= most_lines, "{short_help}");
        golden.compare(&format!("{command}.short"), &short_help);
    }
    golden.finish();
}
