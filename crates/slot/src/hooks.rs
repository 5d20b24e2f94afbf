//! Runs the hooks of a trial and of the whole run.

use super::Slot;
use super::capture::OutputPatterns;
use super::command::PlaceholderValues;
use super::process::{TracedRoles, TrialContext, TrialProcess};
use super::supervise::SupervisionLimits;
use super::wire::{RunHook, VariantRecipe};
use provoke_model::{ActorPlan, ActorRole, Ending, FailedHook, Text};
use provoke_sys::call_filter::WallClock;
use provoke_sys::spawn::MachineAccess;
use std::os::fd::AsFd as _;
use std::time::Duration;

/// Time limit of a hook, after which it is killed and has failed.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes of a failed hook's output that are reported; the journal contains them.
pub(super) const HOOK_OUTPUT: usize = 4 * 1024;
/// Bytes of each stream of a failed build that are reported.
const BUILD_OUTPUT: usize = 256 * 1024;

/// Result of a hook.
pub(super) enum HookResult {
    Done,
    Failed(FailedHook),
    /// provoke asked to end the trial.
    Interrupted,
}

impl Slot {
    /// Runs a hook with `sh -c`. The processes that it leaves running continue, and their output is
    /// read.
    pub(super) fn run_hook(
        &mut self,
        recipe: &VariantRecipe,
        actor: &ActorPlan,
        numbers: &PlaceholderValues,
        output_bytes: usize,
    ) -> HookResult {
        let limits = recipe.start.process_limits();
        let null_device = self.nothing.as_fd();
        let context = TrialContext {
            recipe,
            numbers,
            limits: &limits,
            setup: None,
            identity: None,
            nothing: null_device,
            trace: TracedRoles::None,
            traced_calls: &[],
            needs_tracer: false,
            wall_clock: WallClock::OfMachine,
            machine_access: MachineAccess::Inherited,
            start: None,
        };
        let process = TrialProcess::start_actor(&mut self.spawner, actor, &context);
        let mut processes = [process];
        let terms = SupervisionLimits {
            timeout: HOOK_TIMEOUT,
            grace: recipe.settings.grace,
            snapshots: None,
            stacks: false,
            ready: None,
            pauses: None,
        };
        let supervision =
            self.supervise_processes(&mut processes, &OutputPatterns::default(), &terms);
        let [mut process] = processes;
        for stream in [&mut process.stdout, &mut process.err] {
            stream.drain_available(&mut self.buffer, &OutputPatterns::default());
        }
        let ending = process.final_report().ending;
        if supervision.interrupted {
            return HookResult::Interrupted;
        }
        if ending != Ending::Exited(0) {
            let ends = [&process.stdout, &process.err]
                .map(|stream| stream.capture.end_of_stream(output_bytes));
            return HookResult::Failed(FailedHook {
                ending,
                output: ends.concat(),
            });
        }
        self.background.push(process);
        HookResult::Done
    }

    /// Runs a hook of the whole run.
    pub(super) fn run_setup(&mut self, hook: &RunHook) -> Option<FailedHook> {
        let known_recipe = self.recipes.remove(&hook.variant)?;
        let mut actor = shell_actor(&known_recipe.0, &hook.command, hook.own);
        if let Some(cwd) = &hook.cwd {
            actor.cwd.clone_from(cwd);
        }
        let numbers = if hook.own {
            PlaceholderValues::of_variant(&known_recipe.0.variant.name)
        } else {
            PlaceholderValues::default()
        };
        let output_bytes = if hook.has_log {
            BUILD_OUTPUT
        } else {
            HOOK_OUTPUT
        };
        let hooked = self.run_hook(&known_recipe.0, &actor, &numbers, output_bytes);
        self.recipes.insert(hook.variant, known_recipe);
        match hooked {
            HookResult::Done => None,
            HookResult::Failed(hook) => Some(hook),
            HookResult::Interrupted => Some(FailedHook {
                ending: Ending::Stopped,
                output: String::new(),
            }),
        }
    }
}

/// Returns a command for `sh -c` as an actor. A hook of a variant runs in the working directory of
/// its main process, with the same variables.
pub(super) fn shell_actor(recipe: &VariantRecipe, command: &Text, has_own_hook: bool) -> ActorPlan {
    let mut actors = recipe.variant.actors.iter();
    let actor_template = if has_own_hook {
        actors.find(|actor| actor.role.decides_outcome())
    } else {
        actors.next()
    };
    ActorPlan {
        name: String::new(),
        role: ActorRole::Main,
        command: vec!["sh".into(), "-c".into(), command.clone()],
        copies: 1,
        env: match actor_template {
            Some(actor) if has_own_hook => actor.env.clone(),
            _ => Vec::new(),
        },
        cwd: actor_template.map_or_else(|| ".".into(), |actor| actor.cwd.clone()),
        stdin: None,
        container: None,
    }
}
