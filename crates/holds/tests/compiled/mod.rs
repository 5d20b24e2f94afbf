//! Compiles C programs for tests, and runs them under plans.

use provoke_holds::code::CodeCache;
use provoke_holds::run::{HeldRun, run_program};
use provoke_model::HoldPlan;
use provoke_sys::child::become_subreaper;
use std::cell::RefCell;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// The children of a process belong to all of its threads, so only one test at a time has children.
static CHILDREN_LOCK: Mutex<()> = Mutex::new(());

/// A compiled program.
pub(crate) struct Compiled {
    pub(crate) command: Vec<OsString>,
    pub(crate) files: RefCell<CodeCache>,
    _folder: TempDir,
    _children_lock: MutexGuard<'static, ()>,
}

impl Compiled {
    pub(crate) fn new(source: &str, options: &[&str]) -> Self {
        let children_lock = CHILDREN_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        become_subreaper().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests")
            .join(source);
        let compiled = Command::new("cc")
            .args(["-g", "-O1", "-pthread"])
            .args(options)
            .args([&source, Path::new("-o"), &program])
            .status();
        assert!(compiled.unwrap().success());
        let program = program.canonicalize().unwrap();
        Self {
            files: RefCell::default(),
            command: vec![program.into()],
            _folder: folder,
            _children_lock: children_lock,
        }
    }

    pub(crate) fn run_within(&self, hang: Duration, plan: &HoldPlan) -> HeldRun {
        run_program(&self.command, plan, &mut self.files.borrow_mut(), hang).unwrap()
    }
}
