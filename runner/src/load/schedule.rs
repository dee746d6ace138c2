//! When requests are sent in an open loop: a pure function of the arrival process and the seed.

use super::LoadError;
use super::lengths::DrawRng;
use brownout_injector::Draw;
use brownout_injector::scenario::Arrival;
pub use brownout_injector::scenario::MAX_RATE;
use rand_distr::{Distribution, Gamma};

/// The gaps of an open arrival process. Request `n` of a run has the same gap before it under the same seed, however
/// long the phases are.
#[derive(Clone, Debug)]
pub struct Arrivals {
    process: Process,
    rate: f64,
    seed: u64,
    next: u64,
    first_of_phase: u64,
    at: f64,
}

#[derive(Clone, Debug)]
enum Process {
    Even,
    Poisson,
    Gamma(Gamma<f64>),
}

impl Arrivals {
    /// The schedule of `arrival`; none for a closed loop, which has no schedule.
    ///
    /// # Errors
    /// What [`Arrival::problems`] finds.
    pub fn new(arrival: &Arrival, seed: u64) -> Result<Option<Self>, LoadError> {
        if let Some((field, right)) = arrival.problems().first() {
            return Err(LoadError::Load(format!("arrival: {field}: {right}")));
        }
        let (process, rate) = match *arrival {
            Arrival::Constant { rate } => (Process::Even, rate),
            Arrival::Poisson { rate } => (Process::Poisson, rate),
            Arrival::Gamma { rate, burstiness } => {
                let gamma = Gamma::new(1.0 / burstiness, burstiness)
                    .map_err(|error| LoadError::Load(format!("a burstiness of {burstiness}: {error}")))?;
                (Process::Gamma(gamma), rate)
            }
            Arrival::Closed { .. } => return Ok(None),
        };
        Ok(Some(Self { process, rate, seed, next: 0, first_of_phase: 0, at: 0.0 }))
    }

    /// A phase begins: offsets count from here.
    pub fn begin_phase(&mut self) {
        self.at = 0.0;
        self.first_of_phase = self.next;
    }

    /// The next request's number and when it is due, in seconds since the phase began; none where that is `length`
    /// or later.
    pub fn next_before(&mut self, length: f64) -> Option<(u64, f64)> {
        let number = self.next;
        let draw = Draw::new(self.seed, "arrival", number);
        let at = match &self.process {
            Process::Even => (number - self.first_of_phase) as f64 / self.rate,
            Process::Poisson => self.at - (1.0 - draw.unit(0)).ln() / self.rate,
            Process::Gamma(gamma) => self.at + gamma.sample(&mut DrawRng::new(draw)) / self.rate,
        };
        (at < length).then(|| {
            self.next += 1;
            self.at = at;
            (number, at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn phase(arrivals: &mut Arrivals, length: f64) -> Vec<(u64, f64)> {
        arrivals.begin_phase();
        std::iter::from_fn(|| arrivals.next_before(length)).collect()
    }

    fn open(arrival: &Arrival, seed: u64) -> Arrivals {
        Arrivals::new(arrival, seed).expect("a possible arrival").expect("an open one")
    }

    #[test]
    fn even_arrivals_start_each_phase_at_once_and_keep_count() {
        let mut arrivals = open(&Arrival::Constant { rate: 4.0 }, 1);
        assert_eq!(phase(&mut arrivals, 0.6), [(0, 0.0), (1, 0.25), (2, 0.5)]);
        assert_eq!(phase(&mut arrivals, 0.3), [(3, 0.0), (4, 0.25)]);
    }

    #[test]
    fn impossible_rates_are_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(Arrivals::new(&Arrival::Constant { rate }, 0).is_err(), "{rate}");
        }
        assert!(Arrivals::new(&Arrival::Gamma { rate: 1.0, burstiness: 0.0 }, 0).is_err());
    }

    #[test]
    fn a_gamma_process_is_as_bursty_as_asked() {
        for burstiness in [0.25, 1.0, 4.0] {
            let times = phase(&mut open(&Arrival::Gamma { rate: 100.0, burstiness }, 3), 500.0);
            let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            let seen = variance / (mean * mean);
            assert!((seen / burstiness - 1.0).abs() < 0.1, "asked {burstiness}, got {seen}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn a_schedule_has_the_rate_asked_for(seed: u64, rate in 5.0_f64..500.0, burstiness in 0.2_f64..4.0, kind in 0..3) {
            let (arrival, spread) = match kind {
                0 => (Arrival::Constant { rate }, 0.0),
                1 => (Arrival::Poisson { rate }, 1.0),
                _ => (Arrival::Gamma { rate, burstiness }, burstiness),
            };
            let seconds = 200.0;
            let count = phase(&mut open(&arrival, seed), seconds).len() as f64;
            // Six standard deviations of a renewal process' count.
            let allowed = 6.0 * (spread * rate * seconds).sqrt() + 2.0;
            prop_assert!((count - rate * seconds).abs() <= allowed, "{count} requests at {rate}/s in {seconds} s");
        }

        #[test]
        fn the_same_seed_gives_the_same_schedule(seed: u64, rate in 5.0_f64..500.0) {
            let arrival = Arrival::Poisson { rate };
            let (mut one, mut other) = (open(&arrival, seed), open(&arrival, seed));
            let times = phase(&mut one, 2.0);
            prop_assert_eq!(&times, &phase(&mut other, 2.0));
            prop_assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].1 && pair[0].0 + 1 == pair[1].0));
            prop_assert_ne!(times, phase(&mut open(&arrival, seed ^ 1), 2.0));
        }
    }
}
