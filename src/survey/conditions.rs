//! Records the conditions under which the trials of a plan run.

use super::{Around, influence, mains_of};
use crate::model::{
    Capture, ConditionDifference, Conditions, Host, Pace, Plan, Timeout, VariantId,
};

/// Returns the conditions of a variant's trials on a machine: settings around the command that can
/// change its failure rate.
pub fn conditions(plan: &Plan, variant: VariantId, host: &Host) -> Conditions {
    let mut all = Conditions::default();
    all.set("jobs", plan.jobs.to_string());
    all.set("waves", if plan.waves { "yes" } else { "no" });
    all.set("load", load(plan));
    let traced = plan.capture == Capture::Trace;
    all.set("tracer", if traced { "attached" } else { "none" });
    // Core dumps do not affect a confirmation, which ends at its first crash.
    let timeout = match plan.timeout {
        Timeout::After(time) => format!("{} s", time.as_secs_f64()),
        Timeout::Auto => "auto".to_owned(),
    };
    all.set("timeout", timeout);
    let delay = (!plan.delay.is_zero()).then(|| format!("{} s", plan.delay.as_secs_f64()));
    all.set("delay", or_none(delay));
    let mut limits: Vec<String> = plan
        .limits
        .iter()
        .map(|limit| match limit.value {
            Some(value) => format!("{}={value}", limit.resource),
            None => format!("{}=unlimited", limit.resource),
        })
        .collect();
    limits.sort();
    all.set("limits", or_none(joined(&limits)));
    let memory = plan.memory.map(|bytes| format!("{bytes} bytes"));
    all.set("memory", or_none(memory));
    all.set(
        "user",
        plan.user.as_deref().unwrap_or("the same as provoke"),
    );
    if let Some(variant) = plan.variants.get(variant.index()) {
        let copies = variant.actors.iter().map(|actor| actor.copies.to_string());
        all.set("copies", copies.collect::<Vec<_>>().join("+"));
        if let Some((_, main)) = mains_of(variant).next() {
            let wrap = main.command.iter().take(plan.wrapped as usize);
            let wrap: Vec<String> = wrap.map(ToString::to_string).collect();
            let wrap = (!wrap.is_empty()).then(|| format!("`{}`", wrap.join(" ")));
            all.set("wrap", or_none(wrap));
            let container = main.container.as_ref();
            let engine = container.map(|one| one.engine.clone());
            all.set("container.engine", or_none(engine));
            let network = container.map(|one| one.network.clone());
            all.set("container.network", or_none(network));
            let options = container.map_or(&[][..], |one| &one.options);
            let options: Vec<String> = options.iter().map(ToString::to_string).collect();
            all.set("container.options", or_none(joined(&options)));
            if container.is_none() {
                for (name, value) in Around::of(plan, main).env {
                    let name = name.to_string_lossy();
                    if influence(&name).is_some() {
                        all.set_variable(&name, value.to_string_lossy().into_owned());
                    }
                }
            }
        }
    }
    for (name, value) in [
        ("cpu.model", format!("{} {}", host.arch, host.cpu)),
        ("cpu.count", host.cpus.to_string()),
        ("kernel", host.kernel.clone()),
        ("machine", host.name.clone()),
    ] {
        all.set(name, value.trim());
    }
    all
}

/// Returns the conditions that differ between the trials of a plan and a baseline. Conditions in
/// which the plan's variants differ are left out, because they are varied on purpose.
pub fn differing_conditions(
    plan: &Plan,
    host: &Host,
    baseline: &Conditions,
) -> Vec<ConditionDifference> {
    let ids = (0..).map(VariantId).take(plan.variants.len());
    let each = ids.map(|id| conditions(plan, id, host).differences(baseline));
    let common = each.reduce(|mut common, other| {
        common.retain(|one| other.contains(one));
        common
    });
    common.unwrap_or_default()
}

fn load(plan: &Plan) -> String {
    match plan.load.as_ref().map(|load| load.pace) {
        None => "none".to_owned(),
        Some(Pace::Closed { clients }) => format!("{clients} clients"),
        Some(Pace::Open { millihertz, .. }) => {
            format!("{}.{:03} requests/s", millihertz / 1000, millihertz % 1000)
        }
    }
}

fn joined(parts: &[String]) -> Option<String> {
    (!parts.is_empty()).then(|| parts.join(","))
}

fn or_none(value: Option<String>) -> String {
    let value = value.filter(|value| !value.is_empty());
    value.unwrap_or_else(|| "none".to_owned())
}
