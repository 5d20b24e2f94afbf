//! Provides a slot that runs orders, and programs for it.

use crate::limited::{self, PATIENCE};
use provoke_levers::TrialStart;
use provoke_model::{
    ActorPlan, ActorRole, CaptureMode, HoldPlan, LeakRule, Observation, SlotId, Text, Trial,
    TrialId, TrialPurpose, TrialSettings, VariantId, VariantPlan,
};
use provoke_slot::wire::{SlotOrder, SlotReply, VariantRecipe};
use provoke_sys::cgroup::SlotGroup;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

pub(super) const PROVOKE: &str = env!("CARGO_BIN_EXE_provoke");

/// A time limit that no test reaches.
pub(super) const LONG: Duration = Duration::from_secs(100);

/// A slot, and a directory for its output. Dropping it ends both.
pub(super) struct Bench {
    slot: Child,
    _group: Option<SlotGroup>,
    orders: Option<ChildStdin>,
    replies: Receiver<String>,
    folder: tempfile::TempDir,
    next: u64,
    /// Time between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    /// How long descendants may outlive the program.
    pub(super) leak_grace: Duration,
    /// Whether programs are traced.
    pub(super) trace: bool,
    /// Variables of the trials besides those of the test.
    pub(super) environment: Vec<(Text, Text)>,
    /// The conditions of the trials.
    pub(super) start: TrialStart,
    /// How the threads of the trials are held.
    pub(super) hold: Option<HoldPlan>,
    /// Errors that the slot reported.
    pub(super) complaints: Vec<String>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::start(Command::new(PROVOKE), tempfile::tempdir().unwrap())
    }

    /// Starts a slot without root rights, for any user.
    pub(super) fn without_root() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The binary must be in a directory where every user may execute it.
        let binary = folder.path().join("provoke");
        fs::copy(PROVOKE, &binary).unwrap();
        let everybody = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.path(), everybody).unwrap();
        let mut command = Command::new(&binary);
        if rustix::process::geteuid().is_root() {
            command = Command::new("setpriv");
            command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
            command.arg(&binary);
        }
        Self::start(command, folder)
    }

    fn start(mut command: Command, folder: tempfile::TempDir) -> Self {
        let group = SlotGroup::try_create();
        let mut slot = command
            .arg("slot")
            .args(group.iter().flat_map(SlotGroup::paths))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, replies) = (slot.stdin.take(), slot.stdout.take().unwrap());
        let mut bench = Self {
            slot,
            _group: group,
            orders,
            replies: limited::lines(replies),
            folder,
            next: 1,
            grace: Duration::from_millis(100),
            leak_grace: Duration::from_millis(100),
            trace: false,
            environment: Vec::new(),
            start: TrialStart::default(),
            hold: None,
            complaints: Vec::new(),
        };
        assert!(matches!(bench.receive(), SlotReply::Ready));
        bench
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Compiles a C program and returns its path.
    pub(super) fn compile(&self, name: &str, source: &str) -> String {
        self.compile_with(&[], name, source)
    }

    /// Compiles a C program with more options of the compiler, and returns its path.
    pub(super) fn compile_with(&self, options: &[&str], name: &str, source: &str) -> String {
        let file = self.path(&format!("{name}.c"));
        fs::write(&file, source).unwrap();
        let program = self.path(name);
        let done = Command::new("cc")
            .args(["-O0", "-g", "-pthread"])
            .args(options)
            .arg("-o")
            .args([&program, &file])
            .status()
            .expect("a C compiler");
        assert!(done.success());
        program.to_str().unwrap().to_owned()
    }

    /// Runs a command once and returns the observation.
    pub(super) fn run(&mut self, command: &[&str], timeout: Duration) -> Observation {
        self.order_trials(command, timeout, 1);
        self.next_observation().1
    }

    /// Orders this number of trials of a command, one after another.
    pub(super) fn order_trials(&mut self, command: &[&str], timeout: Duration, count: u64) {
        let actor = ActorPlan {
            name: String::new(),
            role: ActorRole::Main,
            command: command.iter().copied().map(Text::from).collect(),
            copies: 1,
            env: Vec::new(),
            cwd: self.folder.path().as_os_str().into(),
            stdin: None,
            container: None,
        };
        let is_set = |name: &Text| self.environment.iter().any(|(own, _)| own == name);
        let inherited = std::env::vars_os().map(|(name, value)| (name.into(), value.into()));
        let inherited = inherited.filter(|(name, _)| !is_set(name));
        let environment = self.environment.iter().cloned().chain(inherited);
        let recipe = VariantRecipe {
            cases: None,
            ready: None,
            variant: VariantPlan {
                actors: vec![actor],
                ..VariantPlan::default()
            },
            environment: environment.collect(),
            prepare: None,
            conclude: None,
            start: self.start.clone(),
            cwd_snapshot: None,
            default_pids: 4915,
            settings: TrialSettings {
                grace: self.grace,
                leak_grace: self.leak_grace,
                capture: if self.trace {
                    CaptureMode::Trace
                } else {
                    CaptureMode::Off
                },
                ..TrialSettings::default()
            },
            service: None,
            children: true,
            run: None,
            scratch: None,
            evidence: Some(self.path("evidence").as_os_str().into()),
            leaks: LeakRule::Fail,
            patterns: Vec::new(),
        };
        let ids = self.next..self.next + count;
        self.next = ids.end;
        let trials = ids.map(|id| Trial {
            id: TrialId(id),
            variant: VariantId(0),
            slot: SlotId(0),
            seed: 0,
            timeout,
            purpose: TrialPurpose::Measure,
            hold: self.hold.clone().map(Box::new),
        });
        let trials = trials.collect();
        self.order(&SlotOrder::Learn(VariantId(0), Box::new(recipe)));
        self.order(&SlotOrder::Run(trials));
    }

    /// Waits for the next trial that ends.
    pub(super) fn next_observation(&mut self) -> (TrialId, Observation) {
        loop {
            match self.receive() {
                SlotReply::Finished(id, seen) => return (id, *seen),
                SlotReply::Complaint(text) => self.complaints.push(text),
                reply => panic!("{reply:?}"),
            }
        }
    }

    /// Runs a command that never ends, with increasing deadlines, until the observation is as expected: the time until
    /// a program reaches a certain state is not known.
    pub(super) fn hang(
        &mut self,
        command: &[&str],
        so: impl Fn(&Observation) -> bool,
    ) -> Observation {
        let mut timeout = Duration::from_millis(300);
        loop {
            let seen = self.run(command, timeout);
            if so(&seen) {
                return seen;
            }
            timeout *= 2;
            assert!(timeout < LONG, "{seen:#?}");
        }
    }

    fn order(&mut self, order: &SlotOrder) {
        let mut line = serde_json::to_vec(order).unwrap();
        line.push(b'\n');
        self.orders.as_mut().unwrap().write_all(&line).unwrap();
    }

    fn receive(&mut self) -> SlotReply {
        // A trial may take its timeout and the grace after it.
        let line = self.replies.recv_timeout(3 * LONG).expect("a reply");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        drop(self.orders.take());
        limited::wait_or_kill(PATIENCE, &mut self.slot);
    }
}
