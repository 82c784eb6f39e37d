//! The clock of a load. If a simulated engine does not run in real time, a load plans and reports everything in model
//! time, so its figures are those of the modelled card.

use std::borrow::Cow;
use std::time::Duration;

use crate::fmt::number;
use crate::load::RequestRecord;
use crate::load::engine_side::Observations;
use crate::warning::{CLOCK_TOO_FAST, Warning};

/// Speed, in model seconds per real second, above which delays of this machine would outweigh the modelled times.
const MAX_SPEED: f64 = 100.0;

/// Real seconds without a power sample that count as a gap.
const MAX_GAP_SECONDS: f64 = 1.0;

/// Converts between real time and the time of a simulated engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ModelClock {
    /// Conversion factor: model seconds per real second.
    pub(crate) speed: f64,
    /// The speed of an engine that is too fast: nothing is converted, and its times are not those of the card.
    too_fast: Option<f64>,
}

impl ModelClock {
    /// `time_scale` is real seconds per model second; `None` for an engine that is not simulated.
    pub(crate) fn new(time_scale: Option<f64>) -> Self {
        let speed = time_scale.map_or(1.0, |scale| 1.0 / scale);
        if speed <= MAX_SPEED {
            Self { speed, too_fast: None }
        } else {
            Self {
                speed: 1.0,
                too_fast: Some(speed),
            }
        }
    }

    /// Whether the engine's clock is this machine's.
    pub(crate) fn is_real(self) -> bool {
        self.is_meaningful() && self.speed == 1.0
    }

    /// Whether times and rates are those of the engine, rather than of this machine.
    pub(crate) fn is_meaningful(self) -> bool {
        self.too_fast.is_none()
    }

    /// The warning for readers; `None` in real time.
    pub(crate) fn note(self) -> Option<Warning> {
        match self.too_fast {
            Some(speed) => {
                let speed = if speed.is_finite() {
                    format!("{} times as fast as", number(speed))
                } else {
                    "without waiting, unlike".to_owned()
                };
                Some(Warning::new(
                    CLOCK_TOO_FAST,
                    format!(
                        "the simulated clock runs {speed} the card that it models: times, rates and energy of loads are not the card's, and cost is \
                         not computed; set `sim.time_scale` to 0.01 or more"
                    ),
                ))
            }
            None if self.speed == 1.0 => None,
            None => Some(Warning::from(format!(
                "the simulated clock runs {} times as fast as the card that it models: times and rates of loads are converted to the card's, and \
                 delays of this machine count as many times in them",
                number(self.speed)
            ))),
        }
    }

    /// Converts a model duration to real time.
    pub(crate) fn real(self, model: Duration) -> Duration {
        Duration::try_from_secs_f64(model.as_secs_f64() / self.speed).unwrap_or(model)
    }

    /// Converts a real duration to model time.
    pub(crate) fn model(self, real: Duration) -> Duration {
        if self.speed == 1.0 {
            real
        } else {
            real.mul_f64(self.speed)
        }
    }

    /// Converts a record to model time.
    pub(crate) fn record(self, record: &RequestRecord) -> Cow<'_, RequestRecord> {
        if self.speed == 1.0 {
            return Cow::Borrowed(record);
        }
        Cow::Owned(RequestRecord {
            itl_ms: record.itl_ms.iter().map(|gap| gap * self.speed as f32).collect(),
            waited: self.model(record.waited),
            ..record.clone().retimed(|moment| self.model(moment))
        })
    }

    /// Converts samples to model time.
    pub(crate) fn observations(self, mut seen: Observations) -> Observations {
        seen.hz /= self.speed;
        // Gaps between samples are defined in real time.
        seen.power_gap = MAX_GAP_SECONDS * self.speed;
        seen.retime(|at| at * self.speed);
        seen
    }
}

#[cfg(test)]
mod clock_tests {
    use super::*;

    #[test]
    fn a_clock_that_is_too_fast_converts_nothing_and_says_so() {
        let second = Duration::from_secs(1);
        for (scale, model, meaningful, says) in [
            (None, 1.0, true, None),
            (Some(1.0), 1.0, true, None),
            (Some(0.1), 10.0, true, Some("10 times as fast")),
            (Some(0.0005), 1.0, false, Some("2,000 times as fast")),
            (Some(0.0), 1.0, false, Some("without waiting")),
        ] {
            let clock = ModelClock::new(scale);
            assert_eq!(
                (clock.model(second).as_secs_f64(), clock.is_meaningful()),
                (model, meaningful),
                "{scale:?}"
            );
            assert_eq!(clock.real(clock.model(second)), second);
            assert_eq!(clock.note().is_some(), says.is_some());
            assert!(
                says.is_none_or(|says| clock.note().unwrap().message.contains(says)),
                "{:?}",
                clock.note()
            );
        }
    }
}
