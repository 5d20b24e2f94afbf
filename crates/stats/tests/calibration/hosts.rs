use provoke_stats::{HostTrials, fisher, holm, property_p_value};

use super::chance::{Chance, share};

/// Trials of each host.
const TRIALS: u32 = 500;
/// Spread of the hosts: the standard deviation of the log odds of their failure rates.
const SPREAD: f64 = 1.0;

/// Returns the trials of hosts that fail in 5 % of trials on average. The property has no effect.
fn unequal_hosts(chance: &mut Chance, hosts: u32) -> Vec<HostTrials> {
    let host = |index: u32| {
        // The sum of 12 uniform numbers is nearly normal.
        let normal = (0..12).map(|_| chance.uniform()).sum::<f64>() - 6.0;
        let odds = (0.05_f64 / 0.95).ln() + SPREAD * normal;
        let rate = 1.0 / (1.0 + (-odds).exp());
        let failures = (0..TRIALS).filter(|_| chance.fails(rate)).count() as u64;
        HostTrials {
            failures,
            trials: TRIALS.into(),
            has_property: index.is_multiple_of(2),
        }
    };
    (0..hosts).map(host).collect()
}

#[test]
fn unequal_hosts_rarely_cause_a_false_alarm() {
    const FLEETS: u32 = 1000;
    let mut chance = Chance::new(21);
    for hosts in [8, 16] {
        let (mut alarms, mut naive_alarms) = (0, 0);
        for _ in 0..FLEETS {
            let fleet = unequal_hosts(&mut chance, hosts);
            alarms += u32::from(property_p_value(&fleet) <= 0.05);
            let sum = |with: bool| {
                let side = fleet.iter().filter(|host| host.has_property == with);
                side.fold((0, 0), |(k, n), host| (k + host.failures, n + host.trials))
            };
            let ((k1, n1), (k2, n2)) = (sum(true), sum(false));
            naive_alarms += u32::from(fisher(k1, n1, k2, n2).two_sided <= 0.05);
        }
        let (alarms, error) = share(alarms, FLEETS, 0.05);
        assert!(alarms <= 0.05 + error, "{hosts} hosts: {alarms}");
        // A test of all trials together, without regard to their hosts, would be wrong in most cases.
        let (naive_alarms, _) = share(naive_alarms, FLEETS, 0.05);
        assert!(naive_alarms > 0.5, "{hosts} hosts: {naive_alarms}");
    }
}

#[test]
fn several_properties_together_rarely_cause_a_false_alarm() {
    const FLEETS: u32 = 1000;
    let mut chance = Chance::new(22);
    let mut alarms = 0;
    for _ in 0..FLEETS {
        let fleet = unequal_hosts(&mut chance, 10);
        let p_values: Vec<f64> = (0..8)
            .map(|_| {
                let shuffled = fleet.iter().map(|host| HostTrials {
                    has_property: chance.fails(0.5),
                    ..*host
                });
                property_p_value(&shuffled.collect::<Vec<_>>())
            })
            .collect();
        alarms += u32::from(holm(&p_values).iter().any(|p| *p <= 0.05));
    }
    let (alarms, error) = share(alarms, FLEETS, 0.05);
    assert!(alarms <= 0.05 + error, "{alarms}");
}
