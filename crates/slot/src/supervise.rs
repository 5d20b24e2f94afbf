//! Supervises the processes of a trial: waits for them, asks them to end, kills them.

use super::capture::OutputPatterns;
use super::control::ControlInput;
use super::deadlock::{self, DeadlockSearch};
use super::process::TrialProcess;
use super::process_tree::{ProcessEvent, TreeState};
use super::snapshots::SnapshotFolder;
use super::trace::Tracer;
use super::wire::{SlotOrder, SlotReply};
use super::{Slot, process_tree};
use provoke_model::{ActorRole, Ending, Hang, Signal as Named};
use provoke_sys::{process, signals};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
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
    pub(super) inquest: Option<&'a SnapshotFolder>,
    /// Whether the stacks of a hung trial are recorded.
    pub(super) stacks: bool,
    /// Index of the pattern that marks a service as ready.
    pub(super) ready: Option<usize>,
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
pub(super) enum SettleResult {
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
        terms: &SupervisionLimits<'_>,
    ) -> SupervisionResult {
        let began = Instant::now();
        let mut deadline = began + terms.timeout;
        let has_service = processes
            .iter()
            .any(|process| process.role == ActorRole::Service);
        let mut is_over = false;
        let mut asked_to_stop = false;
        let mut waits_for_line = terms.ready;
        let grace = terms.grace;
        let mut supervision = SupervisionResult {
            interrupted: false,
            forced: false,
            hang: None,
        };
        let mut phase = EndPhase::Running;
        // Whether a service hangs is decided by its clients.
        let mut search = (terms.inquest.is_some() && !has_service).then(|| {
            let rule = if self.tracer.holds.is_active() {
                deadlock::HELD
            } else {
                deadlock::PLAIN
            };
            DeadlockSearch::new(began, rule)
        });
        loop {
            let mut running = processes.iter().filter(|process| process.pid.is_some());
            let main = running
                .clone()
                .any(|process| process.role == ActorRole::Main);
            if running.next().is_none() && (is_over || !has_service) {
                if asked_to_stop {
                    // If only a shell received SIGTERM, its children may continue. So signal them,
                    // too.
                    terminate_tree();
                }
                break;
            }
            if has_service
                && !is_over
                && let Some(age) = self.has_died(processes)
            {
                self.control.send_reply(&SlotReply::Died(age));
                is_over = true;
                continue;
            }
            let now = Instant::now();
            let deadlock = match &mut search {
                Some(search)
                    if phase == EndPhase::Running
                        && main
                        && (search.next_look..deadline).contains(&now) =>
                {
                    self.find_deadlock(search, processes, patterns, terms.stacks)
                }
                _ => None,
            };
            match phase {
                EndPhase::Running if is_over || !(main || has_service) => {
                    // The main work is done, so processes that still run are ended without counting
                    // as failures.
                    self.witness.stop_listening(&process_ids(processes));
                    for process in processes.iter_mut().filter(|process| process.pid.is_some()) {
                        process.observation.ending = Ending::Stopped;
                        process.sentenced = true;
                        process
                            .pid
                            .into_iter()
                            .for_each(|pid| drop(signals::send_signal(pid, Signal::TERM)));
                    }
                    phase = EndPhase::Asked(now + grace);
                }
                EndPhase::Running if now >= deadline || deadlock.is_some() => {
                    self.stop_growth();
                    self.tracer.holds.release_all();
                    look_into_containers(processes);
                    let tracer = &self.tracer;
                    decide_endings(processes, |process| timed_out(process, tracer));
                    self.witness.stop_listening(&process_ids(processes));
                    let inquest = if terms.stacks { terms.inquest } else { None };
                    supervision.hang = match deadlock {
                        Some(mut hang) => {
                            if Instant::now() < deadline {
                                hang.ended_before = terms.timeout;
                            }
                            if let Some(snapshots) = inquest {
                                self.add_stacks(&mut hang, processes, snapshots);
                            }
                            Some(hang)
                        }
                        None => inquest
                            .map(|snapshots| self.inspect_hang(processes, patterns, snapshots)),
                    };
                    terminate_tree();
                    supervision.forced = true;
                    phase = EndPhase::Asked(Instant::now() + grace);
                }
                EndPhase::Asked(deadline) if now >= deadline => {
                    // Processes that a service had no time to stop are not leaks.
                    supervision.forced |= has_service;
                    kill_processes(processes);
                    phase = EndPhase::Killed(now + process_tree::PATIENCE);
                }
                EndPhase::Killed(deadline) if now >= deadline => break,
                EndPhase::Running | EndPhase::Asked(_) | EndPhase::Killed(_) => {}
            }
            let until = match phase {
                EndPhase::Running => search
                    .as_ref()
                    .map_or(deadline, |search| deadline.min(search.next_look)),
                EndPhase::Asked(deadline) | EndPhase::Killed(deadline) => deadline,
            };
            let heard = self.wait_for_order_until(processes, patterns, until);
            if let Some(line) = waits_for_line
                && processes.iter().any(|process| process.has_said(line))
            {
                waits_for_line = None;
                self.control.send_reply(&SlotReply::Said);
            }
            if let Some(TrialOrder::Over(hung)) = heard {
                is_over = !hung;
                asked_to_stop = is_over;
                // A hook, which has its own time limit, ignores this order.
                if hung && terms.inquest.is_some() {
                    deadline = Instant::now();
                }
            }
            if let Some(TrialOrder::Stop { now, inspect }) = heard {
                self.witness.stop_listening(&process_ids(processes));
                if inspect && phase == EndPhase::Running && !is_over {
                    look_into_containers(processes);
                    supervision.hang = terms
                        .inquest
                        .map(|snapshots| self.inspect_hang(processes, patterns, snapshots));
                }
                if !supervision.interrupted {
                    decide_endings(processes, |_| Ending::Stopped);
                    terminate_tree();
                    phase = EndPhase::Asked(Instant::now() + grace);
                }
                if now && !matches!(phase, EndPhase::Killed(_)) {
                    kill_processes(processes);
                    phase = EndPhase::Killed(Instant::now() + process_tree::PATIENCE);
                }
                supervision.interrupted = true;
                supervision.forced = true;
            }
        }
        supervision
    }

    /// Waits up to the grace period until the tree is empty, and reads output meanwhile.
    pub(super) fn settles_within(
        &mut self,
        processes: &mut [TrialProcess],
        patterns: &OutputPatterns,
        grace: Duration,
    ) -> SettleResult {
        let deadline = Instant::now() + grace;
        while self.anything_lives() {
            if let Some(TrialOrder::Stop { .. }) =
                self.wait_for_order_until(processes, patterns, deadline)
            {
                return SettleResult::Interrupted;
            }
            if Instant::now() >= deadline {
                return if self.anything_lives() {
                    SettleResult::No
                } else {
                    SettleResult::Yes
                };
            }
        }
        SettleResult::Yes
    }

    /// Waits for this time. Returns false if an order to stop arrives.
    pub(super) fn rest_unless_stopped(&mut self, time: Duration) -> bool {
        let order =
            self.wait_for_order_until(&mut [], &OutputPatterns::default(), Instant::now() + time);
        !matches!(order, Some(TrialOrder::Stop { .. }))
    }

    /// Reaps ended processes. Returns whether any process of the tree is left.
    pub(super) fn anything_lives(&mut self) -> bool {
        let (witness, tracer) = (&mut self.witness, &mut self.tracer);
        process_tree::is_anything_alive(&self.given_up, |news| match news {
            ProcessEvent::Ended(pid, child_end) => {
                tracer.holds.thread_ended(pid);
                tracer.process_ended(pid, child_end.status, false, witness.is_listening());
                witness.record_orphan(pid, child_end.status);
            }
            ProcessEvent::Stopped(stop) => tracer.handle_stop(stop),
            ProcessEvent::ThreadEnded(tid) => tracer.holds.thread_ended(tid),
        })
    }

    /// Returns when a service, or a process below it, crashed.
    fn has_died(&mut self, processes: &[TrialProcess]) -> Option<Duration> {
        let crash = self.witness.saw_a_crash(&process_ids(processes));
        let services = processes
            .iter()
            .filter(|process| process.role == ActorRole::Service);
        let deaths = services
            .filter(|process| process.pid.is_none())
            .map(|process| self.witness.time_of(process.observation.pid));
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
                    ControlInput::Order(SlotOrder::Over { hung }) => {
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
        let witness = self.witness.readable_fd();
        fds.extend(witness.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let has_witness = witness.is_some();
        // A closed connection would always be readable.
        if !self.control.is_closed() {
            fds.push(PollFd::from_borrowed_fd(
                self.control.input_fd(),
                PollFlags::IN,
            ));
        }
        let next_look = self.tracer.holds.look().unwrap_or(A_DAY);
        let next_look = next_look.min(self.control.time_to_send().unwrap_or(A_DAY));
        let remaining = if self.more_news || self.control.holds_order() {
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
        self.witness.note_homes();
        if has_ended || self.more_news {
            self.reap_ended(processes);
        }
        // The kernel's events are read where they are needed.
        has_witness.then(|| ready.next());
        ready.next().unwrap_or(false) || self.control.holds_order()
    }

    /// Reaps every ended child, including adopted ones, and continues stopped threads.
    fn reap_ended(&mut self, processes: &mut [TrialProcess]) {
        // One read empties the signalfd, because signals of one kind do not queue.
        let _ = rustix::io::read(self.ends.as_fd(), &mut self.buffer[..1024]);
        let (witness, tracer) = (&mut self.witness, &mut self.tracer);
        let tree_state = process_tree::drain_events(|news| match news {
            ProcessEvent::Ended(pid, child_end) => {
                tracer.holds.thread_ended(pid);
                let own = processes
                    .iter_mut()
                    .find(|process| process.pid == Some(pid));
                tracer.process_ended(pid, child_end.status, own.is_some(), witness.is_listening());
                match own {
                    Some(process) => process.record_end(child_end),
                    None => witness.record_orphan(pid, child_end.status),
                }
            }
            ProcessEvent::Stopped(stop) => tracer.handle_stop(stop),
            ProcessEvent::ThreadEnded(tid) => tracer.holds.thread_ended(tid),
        });
        self.more_news = tree_state == TreeState::MoreNews;
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
        .filter(|process| process.pid.is_some() && !process.sentenced)
    {
        process.observation.ending = ending(process);
        process.sentenced = true;
    }
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
