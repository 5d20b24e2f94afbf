//! Finds variants during whose trials hosts were lost more often than by chance.

use provoke_model::VariantId;
use provoke_state::State;
use provoke_stats::{fisher, holm};
use provoke_words as words;
use serde::Serialize;

/// A variant whose attempts lost their hosts significantly more often than other attempts.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HostLosses {
    /// The name of the variant.
    pub variant: String,
    /// Its attempts that ended with the loss of their host.
    pub lost: u64,
    /// Its attempts.
    pub attempts: u64,
    /// Attempts of the other variants that ended with the loss of their host.
    pub others_lost: u64,
    /// Attempts of the other variants.
    pub others_attempts: u64,
    /// The probability of such a difference if the variant has no effect: Fisher's exact test, corrected for all variants
    /// (Holm).
    pub p_value: f64,
}

impl HostLosses {
    /// Describes the losses.
    pub fn text(&self) -> String {
        format!(
            "Hosts were lost more often during trials of `{}`: in {} of {} attempts, and in {} of {} of the others: {}",
            self.variant,
            self.lost,
            self.attempts,
            self.others_lost,
            self.others_attempts,
            words::p_value(self.p_value)
        )
    }
}

/// Returns the variants whose attempts lost their hosts more often than other attempts.
pub(super) fn host_losses(state: &State) -> Vec<HostLosses> {
    let losses = state.hosts.losses();
    let of_variant = |id: VariantId| {
        let lost = losses.iter().filter(|variant| **variant == id).count() as u64;
        (id, lost, state.hosts.attempts_of(id))
    };
    let ids = (0..).map(VariantId).take(state.trials.variants.len());
    let variants: Vec<_> = ids.map(of_variant).filter(|(_, _, all)| *all > 0).collect();
    let attempts: u64 = variants.iter().map(|(_, _, attempts)| attempts).sum();
    let total = losses.len() as u64;
    let compared = variants.iter().map(|(id, lost, own)| HostLosses {
        variant: state.trials.variant_plan(*id).name.clone(),
        lost: *lost,
        attempts: *own,
        others_lost: total - lost,
        others_attempts: attempts - own,
        p_value: fisher(*lost, *own, total - lost, attempts - own).two_sided,
    });
    let compared: Vec<HostLosses> = compared.collect();
    // Two variants are one comparison.
    let corrected = match &compared[..] {
        [first, second] => vec![first.p_value, second.p_value],
        _ => holm(&compared.iter().map(|one| one.p_value).collect::<Vec<_>>()),
    };
    let alpha = state.goal.alpha.to_probability();
    let compared = compared.into_iter().zip(corrected);
    let significant = compared.filter(|(losses, p_value)| {
        let is_more = u128::from(losses.lost) * u128::from(losses.others_attempts)
            > u128::from(losses.others_lost) * u128::from(losses.attempts);
        is_more && *p_value <= alpha
    });
    significant
        .map(|(losses, p_value)| HostLosses { p_value, ..losses })
        .collect()
}
