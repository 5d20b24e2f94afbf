//! Records the conditions under which the trials of a plan run.

use super::{influential_variables::variable_effect, mains_of};
use provoke_autopsy::CommandEnvironment;
use provoke_levers::{LEVERS, fact_title};
use provoke_model::{
    ConditionDifference, Conditions, Host, LoadPlan, RequestPace, Timeout, TrialsPlan, VariantId,
};
use provoke_words as words;

/// Returns the conditions of a variant's trials on a machine: settings around the command that can
/// change its failure rate.
pub fn variant_conditions(plan: &TrialsPlan, variant: VariantId, host: &Host) -> Conditions {
    let mut conditions = Conditions::default();
    conditions.set_fact("jobs", plan.slots_per_host().to_string());
    let hosts = plan.hosts.as_ref().map(|hosts| hosts.request.to_string());
    conditions.set_fact("hosts", or_none(hosts));
    conditions.set_fact("waves", if plan.waves { "yes" } else { "no" });
    let variant = plan.variants.get(variant.index());
    let load = variant.and_then(|variant| plan.load_of(variant));
    conditions.set_fact(
        "load",
        load.as_ref()
            .map_or_else(|| "none".to_owned(), describe_load),
    );
    let held_plan = plan.held.as_ref();
    conditions.set_fact("held", or_none(held_plan.map(|held| held.run.clone())));
    let traced = plan.settings.traces();
    conditions.set_fact("tracer", if traced { "attached" } else { "none" });
    // Core dumps do not affect a confirmation, which ends at its first crash.
    let timeout = match plan.settings.timeout {
        Timeout::After(time) => format!("{} s", time.as_secs_f64()),
        Timeout::Auto => "auto".to_owned(),
    };
    conditions.set_fact("timeout", timeout);
    let cases = plan.cases.as_ref();
    let order = cases.map(|cases| if cases.shuffle { "random" } else { "fixed" });
    conditions.set_fact(
        "cases",
        or_none(cases.map(|cases| cases.runner.to_string())),
    );
    conditions.set_fact("cases.order", or_none(order.map(str::to_owned)));
    let set = variant.map_or_else(
        || plan.conditions.clone(),
        |variant| plan.conditions_of(variant),
    );
    for lever in LEVERS {
        match (set.get(lever.name), lever.flag) {
            (Some(value), None) => conditions.set_condition(lever.name, lever.fact(value)),
            (Some(value), Some(_)) => conditions.set_fact(lever.fact_name(), lever.fact(value)),
            (None, Some(_)) => conditions.set_fact(lever.fact_name(), lever.fact_without),
            (None, None) => {}
        }
    }
    if let Some(variant) = variant {
        let copies = variant.actors.iter().map(|actor| actor.copies.to_string());
        conditions.set_fact("copies", copies.collect::<Vec<_>>().join("+"));
        if let Some((_, main)) = mains_of(variant).next() {
            let wrap: Vec<String> = main
                .command
                .iter()
                .take(plan.wrapped as usize)
                .map(ToString::to_string)
                .collect();
            let wrap = (!wrap.is_empty()).then(|| format!("`{}`", wrap.join(" ")));
            conditions.set_fact("wrap", or_none(wrap));
            let container = main.container.as_ref();
            let engine = container.map(|container| match &*container.engine {
                "" => "chosen by each host".to_owned(),
                engine => engine.to_owned(),
            });
            conditions.set_fact("container.engine", or_none(engine));
            let network = container.map(|container| container.network.clone());
            conditions.set_fact("container.network", or_none(network));
            let options: Vec<String> = container
                .map_or(&[][..], |container| &container.options)
                .iter()
                .map(ToString::to_string)
                .collect();
            conditions.set_fact("container.options", or_none(join_if_any(&options)));
            if container.is_none() {
                for (name, value) in CommandEnvironment::of_actor(&plan.environment, main).env {
                    let name = name.to_string_lossy();
                    if variable_effect(&name).is_some() {
                        conditions.set_variable(&name, value.to_string_lossy().into_owned());
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
        conditions.set_fact(name, value.trim());
    }
    conditions
}

/// Returns the conditions that differ between the trials of a plan and a baseline. Conditions in
/// which the plan's variants differ are left out, because they are varied on purpose.
pub fn differing_conditions(
    plan: &TrialsPlan,
    host: &Host,
    baseline: &Conditions,
) -> Vec<ConditionDifference> {
    let ids = (0..).map(VariantId).take(plan.variants.len());
    let differences =
        ids.map(|id| variant_conditions(plan, id, host).differences_from(baseline, fact_title));
    let common = differences.reduce(|mut common, other| {
        common.retain(|difference| other.contains(difference));
        common
    });
    common.unwrap_or_default()
}

fn describe_load(load: &LoadPlan) -> String {
    match load.pace {
        RequestPace::Closed { clients } => words::format_count(u64::from(clients), "client"),
        RequestPace::Open { millihertz, .. } => {
            format!("{}.{:03} requests/s", millihertz / 1000, millihertz % 1000)
        }
    }
}

fn join_if_any(parts: &[String]) -> Option<String> {
    (!parts.is_empty()).then(|| parts.join(","))
}

fn or_none(value: Option<String>) -> String {
    let value = value.filter(|value| !value.is_empty());
    value.unwrap_or_else(|| "none".to_owned())
}
