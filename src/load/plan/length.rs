//! How long prompts and answers are, in tokens: always the same, or drawn.

use std::fmt;

use rand::Rng;
use rand_distr::{Distribution, LogNormal, Normal, Uniform};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fault::{Fault, Result};
use crate::prompt::MAX_TOKENS;

/// How often a length beyond its bounds is drawn anew before the nearest bound is taken.
const DRAWS: usize = 100;

/// The normal quantile of 99.9 %: where a distribution ends that was given no `max`.
const FAR: f64 = 3.090_232;

/// How long something is, in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// Always the same.
    Fixed(u64),
    /// Drawn.
    Drawn(Spread),
}

/// A distribution of lengths. One that falls out of its bounds is drawn anew.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Each from the lowest to the highest as often as any other.
    Uniform(u64, u64),
    /// Normal distribution, rounded.
    Normal(NormalLength),
    /// Lognormal distribution, rounded.
    Lognormal(LognormalLength),
}

/// A normal distribution within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NormalLength {
    /// The mean before bounds.
    pub mean: f64,
    /// The standard deviation before bounds.
    pub std: f64,
    /// The shortest; 1 without it.
    #[serde(default)]
    pub min: Option<u64>,
    /// The longest; without it the length that one of a thousand exceeds.
    #[serde(default)]
    pub max: Option<u64>,
}

/// A lognormal distribution within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LognormalLength {
    /// The median before bounds.
    pub median: f64,
    /// The standard deviation of the natural logarithm.
    pub sigma: f64,
    /// The shortest; 1 without it.
    #[serde(default)]
    pub min: Option<u64>,
    /// The longest; without it the length that one of a thousand exceeds.
    #[serde(default)]
    pub max: Option<u64>,
}

impl Length {
    /// The shortest and the longest that can be drawn.
    #[must_use]
    pub fn bounds(&self) -> (u64, u64) {
        match self {
            Self::Fixed(tokens) => (*tokens, *tokens),
            Self::Drawn(Spread::Uniform(low, high)) => (*low, *high),
            Self::Drawn(Spread::Normal(normal)) => (
                normal.min.unwrap_or(1),
                normal.max.unwrap_or_else(|| whole(normal.mean + FAR * normal.std)),
            ),
            Self::Drawn(Spread::Lognormal(normal)) => (
                normal.min.unwrap_or(1),
                normal
                    .max
                    .unwrap_or_else(|| whole(normal.median * (FAR * normal.sigma).exp())),
            ),
        }
    }

    /// Refuses what no length can be. `name` is the option's.
    ///
    /// # Errors
    ///
    /// `usage`, with what to give instead.
    pub fn check(&self, name: &str) -> Result<()> {
        let refuse = |why: String, hint: &str| Err(Fault::usage(format!("option `{name}` {why}")).hint(hint));
        if let Self::Drawn(spread) = self
            && let Some((what, middle, width)) = spread.parameters()
            && !(middle.is_finite() && middle >= 1.0 && width.is_finite() && width >= 0.0)
        {
            return refuse(
                format!("has {what} of {middle} and {width}"),
                "give tokens from 1 up, and a spread from 0 up",
            );
        }
        let (low, high) = self.bounds();
        if low == 0 || high > MAX_TOKENS as u64 {
            return refuse(
                format!("reaches from {low} to {high} tokens"),
                &format!("lengths are from 1 to {MAX_TOKENS} tokens; give `min` and `max`"),
            );
        }
        if low > high {
            return refuse(
                format!("has its shortest, {low}, above its longest, {high}"),
                "give the smaller one first",
            );
        }
        if let Self::Drawn(spread) = self
            && let Some((_, middle, _)) = spread.parameters()
            && !(low as f64 <= middle && middle <= high as f64)
        {
            return refuse(
                format!("has its middle, {middle}, outside of {low} to {high}"),
                "let `min` and `max` lie around it",
            );
        }
        Ok(())
    }

    /// The next one.
    pub(super) fn draw(&self, numbers: &mut impl Rng) -> u64 {
        let (low, high) = self.bounds();
        // What no distribution can be made of was refused by `check`: its middle stands in for it.
        match self {
            Self::Fixed(tokens) => *tokens,
            Self::Drawn(Spread::Uniform(..)) => {
                Uniform::new_inclusive(low, high).map_or(low, |uniform| uniform.sample(numbers))
            }
            Self::Drawn(Spread::Normal(given)) => match Normal::new(given.mean, given.std) {
                Ok(normal) => within(low, high, || normal.sample(numbers)),
                Err(_) => whole(given.mean),
            },
            Self::Drawn(Spread::Lognormal(given)) => match LogNormal::new(given.median.ln(), given.sigma) {
                Ok(normal) => within(low, high, || normal.sample(numbers)),
                Err(_) => whole(given.median),
            },
        }
    }
}

impl Spread {
    /// What its parameters are called, and both, where it has a middle and a width.
    fn parameters(&self) -> Option<(&'static str, f64, f64)> {
        match self {
            Self::Uniform(..) => None,
            Self::Normal(given) => Some(("a mean and a deviation", given.mean, given.std)),
            Self::Lognormal(given) => Some(("a median and a sigma", given.median, given.sigma)),
        }
    }
}

/// The next that falls within the bounds.
fn within(low: u64, high: u64, mut draw: impl FnMut() -> f64) -> u64 {
    let mut last = low;
    for _ in 0..DRAWS {
        last = whole(draw());
        if (low..=high).contains(&last) {
            break;
        }
    }
    last.clamp(low, high)
}

/// A number of tokens; one below 0 is 0, and what is no number too.
fn whole(tokens: f64) -> u64 {
    tokens.round() as u64
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(tokens) => tokens.serialize(serializer),
            Self::Drawn(spread) => spread.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Length;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(
                    "a number of tokens, or a map such as `#{ uniform: [lo, hi] }`, `#{ normal: #{ mean, std, min, max } }`, `#{ lognormal: #{ median, sigma, min, max } }`",
                )
            }

            fn visit_u64<E: serde::de::Error>(self, tokens: u64) -> std::result::Result<Length, E> {
                Ok(Length::Fixed(tokens))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<Length, A::Error> {
                Spread::deserialize(MapAccessDeserializer::new(map)).map(Length::Drawn)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stream::{Purpose, stream};
    use super::*;

    fn read(value: serde_json::Value) -> Length {
        serde_json::from_value(value).unwrap()
    }

    fn drawn(length: Length, count: usize) -> Vec<u64> {
        let mut numbers = stream(7, Purpose::Inputs);
        (0..count).map(|_| length.draw(&mut numbers)).collect()
    }

    fn mean(lengths: &[u64]) -> f64 {
        lengths.iter().sum::<u64>() as f64 / lengths.len() as f64
    }

    #[test]
    fn every_form_is_read_written_and_bounded() {
        for (value, bounds) in [
            (json!(512), (512, 512)),
            (json!({ "uniform": [10, 20] }), (10, 20)),
            (
                json!({ "normal": { "mean": 100.0, "std": 10.0, "min": 50, "max": null } }),
                (50, 131),
            ),
            (
                json!({ "lognormal": { "median": 100.0, "sigma": 0.5, "min": null, "max": 400 } }),
                (1, 400),
            ),
        ] {
            let length = read(value.clone());
            assert_eq!(length.bounds(), bounds, "{value}");
            assert_eq!(serde_json::to_value(length).unwrap(), value);
            length.check("input").unwrap();
        }
    }

    #[test]
    fn what_no_length_can_be_is_refused() {
        for value in [
            json!(0),
            json!({ "uniform": [20, 10] }),
            json!({ "uniform": [0, 10] }),
            json!({ "normal": { "mean": 100.0, "std": -1.0 } }),
            json!({ "normal": { "mean": 100.0, "std": 1.0, "max": 50 } }),
            json!({ "lognormal": { "median": 100.0, "sigma": 50.0 } }),
        ] {
            let fault = read(value.clone()).check("input").unwrap_err();
            assert!(
                fault.message.contains("`input`") && fault.hint.is_some(),
                "{value}: {fault}"
            );
        }
    }

    #[test]
    fn lengths_follow_their_distribution_and_stay_in_bounds() {
        let uniform = drawn(Length::Drawn(Spread::Uniform(10, 13)), 4000);
        for length in 10..=13 {
            let share = uniform.iter().filter(|drawn| **drawn == length).count();
            assert!((900..1100).contains(&share), "{length}: {share}");
        }
        let normal = drawn(read(json!({ "normal": { "mean": 100, "std": 10, "min": 80 } })), 4000);
        assert!((99.0..101.5).contains(&mean(&normal)), "{}", mean(&normal));
        assert!(normal.iter().all(|length| (80..=131).contains(length)));
        let mut lognormal = drawn(read(json!({ "lognormal": { "median": 200, "sigma": 1 } })), 4000);
        lognormal.sort_unstable();
        assert!((185..215).contains(&lognormal[2000]), "{}", lognormal[2000]);
        assert_eq!(drawn(Length::Fixed(9), 3), [9, 9, 9]);
    }
}
