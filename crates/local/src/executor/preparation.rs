//! Prepares a variant before its first trial: its folder, and its `setup`.

use super::super::slot_handle::SlotHandle;
use super::ExecutorContext;
use provoke_exec::{PreparationResult, StopUrgency};
use provoke_model::{FailedHook, Preparation, VariantId};
use provoke_prepare::{FolderStage, ReservedFolder};
use provoke_slot::wire::RunHook;
use provoke_sys::files;
use provoke_words::untrusted::Untrusted as _;
use std::io::Write as _;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{Mutex, watch};

/// Lines of the output of a failed build or `setup` that are shown.
const SHOWN_LINES: usize = 8;

impl ExecutorContext {
    /// Creates the folder of a variant, and runs its `setup`.
    pub(super) async fn make_variant(
        self: Arc<Self>,
        hook_slot: &Mutex<Option<SlotHandle>>,
        id: VariantId,
        halt: &mut watch::Receiver<StopUrgency>,
    ) -> PreparationResult {
        let preparation = match self.make_folder(id, halt).await {
            PreparationResult::Ready { build } => match self.set_up(hook_slot, id, halt).await {
                Ok(()) => PreparationResult::Ready { build },
                Err(reason) => PreparationResult::Failed(reason),
            },
            other => other,
        };
        match preparation {
            PreparationResult::Failed(_) | PreparationResult::Broken(_)
                if *halt.borrow() != StopUrgency::No =>
            {
                PreparationResult::Halted
            }
            made => made,
        }
    }

    /// Creates the folder of a variant, or checks that another provoke has created it.
    pub(super) async fn make_folder(
        self: &Arc<Self>,
        id: VariantId,
        halt: &mut watch::Receiver<StopUrgency>,
    ) -> PreparationResult {
        let variant = self.recipe_of(id).variant.clone();
        let Some(make) = variant.make.clone() else {
            return PreparationResult::Ready { build: None };
        };
        if !self.builds {
            let path = Path::new(make.folder.as_os_str());
            return if provoke_prepare::is_complete(path) {
                PreparationResult::Ready { build: None }
            } else {
                let reason = format!("this host does not see `{}`", path.to_safe());
                PreparationResult::Broken(reason)
            };
        }
        let artifacts = make.clone();
        let flag = Arc::new(AtomicBool::new(*halt.borrow() != StopUrgency::No));
        let flag_copy = Arc::clone(&flag);
        let mut started = pin!(self.spawn_blocking(move |shared| {
            shared.maker.begin_folder(&variant, &make, &flag_copy)
        }));
        let started = loop {
            tokio::select! {
                started = &mut started => break started,
                Ok(_) = halt.wait_for(|halt| *halt != StopUrgency::No), if !flag.load(Ordering::Relaxed) => {
                    flag.store(true, Ordering::Relaxed);
                }
            }
        };
        let reserved = match started.map(|started| started.map_err(|error| error.in_a_line())) {
            Ok(Ok(FolderStage::Made(reserved))) => reserved,
            Ok(Ok(FolderStage::Reserved(reserved))) => {
                if let Err(reason) = self.run_make_script(id, &reserved, halt).await {
                    self.maker.give_up_folder(&reserved);
                    return PreparationResult::Failed(format!("the build failed: {reason}"));
                }
                reserved
            }
            Ok(Ok(FolderStage::Halted)) => return PreparationResult::Halted,
            Ok(Err(reason)) | Err(reason) => return PreparationResult::Broken(reason),
        };
        let build_result = self
            .spawn_blocking(move |_| provoke_prepare::fingerprint_artifacts(&artifacts))
            .await;
        let build = match build_result {
            Ok(Ok(build)) => build,
            Ok(Err(error)) => {
                self.maker.give_up_folder(&reserved);
                return PreparationResult::Failed(error.in_a_line());
            }
            Err(reason) => return PreparationResult::Broken(reason),
        };
        let finished = self
            .spawn_blocking(move |shared| shared.maker.finish_folder(id, reserved))
            .await;
        match finished.map(|result| result.map_err(|error| error.in_a_line())) {
            Ok(Ok(())) => PreparationResult::Ready { build },
            Ok(Err(reason)) | Err(reason) => PreparationResult::Broken(reason),
        }
    }

    /// Runs the `setup` of a variant. Processes that it leaves running continue until the end of
    /// the run.
    async fn set_up(
        &self,
        hook_slot: &Mutex<Option<SlotHandle>>,
        id: VariantId,
        halt: &mut watch::Receiver<StopUrgency>,
    ) -> Result<(), String> {
        let recipe = self.recipe_of(id);
        let hooks = &recipe.variant.hooks;
        let Some(command) = hooks.setup.clone() else {
            return Ok(());
        };
        let hook = RunHook {
            variant: id,
            own: true,
            has_log: false,
            command,
            cwd: hooks.cwd.clone(),
        };
        let result = self.run_in_hook_slot(hook_slot, &hook, halt).await;
        if let Some(hook) = result.map_err(|error| error.to_string())? {
            let mut lines = vec![format!("`setup` failed: {}", in_a_line(&hook))];
            lines.extend(last_lines(&hook));
            return Err(lines.join("\n"));
        }
        self.set_up.lock().expect("no panic").insert(id);
        Ok(())
    }

    /// Runs the script that fills the folder of a variant.
    async fn run_make_script(
        &self,
        id: VariantId,
        reserved: &ReservedFolder,
        halt: &mut watch::Receiver<StopUrgency>,
    ) -> Result<(), String> {
        let recipe = self.recipe_of(id);
        let Some(Preparation {
            script: Some(script),
            folder,
            cwd,
            ..
        }) = &recipe.variant.make
        else {
            return Ok(());
        };
        let folder = folder.to_string().replace('\'', r"'\''");
        let hook = RunHook {
            variant: id,
            own: false,
            has_log: true,
            command: format!("PROVOKE_MADE='{folder}'; export PROVOKE_MADE\n{script}").into(),
            cwd: Some(cwd.clone()),
        };
        let mut slot = self.free_builder().await;
        let (stop, mut stopped) = watch::channel(StopUrgency::No);
        let mut late = false;
        let result = {
            let mut hooked = pin!(self.run_hook(&mut slot, &hook, &mut stopped));
            let mut limit = pin!(tokio::time::sleep(self.patience));
            loop {
                let going = *stop.borrow() == StopUrgency::No;
                tokio::select! {
                    done = &mut hooked => break done,
                    Ok(_) = halt.wait_for(|halt| *halt != StopUrgency::No), if going => {
                        stop.send_replace(StopUrgency::Now);
                    }
                    () = &mut limit, if going => {
                        late = true;
                        stop.send_replace(StopUrgency::Now);
                    }
                }
            }
        };
        match result {
            _ if late => Err(format!("it took more than {} s", self.patience.as_secs())),
            Ok(None) => Ok(()),
            Ok(Some(hook)) => {
                // The error contains the last line, even if the log cannot be written.
                let _ = files::create_private(&reserved.log_path())
                    .and_then(|mut file| file.write_all(hook.output.as_bytes()));
                let mut lines = vec![in_a_line(&hook)];
                lines.extend(last_lines(&hook));
                lines.push(format!("output: {}", reserved.log_path().to_safe()));
                Err(lines.join("\n"))
            }
            Err(error) => Err(self.reap_lost_slot(&mut slot, &error)),
        }
    }

    /// Returns a free slot for preparing variants, or waits for the first one.
    async fn free_builder(&self) -> tokio::sync::MutexGuard<'_, Option<SlotHandle>> {
        let free = self.builders.iter().find_map(|slot| slot.try_lock().ok());
        match free {
            Some(slot) => slot,
            None => self.builders[0].lock().await,
        }
    }
}

/// Returns the last lines of the output of a command; none if the output is one line.
fn last_lines(hook: &FailedHook) -> Vec<String> {
    let output = provoke_words::without_colours(hook.output.trim_end());
    let mut lines: Vec<String> = output
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.trim_end().to_owned())
        .collect();
    if lines.len() < 2 {
        return Vec::new();
    }
    lines.split_off(lines.len().saturating_sub(SHOWN_LINES))
}

/// Describes how a command failed, with the last line of its output.
fn in_a_line(hook: &FailedHook) -> String {
    let last = hook.output.trim().lines().last();
    let last = last.map_or(String::new(), |last| format!(": {last}"));
    format!("{}{last}", hook.ending)
}
