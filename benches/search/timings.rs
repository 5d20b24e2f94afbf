//! Measures the duration of a choice.

use provoke_stats::search::{BatchOptions, Bisection, Costs};

use super::bisect::setup;
use super::chance::Chance;

pub(crate) fn timings() {
    for n in [64, 1024, 100_000] {
        for clean in [true, false] {
            let mut chance = Chance::new(1);
            let setup = setup(clean, 0.0);
            let mut search = Bisection::new(n, &setup.model, None);
            search.observe_many(n, 5, 50);
            let culprit = n / 3;
            let (mut slowest, mut total, mut runs) = (0.0_f64, 0.0, 0);
            let mut batches = Vec::new();
            loop {
                let started_at = std::time::Instant::now();
                let Some(query) = search.choose_query(&setup.stop, &Costs::RUNS) else {
                    break;
                };
                let bad = query.version >= culprit;
                search.observe_run(query.version, bad && chance.uniform() < 0.1);
                let took = started_at.elapsed().as_secs_f64() * 1e3;
                slowest = slowest.max(took);
                total += took;
                runs += 1;
                if runs % 40 == 1 {
                    let started_at = std::time::Instant::now();
                    let slots = |free, in_flight| BatchOptions {
                        free,
                        in_flight,
                        built: &[],
                        builds: usize::MAX,
                        seed: 1,
                    };
                    let mut in_flight = search.choose_batch(&setup.stop, &slots(64, &[]));
                    let all = started_at.elapsed().as_secs_f64() * 1e3;
                    in_flight.truncate(63);
                    let started_at = std::time::Instant::now();
                    search.choose_batch(&setup.stop, &slots(1, &in_flight));
                    let one = started_at.elapsed().as_secs_f64() * 1e3;
                    let mut versions = in_flight.clone();
                    versions.sort_unstable();
                    versions.dedup();
                    batches.push((all, one, versions.len()));
                }
            }
            println!(
                "n {n} clean {clean}: choose and observe {:.3} ms, at most {slowest:.3} ms ({runs} runs); 64 slots, refill, versions: {batches:.2?}",
                total / f64::from(runs)
            );
        }
    }
}
