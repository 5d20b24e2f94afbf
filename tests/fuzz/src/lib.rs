//! What several targets need.

use provoke_model::Plan;
use provoke_plan::{PlanContext, plan_file};
use provoke_words::diagnostic::Diagnostic;
use std::fs;
use std::path::{Path, PathBuf};

/// A file in memory that holds the input of a run.
pub struct InputFile(PathBuf);

impl InputFile {
    /// Names a file that no other process uses.
    pub fn new(kind: &str) -> Self {
        let name = format!("provoke-fuzz-{kind}-{}", std::process::id());
        Self(Path::new("/dev/shm").join(name))
    }

    /// Replaces its contents.
    pub fn write(&self, bytes: &[u8]) -> &Path {
        fs::write(&self.0, bytes).expect("there is room in /dev/shm");
        &self.0
    }
}

impl Drop for InputFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Makes the plan of a scenario file.
pub fn plan_of(scenario: &Path) -> Result<Plan, Diagnostic> {
    let context = |_: &_, base: &Path| Ok(PlanContext::of_this_process(base.to_owned()));
    plan_file(scenario, &|_| {}, context, provoke_questions::plan)
}
