//! Lengths of prompts and answers in tokens: fixed or random.

use std::fmt;

use rand::Rng;
use rand_distr::{Distribution as _, LogNormal, Normal, Uniform};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::fault::{Fault, Result};
use crate::prompt::MAX_TOKENS;

/// How often an out-of-bounds length is redrawn before it is clamped.
const MAX_DRAWS: usize = 100;

/// The 99.9 % quantile of the normal distribution: the default `max` of a distribution.
const Z_99_9: f64 = 3.090_232;

/// A length in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Length {
    /// Constant.
    Fixed(u64),
    /// Random.
    Random(Distribution),
}

/// A distribution of lengths. Values out of bounds are redrawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Uniform from the lowest to the highest, inclusive.
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
    /// Mean without bounds.
    pub mean: f64,
    /// Standard deviation without bounds.
    pub std: f64,
    /// Minimum; default 1.
    pub min: Option<u64>,
    /// Maximum; default: the 99.9th percentile.
    pub max: Option<u64>,
}

/// A lognormal distribution within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LognormalLength {
    /// Median without bounds.
    pub median: f64,
    /// Standard deviation of the natural logarithm.
    pub sigma: f64,
    /// Minimum; default 1.
    pub min: Option<u64>,
    /// Maximum; default: the 99.9th percentile.
    pub max: Option<u64>,
}

impl Length {
    /// Minimum and maximum possible length.
    pub fn bounds(&self) -> (u64, u64) {
        match self {
            Self::Fixed(tokens) => (*tokens, *tokens),
            Self::Random(Distribution::Uniform(low, high)) => (*low, *high),
            Self::Random(Distribution::Normal(normal)) => (
                normal.min.unwrap_or(1),
                normal.max.unwrap_or_else(|| whole(normal.mean + Z_99_9 * normal.std)),
            ),
            Self::Random(Distribution::Lognormal(normal)) => (
                normal.min.unwrap_or(1),
                normal
                    .max
                    .unwrap_or_else(|| whole(normal.median * (Z_99_9 * normal.sigma).exp())),
            ),
        }
    }

    /// Checks the parameters. `name` is the option's name.
    ///
    /// # Errors
    ///
    /// `usage` with a hint if they are invalid.
    pub fn check(&self, name: &str) -> Result<()> {
        let invalid = |why: String, hint: &str| Err(Fault::usage(format!("option `{name}` {why}")).hint(hint));
        let parameters = match self {
            Self::Fixed(_) => None,
            Self::Random(distribution) => distribution.parameters(),
        };
        if let Some((what, middle, width)) = parameters
            && !(middle.is_finite() && middle >= 1.0 && width.is_finite() && width >= 0.0)
        {
            return invalid(
                format!("has {what} of {middle} and {width}"),
                "give tokens from 1 up, and a spread from 0 up",
            );
        }
        let (low, high) = self.bounds();
        if low == 0 || high > MAX_TOKENS as u64 {
            return invalid(
                format!("reaches from {low} to {high} tokens"),
                &format!("lengths are from 1 to {MAX_TOKENS} tokens; give `min` and `max`"),
            );
        }
        if low > high {
            return invalid(
                format!("has its minimum {low} above its maximum {high}"),
                "give the minimum first",
            );
        }
        if let Some((_, middle, _)) = parameters
            && !(low as f64 <= middle && middle <= high as f64)
        {
            return invalid(
                format!("has its center {middle} outside of {low} to {high}"),
                "choose `min` and `max` around it",
            );
        }
        Ok(())
    }

    /// A random length.
    pub fn draw(&self, rng: &mut impl Rng) -> u64 {
        let (low, high) = self.bounds();
        // `check` has rejected invalid distributions; fall back to the median.
        match self {
            Self::Fixed(tokens) => *tokens,
            Self::Random(Distribution::Uniform(..)) => {
                Uniform::new_inclusive(low, high).map_or(low, |uniform| uniform.sample(rng))
            }
            Self::Random(Distribution::Normal(params)) => match Normal::new(params.mean, params.std) {
                Ok(normal) => within(low, high, || normal.sample(rng)),
                Err(_) => whole(params.mean),
            },
            Self::Random(Distribution::Lognormal(params)) => match LogNormal::new(params.median.ln(), params.sigma) {
                Ok(normal) => within(low, high, || normal.sample(rng)),
                Err(_) => whole(params.median),
            },
        }
    }
}

impl Distribution {
    /// Names and values of location and scale, for distributions that have them.
    fn parameters(&self) -> Option<(&'static str, f64, f64)> {
        match self {
            Self::Uniform(..) => None,
            Self::Normal(params) => Some(("a mean and a deviation", params.mean, params.std)),
            Self::Lognormal(params) => Some(("a median and a sigma", params.median, params.sigma)),
        }
    }
}

/// Draws until a value is within the bounds.
fn within(low: u64, high: u64, mut draw: impl FnMut() -> f64) -> u64 {
    let mut last = low;
    for _ in 0..MAX_DRAWS {
        last = whole(draw());
        if (low..=high).contains(&last) {
            break;
        }
    }
    last.clamp(low, high)
}

/// Rounds to tokens; negative and NaN become 0.
fn whole(tokens: f64) -> u64 {
    tokens.round() as u64
}

// Not derived, so that an error names the field within the map and the expected type.
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
                Distribution::deserialize(MapAccessDeserializer::new(map)).map(Length::Random)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Purpose, rng};
    use super::*;

    fn read(value: serde_json::Value) -> Length {
        serde_json::from_value(value).unwrap()
    }

    fn drawn(length: Length, count: usize) -> Vec<u64> {
        let mut rng = rng(7, Purpose::Inputs);
        (0..count).map(|_| length.draw(&mut rng)).collect()
    }

    fn mean(lengths: &[u64]) -> f64 {
        lengths.iter().sum::<u64>() as f64 / lengths.len() as f64
    }

    #[test]
    fn all_forms_serialize_and_have_bounds() {
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
    fn invalid_lengths_are_errors() {
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
    fn lengths_follow_their_distribution_within_bounds() {
        let uniform = drawn(Length::Random(Distribution::Uniform(10, 13)), 4000);
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
