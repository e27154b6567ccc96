//! When op *i* is due: a pure function of the index.
//!
//! A due time never depends on how fast earlier ops ended, so a late op cannot move the schedule
//! (Schroeder, Wierman, Harchol-Balter, *Open Versus Closed*, NSDI 2006). Due times are whole
//! nanoseconds and sums of whole numbers, so random access and iteration give the same answer.

use std::time::Duration;

use super::Error;
use super::draws::{Draws, Stream};
use super::settings::{PaceKind, PaceSettings};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// The next op of a client is due when its last one has ended: there is no schedule.
    Closed,
    /// Op *i* is due *i* / rate after the start.
    Uniform {
        /// Ops per second.
        rate: f64,
    },
    /// Gaps are exponentially distributed; the gap before op *i* follows from seed and *i*.
    Poisson {
        /// Ops per second on average.
        rate: f64,
        /// Seed of the gaps.
        seed: u64,
    },
}

impl Pace {
    /// Checks what a task says about its pace.
    ///
    /// # Errors
    /// [`Error::Pace`] when a rate is missing, of no use, or given for `closed`.
    pub fn new(settings: &PaceSettings, seed: u64) -> Result<Pace, Error> {
        let pace_error = |why| Err(Error::Pace { why });
        if settings.clients == 0 {
            return pace_error("clients must be at least 1");
        }
        match (settings.kind, settings.rate) {
            (PaceKind::Closed, None) => Ok(Pace::Closed),
            (PaceKind::Closed, Some(_)) => pace_error("kind \"closed\" takes no rate"),
            (_, None) => pace_error("kinds \"uniform\" and \"poisson\" need a rate"),
            (_, Some(rate)) if !(rate.is_finite() && (0.001..=1e7).contains(&rate)) => {
                pace_error("rate must lie between 0.001 and 10,000,000 ops per second")
            }
            (PaceKind::Uniform, Some(rate)) => Ok(Pace::Uniform { rate }),
            (PaceKind::Poisson, Some(rate)) => Ok(Pace::Poisson { rate, seed }),
        }
    }

    /// When op `i` is due, as time since the start; `None` for [`Pace::Closed`]. For
    /// [`Pace::Poisson`] this adds up `i + 1` gaps: who wants many due times in order takes
    /// [`Pace::schedule`], which gives the same ones.
    pub fn at(&self, i: u64) -> Option<Duration> {
        match *self {
            Pace::Closed => None,
            Pace::Uniform { rate } => Some(Duration::from_nanos(uniform(rate, i))),
            Pace::Poisson { rate, seed } => {
                Some(Duration::from_nanos((0..=i).map(|gap| exponential(rate, seed, gap)).sum()))
            }
        }
    }

    /// All due times in order, the first that of op 0; empty for [`Pace::Closed`].
    pub fn schedule(&self) -> Schedule {
        Schedule { pace: *self, next: 0, sum: 0 }
    }
}

/// Due times in order. See [`Pace::schedule`].
#[derive(Debug, Clone)]
pub struct Schedule {
    pace: Pace,
    next: u64,
    sum: u64,
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let i = self.next;
        self.next += 1;
        match self.pace {
            Pace::Closed => None,
            Pace::Uniform { rate } => Some(Duration::from_nanos(uniform(rate, i))),
            Pace::Poisson { rate, seed } => {
                self.sum += exponential(rate, seed, i);
                Some(Duration::from_nanos(self.sum))
            }
        }
    }
}

fn uniform(rate: f64, i: u64) -> u64 {
    (i as f64 * 1e9 / rate).round() as u64
}

fn exponential(rate: f64, seed: u64, gap: u64) -> u64 {
    let u = Draws::new(seed, Stream::Pace, gap).unit();
    (-(-u).ln_1p() * 1e9 / rate).round() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings(kind: PaceKind, rate: Option<f64>) -> PaceSettings {
        PaceSettings { kind, rate, clients: 4 }
    }

    #[test]
    fn closed_has_no_schedule() {
        assert_eq!(Pace::Closed.at(3), None);
        assert_eq!(Pace::Closed.schedule().next(), None);
    }

    #[test]
    fn poisson_gaps_have_mean_and_spread_of_their_rate() {
        let pace = Pace::Poisson { rate: 2_000.0, seed: 42 };
        let due: Vec<f64> = pace.schedule().take(100_001).map(|d| d.as_secs_f64()).collect();
        let gaps: Vec<f64> = due.windows(2).map(|w| w[1] - w[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean * 2_000.0 - 1.0).abs() < 0.02, "mean {mean}");
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.02,
            "an exponential's deviation is its mean"
        );
    }

    #[test]
    fn odd_paces_are_refused() {
        for (kind, rate) in [
            (PaceKind::Closed, Some(5.0)),
            (PaceKind::Uniform, None),
            (PaceKind::Poisson, Some(0.0)),
            (PaceKind::Poisson, Some(f64::NAN)),
        ] {
            assert!(Pace::new(&settings(kind, rate), 1).is_err(), "{kind:?} {rate:?}");
        }
        assert!(Pace::new(&settings(PaceKind::Poisson, Some(0.5)), 1).is_ok());
    }

    proptest! {
        #[test]
        fn random_access_is_iteration_and_never_goes_back(
            rate in 0.1f64..100_000.0, seed: u64, count in 1usize..300,
        ) {
            for pace in [Pace::Uniform { rate }, Pace::Poisson { rate, seed }] {
                let due: Vec<Duration> = pace.schedule().take(count).collect();
                prop_assert!(due.windows(2).all(|w| w[0] <= w[1]));
                for (i, at) in due.iter().enumerate() {
                    prop_assert_eq!(pace.at(i as u64), Some(*at));
                }
            }
        }

        #[test]
        fn uniform_keeps_its_rate_for_ever(rate in 1f64..1_000_000.0, i in 1u64..1_000_000_000) {
            let at = Pace::Uniform { rate }.at(i).expect("open").as_secs_f64();
            prop_assert!((at * rate / i as f64 - 1.0).abs() < 1e-6);
        }
    }
}
