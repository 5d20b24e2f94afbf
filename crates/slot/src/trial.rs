//! Runs one trial: its folder, its hooks and its processes, until nothing of it is left.

use super::capture::OutputPatterns;
use super::command::{CommandLine, PlaceholderValues};
use super::container::ContainerStart;
use super::fake_clock::FakeClock;
use super::hooks::{HOOK_OUTPUT, HookResult, shell_actor};
use super::process::{TracedRoles, TrialContext, TrialProcess};
use super::setup::{self, TrialSetup};
use super::snapshots::SnapshotFolder;
use super::supervise::{self, GraceResult, SupervisionLimits};
use super::wire::{SlotReply, VariantRecipe};
use super::{Slot, case_report, give_to_trial, hold, process_tree};
use provoke_model::{
    ActorPlan, ActorRole, CoreSize, Ending, FailedHook, HoldPlan, KernelLine, LeakRule,
    Observation, ProcessObservation, Trial,
};
use provoke_sys::call_filter::WallClock;
use provoke_sys::cgroup::{TrialGroup, TrialLimits};
use provoke_sys::held_folder::check_place;
use provoke_sys::spawn::{MachineAccess, Spawner};
use provoke_sys::{files, host, limits};
use provoke_words::untrusted::Untrusted as _;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Checks that the paths that the processes of a trial get still lead into the directory of the run, as far as they did.
fn check_paths(recipe: &VariantRecipe, scratch: Option<&Path>) -> Result<(), String> {
    let actors = recipe.variant.actors.iter();
    let cwds = actors.map(|actor| Path::new(actor.cwd.as_os_str()));
    let result: io::Result<()> = cwds.chain(scratch).try_for_each(check_place);
    result.map_err(|error| error.to_string())
}

impl Slot {
    /// Runs a trial from its preparation until no process of it is left.
    pub(super) fn run_trial(&mut self, trial: &Trial) -> Observation {
        let span = tracing::info_span!(target: "slot", "trial", id = trial.id.0);
        let _in_trial = span.enter();
        let Some(known_recipe) = self.recipes.remove(&trial.variant) else {
            let error_text = format!("the slot knows no variant {}", trial.variant.0);
            return Observation {
                lost: Some(error_text),
                ..Observation::default()
            };
        };
        let scratch = known_recipe.0.scratch.as_ref().map(|root| {
            Path::new(root.as_os_str())
                .join(trial.id.0.to_string())
                .join("dir")
        });
        self.scratch.clone_from(&scratch);
        let numbers =
            PlaceholderValues::new(trial, &known_recipe.0.variant.name, scratch.as_deref());
        let mut observation = Observation::default();
        let numbers = match case_report::prepare_report(&known_recipe.0, trial, numbers) {
            Ok(numbers) => numbers,
            Err(error) => {
                observation.lost = Some(format!("cannot prepare the report of its tests: {error}"));
                self.recipes.insert(trial.variant, known_recipe);
                return observation;
            }
        };
        if let Err(reason) = check_paths(&known_recipe.0, scratch.as_deref())
            .and_then(|()| self.set_limits(&known_recipe.0))
        {
            observation.lost = Some(reason);
            self.recipes.insert(trial.variant, known_recipe);
            return observation;
        }
        tracing::debug!(target: "slot", "prepare");
        match self.prepare_trial(&known_recipe.0, &numbers, scratch.as_deref()) {
            HookResult::Done => self.execute_trial(
                trial,
                &known_recipe.0,
                &known_recipe.1,
                &numbers,
                &mut observation,
            ),
            HookResult::Failed(hook) => observation.prepare = Some(hook),
            HookResult::Interrupted => observation.interrupted = true,
        }
        // In any case, the next trial must start without old processes.
        if process_tree::is_anything_alive(&self.given_up, process_tree::ignore_event) {
            let unkillable = self.kill_remaining();
            tracing::debug!(target: "slot", unkillable = unkillable.len(), "killed remaining processes");
            observation.residue.unkillable.extend(unkillable);
        }
        setup::remove_copied_cwd(&known_recipe.0, trial);
        self.folders = None;
        self.allow_forks();
        self.background.clear();
        if let Some(group) = &mut self.group {
            observation.oom_kills = group.new_oom_kills();
            observation.refused_forks = group.new_refused_forks();
        }
        self.recipes.insert(trial.variant, known_recipe);
        observation
    }

    /// Limits the memory and the processes of the slot's cgroup to those of a trial. A container has its own limits.
    fn set_limits(&mut self, recipe: &VariantRecipe) -> Result<(), String> {
        let mut actors = recipe.variant.actors.iter();
        let set_limits = if actors.any(|actor| actor.container.is_some()) {
            TrialLimits::default()
        } else {
            recipe.start.total_limits
        };
        let joined_groups = match &mut self.group {
            Some(group) => group.set_limits(set_limits, recipe.default_pids),
            None if set_limits == TrialLimits::default() => Ok(Vec::new()),
            None => Err(io::ErrorKind::Unsupported.into()),
        };
        self.spawner.joined_groups = joined_groups
            .map_err(|error| format!("cannot limit its memory, processes or CPU time: {error}"))?;
        Ok(())
    }

    /// Creates the trial's folder, and runs the hook before the trial.
    fn prepare_trial(
        &mut self,
        recipe: &VariantRecipe,
        numbers: &PlaceholderValues,
        scratch: Option<&Path>,
    ) -> HookResult {
        if let Some(folder) = scratch {
            // An earlier attempt whose slot was lost may have left files there.
            let _ = files::remove_tree(folder);
            let created =
                files::create_folders(folder).and_then(|()| give_to_trial(recipe, folder));
            if let Err(error) = created {
                let reason = format!("cannot create `{}`: {error}", folder.to_safe());
                return HookResult::Failed(FailedHook {
                    ending: Ending::NotStarted(reason),
                    output: String::new(),
                });
            }
        }
        match &recipe.prepare {
            Some(hook) => {
                let has_own_hook = recipe.variant.hooks.prepare.is_some();
                self.run_hook(
                    recipe,
                    &shell_actor(recipe, hook, has_own_hook),
                    numbers,
                    HOOK_OUTPUT,
                )
            }
            None => HookResult::Done,
        }
    }

    /// Runs the processes of a trial, and the hook after it.
    fn execute_trial(
        &mut self,
        trial: &Trial,
        recipe: &VariantRecipe,
        patterns: &OutputPatterns,
        numbers: &PlaceholderValues,
        observation: &mut Observation,
    ) {
        let clock = match start_clock(recipe, numbers) {
            Ok(clock) => clock,
            Err(reason) => {
                observation.lost = Some(format!("cannot set its clock: {reason}"));
                return;
            }
        };
        let host_kills_before = host_kills_if(self.group.is_none());
        let snapshots = SnapshotFolder {
            folder: recipe
                .evidence
                .as_ref()
                .map(|root| Path::new(root.as_os_str()).join(trial.id.0.to_string())),
        };
        let ready = recipe.ready.is_some().then_some(recipe.patterns.len());
        let is_explored_only =
            |plan: &HoldPlan| trial.explores_schedule() && !plan.records_evidence();
        let stacks = !trial.hold.as_deref().is_some_and(is_explored_only);
        let terms = SupervisionLimits {
            timeout: trial.timeout,
            grace: recipe.settings.grace,
            snapshots: Some(&snapshots),
            stacks,
            ready,
            pauses: recipe.start.pauses,
        };
        self.begin_watching(trial, recipe, &snapshots, stacks, clock);
        let dumps = trial.captures_evidence() || recipe.settings.dumps_cores();
        let mut processes = self.start_processes(trial, recipe, numbers, dumps);
        tracing::debug!(target: "slot", pids = ?supervise::process_ids(&processes), "started");
        self.report_services(&processes);
        let supervision = self.supervise_processes(&mut processes, patterns, &terms);
        let pids = supervise::process_ids(&processes);
        observation.interrupted = supervision.interrupted;
        observation.hang = supervision.hang;
        let decisive = processes
            .iter()
            .filter(|process| process.role.decides_outcome());
        observation.elapsed = decisive
            .map(|process| process.observation.elapsed)
            .max()
            .unwrap_or_default();
        self.end_traced_containers(&processes);
        self.conclude_containers(trial, recipe, &mut processes, dumps);
        self.run_conclude_hook(recipe, numbers, &pids, observation);
        let wait = !supervision.forced && recipe.leaks != LeakRule::Off;
        self.end_residue(
            &mut processes,
            patterns,
            wait.then_some(recipe.settings.leak_grace),
            &snapshots,
            observation,
        );
        self.take_kernel_evidence(&mut processes, pids, observation);
        observation.cores = self.tracer.take_cores();
        let elapsed = observation.elapsed;
        tracing::debug!(target: "slot", ?elapsed, forced = supervision.forced, cores = observation.cores.len(), "ended");
        observation.holds = self.tracer.holds.take_observation();
        if let Some(complaint) = self.tracer.clock_complaint()
            && self.tracer.may_complain()
        {
            self.control.send_reply(&SlotReply::Complaint(complaint));
        }
        self.finish_outputs(&mut processes, patterns, observation);
        observation.matched.retain(|(rule, _)| Some(*rule) != ready);
        if observation
            .actors
            .iter()
            .any(|actor| supervise::was_killed(&actor.ending))
        {
            let kills = host_kills_before.zip(host_kills_if(self.group.is_none()));
            observation.oom_kills_on_host =
                kills.map(|(kills_before, after)| after.saturating_sub(kills_before));
        }
        processes.retain(|process| process.is_judged);
        self.last = processes;
    }

    /// Prepares everything that watches the processes of a trial from their start.
    fn begin_watching(
        &mut self,
        trial: &Trial,
        recipe: &VariantRecipe,
        snapshots: &SnapshotFolder,
        stacks: bool,
        clock: Option<FakeClock>,
    ) {
        let actors = &recipe.variant.actors;
        let contained = actors.iter().any(|actor| actor.container.is_some());
        // The engine reports the end of a service in a container, even if the container is a child
        // of the slot.
        let mut services = actors
            .iter()
            .filter(|actor| actor.role == ActorRole::Service);
        let alert = services.any(|actor| actor.container.is_none());
        self.crash_monitor
            .begin_trial(recipe.children, alert, contained);
        let traced = recipe.settings.traces() || (trial.hold.is_some() && stacks);
        self.tracer
            .begin_trial(traced.then(|| snapshots.clone()), clock, &recipe.start);
        self.tracer
            .holds
            .begin_trial(trial.hold.as_deref(), snapshots);
    }

    /// Reports the processes of a service to provoke, which sends the load, if all of them were started.
    fn report_services(&mut self, processes: &[TrialProcess]) {
        let services: Option<Vec<i32>> = processes
            .iter()
            .filter(|process| process.role == ActorRole::Service)
            .map(|process| process.pid)
            .collect();
        if let Some(pids) = services.filter(|pids| !pids.is_empty()) {
            self.control.send_reply(&SlotReply::Started(pids));
        }
    }

    /// Runs the hook after the processes of a trial, if there is one.
    fn run_conclude_hook(
        &mut self,
        recipe: &VariantRecipe,
        numbers: &PlaceholderValues,
        pids: &[i32],
        observation: &mut Observation,
    ) {
        let Some(hook) = &recipe.conclude else {
            return;
        };
        self.allow_forks();
        // This hook may kill processes that the hook before the trial started.
        self.crash_monitor.stop_listening(pids);
        let has_own_hook = recipe.variant.hooks.conclude.is_some();
        match self.run_hook(
            recipe,
            &shell_actor(recipe, hook, has_own_hook),
            numbers,
            HOOK_OUTPUT,
        ) {
            HookResult::Done => {}
            HookResult::Failed(hook) => observation.conclude = Some(hook),
            HookResult::Interrupted => observation.interrupted = true,
        }
    }

    /// Adds the crashes and OOM kills that the kernel recorded for the processes of a trial.
    fn take_kernel_evidence(
        &mut self,
        processes: &mut [TrialProcess],
        mut pids: Vec<i32>,
        observation: &mut Observation,
    ) {
        let containers = processes.iter_mut().filter_map(|process| {
            let container = process.observation.container.as_mut()?;
            Some((&mut process.observation.pid, container))
        });
        for (pid, container) in containers {
            self.crash_monitor.of_container(container, pid);
        }
        pids.extend(supervise::process_ids(processes));
        (observation.crashed_children, observation.kernel) = self.crash_monitor.take_crashes(&pids);
        if processes.iter().any(|process| !process.is_judged) {
            // A crashed child may belong to a copy that is not judged.
            observation.crashed_children.clear();
        }
        for process in processes {
            if let Some(container) = &mut process.observation.container {
                // Not every engine reports an OOM kill. The kernel log names the cgroup, or at
                // least the process.
                let full = |line: &KernelLine| {
                    line.text.starts_with("oom-kill:") && line.text.contains(&container.id)
                        || line.text.starts_with("Memory cgroup out of memory:")
                            && line.pid == process.observation.pid
                };
                container.oom |= observation.kernel.iter().any(full);
            }
        }
    }

    /// Reads the remaining output of the processes, and adds their final reports.
    fn finish_outputs(
        &mut self,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
        observation: &mut Observation,
    ) {
        for process in processes {
            for stream in [&mut process.stdout, &mut process.err] {
                stream.drain_available(&mut self.buffer, patterns);
                stream.close_ends();
                if process.is_judged && !patterns.is_empty() {
                    stream.scanner.finish_line(patterns);
                    observation
                        .matched
                        .extend(std::mem::take(&mut stream.scanner).found_patterns());
                }
            }
            if process.is_judged {
                observation.actors.push(process.final_report());
            }
        }
    }

    fn start_processes(
        &mut self,
        trial: &Trial,
        recipe: &VariantRecipe,
        numbers: &PlaceholderValues,
        dumps: bool,
    ) -> Vec<TrialProcess> {
        let mut processes = Vec::new();
        let mut limits = recipe.start.process_limits();
        if recipe.settings.traces() {
            limits.retain(|(resource, _)| Some(*resource) != limits::limit_number("core"));
        } else if dumps {
            limits.push(limits::core_dumps(recipe.settings.cores.limit));
            if recipe.settings.cores.size == CoreSize::Light {
                // On an error, the cores are complete instead of light.
                let _ = limits::light_core_dumps();
            }
        }
        let null_device = self.nothing.as_fd();
        let plan = trial.hold.as_deref();
        let mut traced_calls = hold::calls_of(plan);
        traced_calls.extend(self.tracer.delayed_calls());
        let sets_conditions = self.tracer.sets_conditions();
        let holding = self.tracer.holds.prepare_python(plan, recipe);
        let held_values = (!holding.is_empty()).then(|| numbers.with_holding(holding));
        let numbers = held_values.as_ref().unwrap_or(numbers);
        let setup = TrialSetup::prepare(recipe, trial);
        let mut context = TrialContext {
            recipe,
            setup: Some(&setup),
            numbers,
            limits: &limits,
            identity: recipe.start.identity.as_ref(),
            nothing: null_device,
            traced_calls: &traced_calls,
            needs_tracer: sets_conditions,
            wall_clock: if self.tracer.has_clock() {
                WallClock::OfTracer
            } else {
                WallClock::OfMachine
            },
            machine_access: MachineAccess::Restricted,
            trace: if self.tracer.holds.is_active() || sets_conditions {
                TracedRoles::All
            } else if recipe.settings.traces() {
                TracedRoles::Deciding
            } else {
                TracedRoles::None
            },
            start: None,
        };
        // Start helpers and services before the main processes.
        for role in [ActorRole::Helper, ActorRole::Service, ActorRole::Main] {
            for (index, actor) in (0..).zip(&recipe.variant.actors) {
                if role == ActorRole::Main && actor.role == role {
                    let copies = start_other_copies(&mut self.spawner, actor, &context);
                    processes.extend(copies);
                }
                for copy in (0..actor.copies).take_while(|_| actor.role == role) {
                    context.start = actor.container.is_some().then_some(ContainerStart {
                        trial: trial.id.0,
                        copy,
                        at: index,
                        limits: &recipe.start.limits,
                        cores: dumps.then_some(recipe.settings.cores.limit),
                        gate: self.tracer.holds.container_gate(index, copy),
                    });
                    let mut process = TrialProcess::start_actor(&mut self.spawner, actor, &context);
                    process.observation.actor = index;
                    process.copy = copy;
                    if role.decides_outcome() {
                        process.stdout.copy = case_report::open_copy(recipe, trial);
                    }
                    if let Some(pid) = process.pid {
                        let gate = context.start.as_ref().and_then(|start| start.gate.as_ref());
                        match gate.zip(process.container.as_mut()) {
                            Some((gate, container)) => {
                                let find_program = || {
                                    container.find_processes();
                                    container.program
                                };
                                let traced = gate.trace_program(pid, find_program);
                                self.tracer.holds.add_contained(traced);
                            }
                            None => {
                                let untraced = process.unfollowed.as_deref();
                                self.tracer.holds.add_program(pid, untraced);
                            }
                        }
                    }
                    if let Some(reason) = process.unfollowed.take()
                        && self.tracer.may_complain()
                    {
                        let text = format!("`{}` is not traced: {reason}", actor.command[0]);
                        self.control.send_reply(&SlotReply::Complaint(text));
                    }
                    processes.push(process);
                }
            }
        }
        self.folders = setup.ok().and_then(|setup| setup.folders);
        processes
    }

    /// Waits until the tree is empty or the settle time is over, and ends the remaining processes.
    fn end_residue(
        &mut self,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
        leak_grace: Option<Duration>,
        snapshots: &SnapshotFolder,
        observation: &mut Observation,
    ) {
        if !self.is_anything_left() {
            return;
        }
        if let Some(leak_grace) = leak_grace {
            let started_at = Instant::now();
            match self.settles_within(processes, patterns, leak_grace) {
                GraceResult::Yes => {
                    observation.residue.ended_in_grace = started_at.elapsed();
                    tracing::debug!(target: "slot", took = ?started_at.elapsed(), "remaining processes ended");
                }
                GraceResult::No => {
                    self.forbid_forks();
                    let (mut leaked, unlisted) = process_tree::describe_living(&self.given_up);
                    for process in &mut leaked {
                        process.state = self.tracer.own_state(process.pid, process.state);
                    }
                    tracing::debug!(target: "slot", leaked = leaked.len(), unlisted, "processes are left behind");
                    snapshots.of_leaks(&mut leaked);
                    (observation.residue.leaked, observation.residue.unlisted) = (leaked, unlisted);
                }
                // The interruption came before it was known whether the processes would end.
                GraceResult::Interrupted => observation.interrupted = true,
            }
        }
        self.crash_monitor
            .stop_listening(&supervise::process_ids(processes));
        observation.residue.unkillable = self.kill_remaining();
    }

    /// Kills and reaps processes until none is left; returns the processes that could not be killed.
    pub(super) fn kill_remaining(&mut self) -> Vec<ProcessObservation> {
        self.forbid_forks();
        let unkillable = process_tree::kill_all(&mut self.given_up);
        self.allow_forks();
        unkillable
    }

    /// Lets the trial start no more processes, and the slot run before those that it has.
    pub(super) fn forbid_forks(&mut self) {
        self.precedence.take();
        self.group.iter_mut().for_each(TrialGroup::forbid_forks);
    }

    fn allow_forks(&mut self) {
        self.group.iter_mut().for_each(TrialGroup::allow_forks);
        self.precedence.give_back();
    }

    /// Lets a trial that has exceeded its limits start no more processes, which could go on for ever.
    pub(super) fn stop_growth(&mut self) {
        if self
            .group
            .as_ref()
            .is_some_and(TrialGroup::has_exceeded_limits)
        {
            self.forbid_forks();
        }
    }
}

/// Returns the clock of a trial that starts now, if it is not that of the machine.
fn start_clock(
    recipe: &VariantRecipe,
    numbers: &PlaceholderValues,
) -> Result<Option<FakeClock>, String> {
    let Some(shift) = &recipe.start.clock else {
        return Ok(None);
    };
    let main = recipe.variant.main_actor();
    let command = main.map(|main| CommandLine::new(&recipe.environment, main, numbers));
    let mut conditions = recipe.start.variables.iter().rev();
    let time_zone = match conditions.find(|(name, _)| name == "TZ") {
        Some((_, zone)) => zone.as_deref().map(OsStr::new),
        None => command
            .as_ref()
            .and_then(|command| command.find_variable("TZ")),
    };
    let difference = shift.nanoseconds_now(time_zone)?;
    Ok(Some(FakeClock::new(difference)))
}

/// Returns the machine's count of OOM kills, which is only needed if the slot has no count of its
/// own cgroup.
fn host_kills_if(is_wanted: bool) -> Option<u64> {
    is_wanted.then(host::oom_kills).flatten()
}

/// Starts copies of a main process that are not judged.
fn start_other_copies(
    spawner: &mut Spawner,
    actor: &ActorPlan,
    context: &TrialContext<'_>,
) -> Vec<TrialProcess> {
    let helper = ActorPlan {
        role: ActorRole::Helper,
        ..actor.clone()
    };
    let copies = (0..context.recipe.start.other_copies).map(|_| {
        let mut process = TrialProcess::start_actor(spawner, &helper, context);
        process.is_judged = false;
        process
    });
    copies.collect()
}
