//! Supervises the processes of a trial: waits for them, asks them to end, kills them.

use super::capture::OutputPatterns;
use super::control::ControlInput;
use super::deadlock::{self, DeadlockSearch};
use super::pauses::Pauses;
use super::process::TrialProcess;
use super::process_tree::{ProcessEvent, TreeState};
use super::snapshots::SnapshotFolder;
use super::trace::Tracer;
use super::wire::{SlotOrder, SlotReply};
use super::{Slot, process_tree};
use provoke_model::{ActorRole, Ending, Hang, Signal as Named};
use provoke_sys::process::ProcessIdentity;
use provoke_sys::{process, signals};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// Longest wait, so that any timeout can be represented.
pub(super) const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Time limits of processes, and the actions at a timeout.
pub(super) struct SupervisionLimits<'a> {
    pub(super) timeout: Duration,
    /// Time between SIGTERM and SIGKILL.
    pub(super) grace: Duration,
    /// Folder for stacks of hung processes; `None` for hooks, which are not examined.
    pub(super) snapshots: Option<&'a SnapshotFolder>,
    /// Whether the stacks of a hung trial are recorded.
    pub(super) stacks: bool,
    /// Index of the pattern that marks a service as ready.
    pub(super) ready: Option<usize>,
    /// Length of the pauses in which no process runs.
    pub(super) pauses: Option<Duration>,
}

/// Result of the supervision.
pub(super) struct SupervisionResult {
    /// provoke ended the trial early.
    pub(super) interrupted: bool,
    /// The processes were asked to end, so that remaining processes are not leaks.
    pub(super) forced: bool,
    /// Observations at the deadline.
    pub(super) hang: Option<Hang>,
}

/// Whether the processes that outlived the main process ended by themselves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GraceResult {
    Yes,
    No,
    /// The wait was interrupted.
    Interrupted,
}

/// Order of provoke for the running trial.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TrialOrder {
    /// End the trial.
    Stop {
        /// Send SIGKILL at once.
        now: bool,
        /// Take the stacks first.
        inspect: bool,
    },
    /// The load on the service is over; true if the service hangs.
    Over(bool),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EndPhase {
    Running,
    /// SIGTERM was sent; SIGKILL follows at this time.
    Asked(Instant),
    /// SIGKILL was sent; a process that lives at this time is stuck in the kernel.
    Killed(Instant),
}

/// The state of the supervision of a trial.
struct Supervision<'a> {
    limits: &'a SupervisionLimits<'a>,
    deadline: Instant,
    phase: EndPhase,
    has_service: bool,
    /// Whether the service died, or its load is over.
    is_over: bool,
    /// Whether the service is stopped because its load is over.
    was_service_stopped: bool,
    /// Index of the pattern that marks the service as ready, until it was seen.
    waits_for_line: Option<usize>,
    search: Option<DeadlockSearch>,
    pauses: Option<Pauses>,
    result: SupervisionResult,
}

impl<'a> Supervision<'a> {
    fn begin(
        limits: &'a SupervisionLimits<'a>,
        processes: &[TrialProcess],
        holds_threads: bool,
    ) -> Self {
        let began = Instant::now();
        let mut roles = processes.iter().map(|process| process.role);
        let has_service = roles.any(|role| role == ActorRole::Service);
        let rule = if holds_threads {
            deadlock::HELD
        } else {
            deadlock::PLAIN
        };
        Self {
            limits,
            deadline: began + limits.timeout,
            phase: EndPhase::Running,
            has_service,
            is_over: false,
            was_service_stopped: false,
            waits_for_line: limits.ready,
            // Whether a service hangs is decided by its clients.
            search: (limits.snapshots.is_some() && !has_service)
                .then(|| DeadlockSearch::new(began, rule)),
            pauses: limits.pauses.map(|length| Pauses::new(length, began)),
            result: SupervisionResult {
                interrupted: false,
                // Processes that an unjudged copy leaves are not leaks of the trial.
                forced: processes.iter().any(|process| !process.is_judged),
                hang: None,
            },
        }
    }

    /// Returns whether no process is left to wait for.
    fn is_complete(&self, processes: &[TrialProcess]) -> bool {
        let is_any_running = processes.iter().any(|process| process.pid.is_some());
        !is_any_running && (self.is_over || !self.has_service)
    }

    /// Returns whether the main process runs, or the clients of a service may. A copy of the main process that is not
    /// judged may run to its end, because it could leave locks behind.
    fn has_work(&self, processes: &[TrialProcess], now: Instant) -> bool {
        let mut copies = processes.iter().filter(|process| !process.is_judged);
        self.has_service
            || is_running(processes, ActorRole::Main)
            || (now < self.deadline && copies.any(|copy| copy.pid.is_some()))
    }

    /// Begins or ends a pause if it is time. Returns whether there is a pause.
    fn is_paused(&mut self, now: Instant, given_up: &HashSet<ProcessIdentity>) -> bool {
        let Some(pauses) = &mut self.pauses else {
            return false;
        };
        self.deadline += pauses.advance(now, given_up);
        pauses.is_pause()
    }

    /// Ends the present pause, and makes no other one.
    fn end_pauses(&mut self) {
        if let Some(mut pauses) = self.pauses.take() {
            self.deadline += pauses.end_pause();
        }
    }

    /// Returns the time at which the phase or the search for deadlocks needs attention.
    fn next_moment(&self) -> Instant {
        let next_look = self.search.as_ref().map(|search| search.next_look);
        let pauses = self.pauses.as_ref();
        if let Some(pauses) = pauses.filter(|pauses| pauses.is_pause()) {
            return pauses.next;
        }
        let next_pause = pauses.map(|pauses| pauses.next);
        let next_look = next_look.into_iter().chain(next_pause).min();
        match self.phase {
            EndPhase::Running => next_look.map_or(self.deadline, |look| self.deadline.min(look)),
            EndPhase::Asked(deadline) | EndPhase::Killed(deadline) => deadline,
        }
    }

    /// Ends the load on the service, which hangs or is no longer needed.
    fn end_load(&mut self, is_hung: bool) {
        self.is_over = !is_hung;
        self.was_service_stopped = self.is_over;
        // A hook, which has its own time limit, ignores this order.
        if is_hung && self.limits.snapshots.is_some() {
            self.deadline = Instant::now();
        }
    }

    /// Asks all processes to end.
    fn ask_to_end(&mut self) {
        terminate_tree();
        self.result.forced = true;
        self.phase = EndPhase::Asked(Instant::now() + self.limits.grace);
    }

    fn kill(&mut self, processes: &mut [TrialProcess], now: Instant) {
        tracing::debug!(target: "slot", "kill the processes");
        kill_processes(processes);
        self.phase = EndPhase::Killed(now + process_tree::PATIENCE);
    }
}

/// Returns whether a process with this role runs.
fn is_running(processes: &[TrialProcess], role: ActorRole) -> bool {
    let mut running = processes.iter().filter(|process| process.pid.is_some());
    running.any(|process| process.role == role)
}

/// Returns whether a process ended with SIGKILL, by its status or by a report.
pub(super) fn was_killed(ending: &Ending) -> bool {
    matches!(
        ending,
        Ending::Signaled(Named::KILL, _) | Ending::Exited(137 | 247)
    )
}

impl Slot {
    /// Supervises processes until all have ended: by themselves, at the timeout, with the main
    /// process, or by order.
    pub(super) fn supervise_processes(
        &mut self,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
        limits: &SupervisionLimits<'_>,
    ) -> SupervisionResult {
        let mut run = Supervision::begin(limits, processes, self.tracer.holds.is_active());
        loop {
            if run.is_complete(processes) {
                if run.was_service_stopped {
                    // If only a shell received SIGTERM, its children may continue. So signal them, too.
                    terminate_tree();
                }
                break;
            }
            if run.has_service
                && !run.is_over
                && let Some(age) = self.has_died(processes)
            {
                tracing::debug!(target: "slot", ?age, "the service has died");
                self.control.send_reply(&SlotReply::ServiceCrashed(age));
                run.is_over = true;
                continue;
            }
            let now = Instant::now();
            let is_paused = run.is_paused(now, &self.given_up);
            let deadlock = if is_paused {
                None
            } else {
                self.look_for_deadlock(&mut run, processes, patterns, now)
            };
            match run.phase {
                EndPhase::Running if run.is_over || !run.has_work(processes, now) => {
                    self.end_remaining(&mut run, processes, now);
                }
                EndPhase::Running if is_paused => {}
                EndPhase::Running if now >= run.deadline || deadlock.is_some() => {
                    self.end_hung(&mut run, processes, patterns, deadlock);
                }
                EndPhase::Asked(deadline) if now >= deadline => {
                    // Processes that a service had no time to stop are not leaks.
                    run.result.forced |= run.has_service;
                    run.kill(processes, now);
                }
                EndPhase::Killed(deadline) if now >= deadline => break,
                EndPhase::Running | EndPhase::Asked(_) | EndPhase::Killed(_) => {}
            }
            // The last process may have ended while its stack was taken.
            if run.is_complete(processes) {
                continue;
            }
            let order = self.wait_for_order_until(processes, patterns, run.next_moment());
            if let Some(line) = run.waits_for_line
                && processes.iter().any(|process| process.has_said(line))
            {
                tracing::debug!(target: "slot", "the service is ready");
                run.waits_for_line = None;
                self.control.send_reply(&SlotReply::ServiceReady);
            }
            match order {
                Some(TrialOrder::Over(is_hung)) => run.end_load(is_hung),
                Some(TrialOrder::Stop { now, inspect }) => {
                    if now {
                        // A fork bomb would leave no CPU time for ending it.
                        self.forbid_forks();
                    }
                    self.stop_trial(&mut run, processes, patterns, inspect);
                    if now && !matches!(run.phase, EndPhase::Killed(_)) {
                        run.kill(processes, Instant::now());
                    }
                }
                None => {}
            }
        }
        run.end_pauses();
        run.result
    }

    /// Looks for a deadlock if it is time.
    fn look_for_deadlock(
        &mut self,
        run: &mut Supervision<'_>,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
        now: Instant,
    ) -> Option<Hang> {
        let is_main_running = is_running(processes, ActorRole::Main);
        let search = run.search.as_mut()?;
        let is_due = run.phase == EndPhase::Running
            && is_main_running
            && (search.next_look..run.deadline).contains(&now);
        is_due.then(|| self.find_deadlock(search, processes, patterns, run.limits.stacks))?
    }

    /// Asks the processes that outlived the main work to end, without counting them as failures.
    fn end_remaining(
        &mut self,
        run: &mut Supervision<'_>,
        processes: &mut [TrialProcess],
        now: Instant,
    ) {
        tracing::debug!(target: "slot", "the main work is over: ask the other processes to end");
        self.crash_monitor.stop_listening(&process_ids(processes));
        run.end_pauses();
        for process in processes {
            let Some(pid) = process.pid else {
                continue;
            };
            process.observation.ending = Ending::Stopped;
            process.has_ending = true;
            let _ = signals::send_signal(pid, Signal::TERM);
        }
        run.phase = EndPhase::Asked(now + run.limits.grace);
    }

    /// Examines a trial that reached its deadline or a deadlock, and asks its processes to end.
    fn end_hung(
        &mut self,
        run: &mut Supervision<'_>,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
        deadlock: Option<Hang>,
    ) {
        tracing::debug!(target: "slot", is_deadlock = deadlock.is_some(), "hung");
        run.end_pauses();
        self.stop_growth();
        self.tracer.holds.release_all();
        look_into_containers(processes);
        let tracer = &self.tracer;
        decide_endings(processes, |process| timed_out(process, tracer));
        self.crash_monitor.stop_listening(&process_ids(processes));
        let snapshots = run.limits.snapshots.filter(|_| run.limits.stacks);
        run.result.hang = match deadlock {
            Some(mut hang) => {
                if Instant::now() < run.deadline {
                    hang.ended_before = run.limits.timeout;
                }
                if let Some(snapshots) = snapshots {
                    self.add_stacks(&mut hang, processes, snapshots);
                }
                Some(hang)
            }
            None => snapshots.map(|snapshots| {
                let mut hang = self.inspect_hang(processes, patterns, snapshots);
                // Reaps a process that ended while the stacks were taken. An order stays in the queue.
                self.wait_for_activity(processes, patterns, Instant::now());
                // A service is expected to run on, and threads that were held continue only now.
                if !run.has_service && !self.tracer.holds.is_active() {
                    hang.ended_after = ended_after(processes, run.deadline);
                }
                hang
            }),
        };
        if let Some(hang) = run.result.hang.as_mut().filter(|_| snapshots.is_some()) {
            self.add_node_calls(hang, processes);
            self.add_goroutines(hang, processes);
        }
        run.ask_to_end();
    }

    /// Ends a trial that provoke stops early.
    fn stop_trial(
        &mut self,
        run: &mut Supervision<'_>,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
        inspects: bool,
    ) {
        tracing::debug!(target: "slot", inspects, "stop early");
        run.end_pauses();
        self.stop_growth();
        self.crash_monitor.stop_listening(&process_ids(processes));
        if inspects && run.phase == EndPhase::Running && !run.is_over {
            look_into_containers(processes);
            let snapshots = run.limits.snapshots;
            run.result.hang =
                snapshots.map(|snapshots| self.inspect_hang(processes, patterns, snapshots));
        }
        if !run.result.interrupted {
            decide_endings(processes, |_| Ending::Stopped);
            run.ask_to_end();
        }
        run.result.interrupted = true;
        run.result.forced = true;
    }

    /// Waits up to the grace period until the tree is empty, and reads output meanwhile.
    pub(super) fn settles_within(
        &mut self,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
        grace: Duration,
    ) -> GraceResult {
        let deadline = Instant::now() + grace;
        while self.is_anything_left() {
            if let Some(TrialOrder::Stop { .. }) =
                self.wait_for_order_until(processes, patterns, deadline)
            {
                return GraceResult::Interrupted;
            }
            if Instant::now() >= deadline {
                return if self.is_anything_left() {
                    GraceResult::No
                } else {
                    GraceResult::Yes
                };
            }
        }
        GraceResult::Yes
    }

    /// Reaps ended processes. Returns whether any process of the tree is left.
    pub(super) fn is_anything_left(&mut self) -> bool {
        let (crash_monitor, tracer) = (&mut self.crash_monitor, &mut self.tracer);
        process_tree::is_anything_alive(&self.given_up, |events| match events {
            ProcessEvent::Ended(pid, child_end) => {
                tracer.thread_ended(pid);
                tracer.process_ended(pid, child_end.status, false, crash_monitor.is_listening());
                crash_monitor.record_orphan(pid, child_end.status);
            }
            ProcessEvent::Stopped(stop) => tracer.handle_stop(stop),
            ProcessEvent::ThreadEnded(tid) => tracer.thread_ended(tid),
        })
    }

    /// Returns when a service, or a process below it, crashed.
    fn has_died(&mut self, processes: &[TrialProcess]) -> Option<Duration> {
        let crash = self.crash_monitor.saw_a_crash(&process_ids(processes));
        let services = processes
            .iter()
            .filter(|process| process.role == ActorRole::Service);
        let deaths = services
            .filter(|process| process.pid.is_none())
            .map(|process| self.crash_monitor.time_of(process.observation.pid));
        deaths.chain(crash).min()
    }

    /// Waits for the next events and handles them. Returns the order from provoke, if there is one.
    fn wait_for_order_until(
        &mut self,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
        deadline: Instant,
    ) -> Option<TrialOrder> {
        let mut order = None;
        if self.wait_for_activity(processes, patterns, deadline) {
            loop {
                match self.control.poll_order() {
                    ControlInput::Order(SlotOrder::Stop { now, inspect }) => {
                        let killed = matches!(order, Some(TrialOrder::Stop { now: true, .. }));
                        order = Some(TrialOrder::Stop {
                            now: now || killed,
                            inspect: inspect && !killed,
                        });
                    }
                    ControlInput::Order(SlotOrder::StopService { hung }) => {
                        order = order.or(Some(TrialOrder::Over(hung)));
                    }
                    ControlInput::Order(_) => {}
                    ControlInput::Nothing | ControlInput::Closed => break,
                }
            }
        }
        // The connection is closed, so no reply is needed; `serve` will see that, too.
        if self.control.is_closed() {
            Some(TrialOrder::Stop {
                now: true,
                inspect: false,
            })
        } else {
            order
        }
    }

    /// Waits for the next events: reads output and reaps ended processes. Returns whether there is
    /// an order from provoke.
    pub(super) fn wait_for_activity(
        &mut self,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
        deadline: Instant,
    ) -> bool {
        let mut fds = vec![PollFd::new(&self.ends, PollFlags::IN)];
        let streams = processes
            .iter()
            .chain(&self.background)
            .flat_map(|process| [&process.stdout, &process.err]);
        let open = streams.filter_map(|stream| stream.fd.as_ref());
        fds.extend(open.map(|fd| PollFd::new(fd, PollFlags::IN)));
        let crash_monitor = self.crash_monitor.readable_fd();
        fds.extend(crash_monitor.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let has_crash_monitor = crash_monitor.is_some();
        // A closed connection would always be readable.
        if !self.control.is_closed() {
            fds.push(PollFd::from_borrowed_fd(
                self.control.input_fd(),
                PollFlags::IN,
            ));
        }
        let next_look = self.tracer.holds.look().unwrap_or(A_DAY);
        let next_look = next_look.min(self.control.time_to_send().unwrap_or(A_DAY));
        let remaining = if self.more_events || self.control.holds_order() {
            Duration::ZERO
        } else {
            deadline
                .saturating_duration_since(Instant::now())
                .min(next_look)
        };
        let timeout = rustix::fs::Timespec::try_from(remaining).expect("a day is representable");
        // If `poll` is interrupted, the streams are simply not ready.
        let _ = poll(&mut fds, Some(&timeout));
        let mut ready = fds
            .iter()
            .map(|fd| !fd.revents().is_empty())
            .collect::<Vec<_>>()
            .into_iter();
        drop(fds);
        self.control.send_late_replies();

        let has_ended = ready.next().unwrap_or(false);
        let followed = processes.iter_mut().chain(&mut self.background);
        for stream in followed.flat_map(|process| [&mut process.stdout, &mut process.err]) {
            if stream.fd.is_some() && ready.next().unwrap_or(false) {
                stream.drain_available(&mut self.buffer, patterns);
            }
        }
        self.crash_monitor.note_process_containers();
        if has_ended || self.more_events {
            self.reap_ended(processes);
        }
        // The kernel's events are read where they are needed.
        has_crash_monitor.then(|| ready.next());
        ready.next().unwrap_or(false) || self.control.holds_order()
    }

    /// Reaps every ended child, including adopted ones, and continues stopped threads.
    fn reap_ended(&mut self, processes: &mut [TrialProcess]) {
        // One read empties the signalfd, because signals of one kind do not queue.
        let _ = rustix::io::read(self.ends.as_fd(), &mut self.buffer[..1024]);
        let (crash_monitor, tracer) = (&mut self.crash_monitor, &mut self.tracer);
        let tree_state = process_tree::drain_events(|events| match events {
            ProcessEvent::Ended(pid, child_end) => {
                tracer.thread_ended(pid);
                let own = processes
                    .iter_mut()
                    .find(|process| process.pid == Some(pid));
                tracer.process_ended(
                    pid,
                    child_end.status,
                    own.is_some(),
                    crash_monitor.is_listening(),
                );
                match own {
                    Some(process) => process.record_end(child_end),
                    None => crash_monitor.record_orphan(pid, child_end.status),
                }
            }
            ProcessEvent::Stopped(stop) => tracer.handle_stop(stop),
            ProcessEvent::ThreadEnded(tid) => tracer.thread_ended(tid),
        });
        self.more_events = tree_state == TreeState::MoreEvents;
    }
}

/// Returns the pids of the plan's own processes.
pub(super) fn process_ids(processes: &[TrialProcess]) -> Vec<i32> {
    let pids = processes.iter().map(|process| process.observation.pid);
    pids.filter(|pid| *pid > 0).collect()
}

/// Queries the pids of processes in containers, so that they can be inspected.
fn look_into_containers(processes: &mut [TrialProcess]) {
    let containers = processes.iter_mut();
    for container in containers.filter_map(|process| process.container.as_mut()) {
        container.find_processes();
    }
}

/// Sets the ending of every process that still runs.
fn decide_endings(processes: &mut [TrialProcess], ending: impl Fn(&TrialProcess) -> Ending) {
    for process in processes
        .iter_mut()
        .filter(|process| process.pid.is_some() && !process.has_ending)
    {
        process.observation.ending = ending(process);
        process.has_ending = true;
    }
}

/// Returns how long after the deadline the last process exited that had not ended by then; zero if one of them still runs
/// or died of a signal.
fn ended_after(processes: &[TrialProcess], deadline: Instant) -> Duration {
    let late = processes
        .iter()
        .filter(|process| matches!(process.observation.ending, Ending::TimedOut { .. }));
    let times: Option<Vec<Instant>> = late.map(|process| process.exited_late).collect();
    let last = times.and_then(|times| times.into_iter().max());
    last.map_or(Duration::ZERO, |last| {
        let time = last.saturating_duration_since(deadline);
        time.max(Duration::from_micros(1))
    })
}

fn timed_out(process: &TrialProcess, tracer: &Tracer) -> Ending {
    match process.role {
        ActorRole::Main | ActorRole::Service => {
            let program = match &process.container {
                Some(container) => container.program,
                None => process.pid,
            };
            let state = program.and_then(process::process_state);
            Ending::TimedOut {
                state: state.map_or('?', |(state, identity)| {
                    tracer.own_state(identity.pid, state)
                }),
                killed: false,
            }
        }
        ActorRole::Helper => Ending::Stopped,
    }
}

/// Sends SIGTERM to the whole tree, and SIGCONT, because a stopped process does not handle signals.
fn terminate_tree() {
    process_tree::signal_all(Signal::TERM);
    process_tree::signal_all(Signal::CONT);
}

fn kill_processes(processes: &mut [TrialProcess]) {
    for process in processes.iter_mut() {
        let Some(pid) = process.pid else { continue };
        if let Ending::TimedOut { killed, .. } = &mut process.observation.ending {
            *killed = true;
        }
        let _ = signals::send_signal(pid, Signal::KILL);
    }
}
