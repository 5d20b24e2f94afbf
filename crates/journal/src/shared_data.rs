//! The data of a run that are shared only if the user wants it.

use super::text_mask::MASK;
use provoke_model::{Event, RequestBody, RequestPlan, TrialsPlan};

/// The data of a run that are shared in addition to the reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedData {
    /// The values of all variables that are not secret.
    pub environment: bool,
    /// Core files.
    pub cores: bool,
    /// Request headers and bodies.
    pub requests: bool,
}

impl SharedData {
    /// Returns the names of the data that are not shared.
    pub fn left_out(self) -> Vec<&'static str> {
        [
            ("environment", self.environment),
            ("cores", self.cores),
            ("requests", self.requests),
        ]
        .into_iter()
        .filter(|(_, is_shared)| !is_shared)
        .map(|(name, _)| name)
        .collect()
    }

    /// Removes from an event the data that are not shared.
    pub(super) fn strip_event(self, mut event: Event) -> Event {
        if let Event::RunStarted { plan, .. } = &mut event {
            if !self.environment {
                strip_environment(&mut plan.trials);
            }
            if !self.requests
                && let Some(load) = &mut plan.trials.load
            {
                strip_query(&mut load.target.base);
                for request in &mut load.requests {
                    strip_request(request);
                }
            }
        }
        event
    }
}

fn strip_request(request: &mut RequestPlan) {
    for (_, value) in &mut request.headers {
        MASK.clone_into(value);
    }
    if let RequestBody::Text(text) = &mut request.body {
        MASK.clone_into(text);
    }
    strip_query(&mut request.path);
}

/// Masks the text after the path of a URL.
fn strip_query(url: &mut String) {
    if let Some((path, _)) = url.split_once('?') {
        *url = format!("{path}?{MASK}");
    }
}

/// Masks the values of all environment variables.
pub fn strip_environment(trials: &mut TrialsPlan) {
    for (_, value) in &mut trials.environment {
        *value = MASK.into();
    }
    let template = trials.space.iter_mut().map(|space| &mut space.template);
    let actors = trials.variants.iter_mut().chain(template);
    for (_, value) in actors
        .flat_map(|variant| &mut variant.actors)
        .flat_map(|actor| &mut actor.env)
    {
        *value = value.take().map(|_| MASK.into());
    }
}
