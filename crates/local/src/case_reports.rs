//! Reads the report of a test runner about the cases of a trial.

use provoke_model::CASES_FOLDER;
use provoke_model::{
    CaseName, CaseOrder, CasesPlan, Observation, Text, Trial, TrialsPlan, VariantPlan,
};
use provoke_runners as runners;
use provoke_runners::{CaseSetup, EarlierReports, TrialReport};
use provoke_slot::wire::{CaseRecipe, VariantRecipe};
use provoke_sys::files;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The reports of the trials of a run.
pub(super) struct CaseReports {
    plan: CasesPlan,
    /// Folder with a folder for each trial.
    trials: PathBuf,
    environment: Vec<(Text, Text)>,
    keeps_all: bool,
}

impl CaseReports {
    /// Writes the file that all trials share.
    pub(super) fn prepare(cases: &CasesPlan, plan: &TrialsPlan, trials: &Path) -> io::Result<Self> {
        CaseSetup::write_shared_file(cases, trials)?;
        Ok(Self {
            plan: cases.clone(),
            trials: trials.to_owned(),
            environment: plan.environment.clone(),
            keeps_all: plan.settings.keep == provoke_model::KeepRule::All,
        })
    }

    /// Removes this file.
    pub(super) fn remove_shared_file(&self) {
        CaseSetup::remove_shared_file(&self.plan, &self.trials);
    }

    /// Adds what the runner needs to report its cases. A command without the runner reports nothing, which is said with
    /// its trials.
    pub(super) fn adapt_recipe(&self, recipe: &mut VariantRecipe) {
        let mut variant = recipe.variant.clone();
        let order = self.order_of(recipe);
        let (plan, environment) = (&self.plan, &self.environment);
        let adapted = CaseSetup::adapt_variant(
            plan,
            order.as_ref(),
            &mut variant,
            environment,
            &self.trials,
        );
        if adapted.is_ok() {
            recipe.variant = variant;
        }
        self.set_up_report(recipe);
    }

    /// Returns the order of the cases, if the runner does not choose it: that of a condition, or a random one.
    fn order_of(&self, recipe: &VariantRecipe) -> Option<CaseOrder> {
        let of_condition = recipe.start.case_order.clone();
        of_condition.or_else(|| self.plan.order())
    }

    fn set_up_report(&self, recipe: &mut VariantRecipe) {
        let order = self.order_of(recipe);
        let setup = CaseSetup::take_from(&self.plan, order.as_ref(), &mut recipe.variant);
        recipe.cases = Some(CaseRecipe {
            trials: self.trials.as_os_str().into(),
            variables: setup.variables,
            files: setup.files,
            stdout: setup.spools_stdout.then(|| runners::STDOUT.to_owned()),
        });
    }

    /// Returns the recipe of a trial that runs one case alone.
    pub(super) fn isolated_recipe(
        &self,
        recipe: &VariantRecipe,
        case: &CaseName,
    ) -> io::Result<VariantRecipe> {
        let mut recipe = recipe.clone();
        runners::select_case(&self.plan, &mut recipe.variant, case).map_err(io::Error::other)?;
        self.set_up_report(&mut recipe);
        Ok(recipe)
    }

    /// Returns the reports that exist before a trial, and how long to wait before it starts.
    pub(super) fn earlier_reports(
        &self,
        trial: &Trial,
        variant: &VariantPlan,
    ) -> (EarlierReports, Duration) {
        let pattern = self.report_pattern(trial, variant);
        pattern.map_or_else(Default::default, |pattern| EarlierReports::find(&pattern))
    }

    /// Returns the pattern of paths that the user gave, with the values of the trial.
    fn report_pattern(&self, trial: &Trial, variant: &VariantPlan) -> Option<PathBuf> {
        let cwd = variant.main_actor().map(|main| main.cwd.as_os_str());
        let scratch = self.trials.join(trial.id.0.to_string()).join("dir");
        let pattern = self.fill_pattern(trial, &variant.name, &scratch)?;
        Some(Path::new(cwd.unwrap_or_default()).join(pattern))
    }

    /// Adds the cases of a trial to its observation. The files of a trial that passed are removed.
    pub(super) fn read_cases(
        &self,
        trial: &Trial,
        recipe: &VariantRecipe,
        earlier: EarlierReports,
        observation: &mut Observation,
    ) {
        let trial_folder = self.trials.join(trial.id.0.to_string());
        let folder = trial_folder.join(CASES_FOLDER);
        let report = TrialReport {
            folder: &folder,
            pattern: self.report_pattern(trial, &recipe.variant),
            earlier,
        };
        let cases = runners::read_cases(&self.plan, &report, observation);
        let has_failure = cases.results.iter().any(|result| !result.end.is_pass());
        if observation.is_plain() && !has_failure && !self.keeps_all {
            let _ = files::remove_tree(&folder);
            // The folder may contain other evidence.
            let _ = files::remove_empty_folder(&trial_folder);
        }
        observation.cases = Some(Box::new(cases));
    }

    /// Returns the path that the user gave, with the values of the trial.
    fn fill_pattern(&self, trial: &Trial, variant: &str, scratch: &Path) -> Option<PathBuf> {
        let pattern = self.plan.runner.report_path()?;
        let values = [
            ("{trial}", Text::from(trial.id.0.to_string())),
            ("{slot}", Text::from(trial.slot.0.to_string())),
            ("{seed}", Text::from(trial.seed.to_string())),
            ("{variant}", Text::from(variant)),
            ("{dir}", scratch.into()),
        ];
        let marks = values
            .each_ref()
            .map(|(mark, value)| (*mark, value.as_os_str()));
        let filled = Text::from(pattern).fill_marks(&marks);
        Some(PathBuf::from(filled.as_os_str()))
    }
}
