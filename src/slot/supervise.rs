//! Supervises the processes of a trial: waits for them, asks them to end, kills them.

use super::control::Heard;
use super::process::Process;
use super::snapshots::Snapshots;
use super::trace::Tracer;
use super::tree::{Left, News};
use super::wire::{Order, Reply};
use super::{Slot, tree};
use crate::model::{Ending, Hang, Role, Signal as Named};
use crate::sys::{process, signals};
use regex::bytes::RegexSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// No wait is longer, so that any timeout can be represented.
pub(super) const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What is allowed to the processes, and what is done about those that take longer.
pub(super) struct Terms<'a> {
    pub(super) timeout: Duration,
    /// Between the polite signal and the kill.
    pub(super) grace: Duration,
    /// A hang is looked into, and stacks go here. Of a hook nobody wants to know.
    pub(super) inquest: Option<&'a Snapshots>,
    /// The pattern that tells that a service is ready.
    pub(super) ready: Option<usize>,
}

/// How the supervision ended.
pub(super) struct How {
    /// Provoke ended the trial before its time.
    pub(super) interrupted: bool,
    /// The tree was told to end, so that what is left of it is not a leak.
    pub(super) forced: bool,
    /// What was going on at the deadline.
    pub(super) hang: Option<Hang>,
}

/// Whether what outlived the main process went away by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    Yes,
    No,
    /// It was not given the time.
    Interrupted,
}

/// What provoke wants of a trial that is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// It is to end.
    Stop {
        /// At once, without a polite signal.
        now: bool,
        /// After its stacks were taken.
        inspect: bool,
    },
    /// The load on its service is over; if true, it hangs.
    Over(bool),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    /// The polite signal was sent; the kill comes at this time.
    Asked(Instant),
    /// The kill was sent; what lives at this time is stuck in the kernel.
    Killed(Instant),
}

/// True for an end by SIGKILL, seen or reported.
pub(super) fn killed(ending: &Ending) -> bool {
    matches!(
        ending,
        Ending::Signaled(Named::KILL, _) | Ending::Exited(137 | 247)
    )
}

impl Slot {
    /// Watches over processes until all of them have ended: by themselves, at the
    /// timeout, with the main process, or by order.
    pub(super) fn supervise(
        &mut self,
        processes: &mut [Process],
        patterns: &RegexSet,
        terms: &Terms<'_>,
    ) -> How {
        let mut deadline = Instant::now() + terms.timeout;
        let has_service = processes.iter().any(|one| one.role == Role::Service);
        let mut over = false;
        let mut asked_to_stop = false;
        let mut waits_for_line = terms.ready;
        let grace = terms.grace;
        let mut how = How {
            interrupted: false,
            forced: false,
            hang: None,
        };
        let mut phase = Phase::Running;
        loop {
            let mut running = processes.iter().filter(|one| one.pid.is_some());
            let main = running.clone().any(|one| one.role == Role::Main);
            if running.next().is_none() && (over || !has_service) {
                if asked_to_stop {
                    // Its own children were told nothing: a shell dies, and they live on.
                    ask();
                }
                break;
            }
            if has_service
                && !over
                && let Some(at) = self.has_died(processes)
            {
                self.control.send(&Reply::Died(at));
                over = true;
                continue;
            }
            let now = Instant::now();
            match phase {
                Phase::Running if over || !(main || has_service) => {
                    // The work of the rest is done; that they are still here is as it should be.
                    self.witness.rest(&pids(processes));
                    for one in processes.iter_mut().filter(|one| one.pid.is_some()) {
                        one.seen.ending = Ending::Stopped;
                        one.sentenced = true;
                        one.pid
                            .into_iter()
                            .for_each(|pid| drop(signals::send(pid, Signal::TERM)));
                    }
                    phase = Phase::Asked(now + grace);
                }
                Phase::Running if now >= deadline => {
                    look_into_containers(processes);
                    let tracer = &self.tracer;
                    sentence(processes, |one| timed_out(one, tracer));
                    self.witness.rest(&pids(processes));
                    how.hang = terms
                        .inquest
                        .map(|snapshots| self.inspect(processes, patterns, snapshots));
                    ask();
                    how.forced = true;
                    phase = Phase::Asked(Instant::now() + grace);
                }
                Phase::Asked(until) if now >= until => {
                    // What a service had no time to stop is no leak.
                    how.forced |= has_service;
                    kill(processes);
                    phase = Phase::Killed(now + tree::PATIENCE);
                }
                Phase::Killed(until) if now >= until => break,
                Phase::Running | Phase::Asked(_) | Phase::Killed(_) => {}
            }
            let until = match phase {
                Phase::Running => deadline,
                Phase::Asked(until) | Phase::Killed(until) => until,
            };
            let heard = self.wait(processes, patterns, until);
            if let Some(line) = waits_for_line
                && processes.iter().any(|one| one.has_said(line))
            {
                waits_for_line = None;
                self.control.send(&Reply::Said);
            }
            if let Some(Told::Over(hung)) = heard {
                over = !hung;
                asked_to_stop = over;
                // The order may come while a hook runs, which has its own limit.
                if hung && terms.inquest.is_some() {
                    deadline = Instant::now();
                }
            }
            if let Some(Told::Stop { now, inspect }) = heard {
                self.witness.rest(&pids(processes));
                if inspect && phase == Phase::Running && !over {
                    look_into_containers(processes);
                    how.hang = terms
                        .inquest
                        .map(|snapshots| self.inspect(processes, patterns, snapshots));
                }
                if !how.interrupted {
                    sentence(processes, |_| Ending::Stopped);
                    ask();
                    phase = Phase::Asked(Instant::now() + grace);
                }
                if now && !matches!(phase, Phase::Killed(_)) {
                    kill(processes);
                    phase = Phase::Killed(Instant::now() + tree::PATIENCE);
                }
                how.interrupted = true;
                how.forced = true;
            }
        }
        how
    }

    /// Waits so long for the tree to be empty, reading what it still says.
    pub(super) fn settles(
        &mut self,
        processes: &mut [Process],
        patterns: &RegexSet,
        grace: Duration,
    ) -> Settled {
        let until = Instant::now() + grace;
        while self.anything_lives() {
            if let Some(Told::Stop { .. }) = self.wait(processes, patterns, until) {
                return Settled::Interrupted;
            }
            if Instant::now() >= until {
                return if self.anything_lives() {
                    Settled::No
                } else {
                    Settled::Yes
                };
            }
        }
        Settled::Yes
    }

    /// Lets so much time pass, unless it is told to stop; then false.
    pub(super) fn rests(&mut self, time: Duration) -> bool {
        let told = self.wait(&mut [], &RegexSet::empty(), Instant::now() + time);
        !matches!(told, Some(Told::Stop { .. }))
    }

    /// Reaps what has ended of the tree; true when something of it is left.
    pub(super) fn anything_lives(&mut self) -> bool {
        let (witness, tracer) = (&mut self.witness, &mut self.tracer);
        tree::alive(&self.given_up, |news| match news {
            News::Ended(pid, ended) => {
                tracer.ended(pid, ended.status, false, witness.is_listening());
                witness.orphan(pid, ended.status);
            }
            News::Stopped(stop) => tracer.stopped(stop),
        })
    }

    /// Returns when a service has died, or a process below it, if one has.
    fn has_died(&mut self, processes: &[Process]) -> Option<Duration> {
        let crash = self.witness.saw_a_crash(&pids(processes));
        let services = processes.iter().filter(|one| one.role == Role::Service);
        let ended = services.filter(|one| one.pid.is_none());
        let ended = ended.map(|one| self.witness.time_of(one.seen.pid));
        ended.chain(crash).min()
    }

    /// Waits until something happens, and takes it in. Returns what was ordered.
    fn wait(
        &mut self,
        processes: &mut [Process],
        patterns: &RegexSet,
        until: Instant,
    ) -> Option<Told> {
        let mut told = None;
        if self.watch(processes, patterns, until) {
            loop {
                match self.control.poll() {
                    Heard::Order(Order::Stop { now, inspect }) => {
                        let killed = matches!(told, Some(Told::Stop { now: true, .. }));
                        told = Some(Told::Stop {
                            now: now || killed,
                            inspect: inspect && !killed,
                        });
                    }
                    Heard::Order(Order::Over { hung }) => {
                        told = told.or(Some(Told::Over(hung)));
                    }
                    Heard::Order(_) => {}
                    Heard::Nothing | Heard::Closed => break,
                }
            }
        }
        // Nobody waits for the answer any more; `serve` will find the line closed too.
        if self.control.is_closed() {
            Some(Told::Stop {
                now: true,
                inspect: false,
            })
        } else {
            told
        }
    }

    /// Waits until something happens: reads what is said, reaps what has ended. True
    /// when there is something on the line from provoke.
    pub(super) fn watch(
        &mut self,
        processes: &mut [Process],
        patterns: &RegexSet,
        until: Instant,
    ) -> bool {
        let mut fds = vec![PollFd::new(&self.ends, PollFlags::IN)];
        let streams = processes
            .iter()
            .chain(&self.background)
            .flat_map(|one| [&one.out, &one.err]);
        let open = streams.filter_map(|stream| stream.fd.as_ref());
        fds.extend(open.map(|fd| PollFd::new(fd, PollFlags::IN)));
        let witness = self.witness.fd();
        fds.extend(witness.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let has_witness = witness.is_some();
        // A closed line would be ready for ever.
        if !self.control.is_closed() {
            fds.push(PollFd::from_borrowed_fd(self.control.fd(), PollFlags::IN));
        }
        let left = if self.more_news || self.control.holds_order() {
            Duration::ZERO
        } else {
            until.saturating_duration_since(Instant::now()).min(A_DAY)
        };
        let timeout = rustix::fs::Timespec::try_from(left).expect("a day is representable");
        // Interrupted or not, what is ready is found by asking.
        let _ = poll(&mut fds, Some(&timeout));
        let mut ready = fds
            .iter()
            .map(|fd| !fd.revents().is_empty())
            .collect::<Vec<_>>()
            .into_iter();
        drop(fds);

        let ended = ready.next().unwrap_or(false);
        let all = processes.iter_mut().chain(&mut self.background);
        for stream in all.flat_map(|one| [&mut one.out, &mut one.err]) {
            if stream.fd.is_some() && ready.next().unwrap_or(false) {
                stream.drain(&mut self.buffer, patterns);
            }
        }
        self.witness.note();
        if ended || self.more_news {
            self.reap(processes);
        }
        // What it says is asked for where it matters.
        has_witness.then(|| ready.next());
        ready.next().unwrap_or(false) || self.control.holds_order()
    }

    /// Reaps every child that has ended, own or adopted, and lets go who has stopped.
    fn reap(&mut self, processes: &mut [Process]) {
        // One read empties it: signals of one kind do not queue.
        let _ = rustix::io::read(self.ends.as_fd(), &mut self.buffer[..1024]);
        let (witness, tracer) = (&mut self.witness, &mut self.tracer);
        let left = tree::listen(|news| match news {
            News::Ended(pid, ended) => {
                let own = processes.iter_mut().find(|one| one.pid == Some(pid));
                tracer.ended(pid, ended.status, own.is_some(), witness.is_listening());
                match own {
                    Some(process) => process.ended(ended),
                    None => witness.orphan(pid, ended.status),
                }
            }
            News::Stopped(stop) => tracer.stopped(stop),
        });
        self.more_news = left == Left::MoreNews;
    }
}

/// Returns the numbers of the plan's own processes.
pub(super) fn pids(processes: &[Process]) -> Vec<i32> {
    let pids = processes.iter().map(|one| one.seen.pid);
    pids.filter(|pid| *pid > 0).collect()
}

/// Finds the processes of containers, so that they can be inspected.
fn look_into_containers(processes: &mut [Process]) {
    let containers = processes.iter_mut();
    for container in containers.filter_map(|one| one.container.as_mut()) {
        container.look();
    }
}

/// Decides the ending of every process that still runs.
fn sentence(processes: &mut [Process], ending: impl Fn(&Process) -> Ending) {
    for one in processes
        .iter_mut()
        .filter(|one| one.pid.is_some() && !one.sentenced)
    {
        one.seen.ending = ending(one);
        one.sentenced = true;
    }
}

fn timed_out(one: &Process, tracer: &Tracer) -> Ending {
    match one.role {
        Role::Main | Role::Service => {
            let program = match &one.container {
                Some(container) => container.program,
                None => one.pid,
            };
            let state = program.and_then(process::state);
            Ending::TimedOut {
                state: state.map_or('?', |(state, who)| tracer.state(who.pid, state)),
                killed: false,
            }
        }
        Role::Helper => Ending::Stopped,
    }
}

/// Asks the whole tree to end; a stopped process must go on to hear it.
fn ask() {
    tree::signal(Signal::TERM);
    tree::signal(Signal::CONT);
}

fn kill(processes: &mut [Process]) {
    for one in processes.iter_mut() {
        let Some(pid) = one.pid else { continue };
        if let Ending::TimedOut { killed, .. } = &mut one.seen.ending {
            *killed = true;
        }
        let _ = signals::send(pid, Signal::KILL);
    }
}
