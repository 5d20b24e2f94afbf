//! Plans the hooks of all variants and of each variant.

use super::matrix::MatrixSubstitution;
use super::{Scenario, Variant};
use provoke_model::{Hooks, Text};

impl Scenario {
    /// Returns the hooks for all variants, except hooks that differ between variants.
    pub(super) fn common_hooks(&self) -> Hooks {
        let alike = |hook: &&String| !self.mentions_variable(hook);
        let once = |hook: &Option<String>| hook.as_ref().filter(alike).map(Text::from);
        let single = |hook: &Option<String>| {
            if self.program.matrix.0.is_empty() {
                hook.as_ref().map(Text::from)
            } else {
                None
            }
        };
        Hooks {
            setup: once(&self.program.setup),
            prepare: single(&self.program.prepare),
            conclude: single(&self.program.conclude),
            cleanup: once(&self.program.cleanup),
            cwd: None,
        }
    }

    /// Returns the hooks of the trials of a variant.
    pub(super) fn own_hooks(&self, variant: &Variant, filling: &MatrixSubstitution<'_>) -> Hooks {
        let text = |hook: &String| filling.fill_text(hook);
        let differs = |hook: &&String| self.mentions_variable(hook);
        let varies = |_: &&String| self.fills_variants();
        let wrap = |own: &Option<String>, general: &Option<String>| {
            let general = general.as_ref().filter(varies);
            own.as_ref().or(general).map(text)
        };
        let setup = match (self.program.setup.as_ref().filter(differs), &variant.setup) {
            // Like two separate commands, so that neither ends the shell of the other.
            (Some(general), Some(own)) => Some(format!("(\n{general}\n) && (\n{own}\n)")),
            (general, own) => general.or(own.as_ref()).cloned(),
        };
        let cleanup = match (
            &variant.cleanup,
            self.program.cleanup.as_ref().filter(differs),
        ) {
            (Some(own), Some(general)) => Some(format!(
                "(\n{own}\n)\nfirst=$?\n(\n{general}\n) && exit $first"
            )),
            (own, general) => own.as_ref().or(general).cloned(),
        };
        Hooks {
            setup: setup.as_ref().map(text),
            prepare: wrap(&variant.prepare, &self.program.prepare),
            conclude: wrap(&variant.conclude, &self.program.conclude),
            cleanup: cleanup.as_ref().map(text),
            cwd: None,
        }
    }
}
