//! The seconds of starts and requests, for the time left of a search.
//!
//! The seconds of a probe are those of its starts, some for any request, and some for each token. Usual ones are assumed
//! until the answers tell otherwise, because short requests do not tell what long ones take.

use crate::nnls::{COLUMNS, DesignRow, dot, solve};

/// Usual seconds of a start, of any request, of an input token and of an output token, and their standard deviations:
/// vLLM and TGI on one GPU (`tests/data/runs`).
const USUAL: [DesignRow; 2] = [[60.0, 1.0, 0.04e-3, 0.007], [120.0, 3.0, 0.3e-3, 0.03]];

/// The noise of a probe's seconds: a share of them, and a constant.
const NOISE: [f64; 2] = [0.05, 0.3];

/// A failure that took at least this share of its request's expected time was tried; a faster one was refused.
const TRIED: f64 = 0.5;

/// The cost of one probe, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) starts: f64,
    /// Input and output tokens.
    pub(crate) tokens: (f64, f64),
    pub(crate) seconds: f64,
    pub(crate) failed: bool,
}

impl Measured {
    fn row(&self) -> DesignRow {
        [self.starts, 1.0, self.tokens.0, self.tokens.1]
    }

    fn is_refused(&self, pace: &DesignRow) -> bool {
        self.failed && self.starts == 0.0 && self.seconds < TRIED * dot(&self.row(), pace)
    }
}

/// The fitted seconds of a start and of a request.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    seconds: DesignRow,
    /// The seconds of a request that fails, as a share of those if it fitted.
    failing: f64,
}

impl Pace {
    pub(crate) fn of(probes: &[Measured]) -> Self {
        let first = fitted(probes.iter().filter(|probe| !probe.failed || probe.starts > 0.0));
        let seconds = fitted(probes.iter().filter(|probe| !probe.is_refused(&first)));
        let failures = probes.iter().filter(|probe| probe.failed && probe.starts == 0.0);
        let (took, would) = failures.fold((0.0, 0.0), |(took, would), probe| {
            (took + probe.seconds, would + dot(&probe.row(), &seconds))
        });
        Self {
            seconds,
            failing: if would > 0.0 { took / would } else { 1.0 },
        }
    }

    /// Seconds of a start; 0 if none was needed so far.
    pub(crate) fn start(&self, starts: i64) -> f64 {
        if starts > 0 { self.seconds[0] } else { 0.0 }
    }

    /// Seconds of a request of these input and output tokens, if it fits.
    pub(crate) fn fits(&self, (input, output): (f64, f64)) -> f64 {
        dot(&[0.0, 1.0, input, output], &self.seconds)
    }

    /// Seconds of a request of these tokens that fails, without the start after it.
    pub(crate) fn fails(&self, tokens: (f64, f64)) -> f64 {
        self.failing * self.fits(tokens)
    }
}

/// The likeliest seconds by some probes. Each usual one counts as a probe of its own.
fn fitted<'a>(probes: impl Iterator<Item = &'a Measured>) -> DesignRow {
    let [usual, off] = USUAL;
    let mut rows = Vec::new();
    let mut values = Vec::new();
    for column in 0..COLUMNS {
        let mut row = [0.0; COLUMNS];
        row[column] = 1.0 / off[column];
        rows.push(row);
        values.push(usual[column] / off[column]);
    }
    for probe in probes {
        let weight = 1.0 / (NOISE[0] * probe.seconds + NOISE[1]);
        rows.push(probe.row().map(|side| side * weight));
        values.push(probe.seconds * weight);
    }
    solve(&rows, &values).map_or(usual, |solution| solution.coefficients)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measured(starts: f64, tokens: (f64, f64), seconds: f64, failed: bool) -> Measured {
        Measured {
            starts,
            tokens,
            seconds,
            failed,
        }
    }

    #[test]
    fn short_requests_do_not_tell_that_long_ones_are_short() {
        let short = [
            measured(1.0, (64.0, 16.0), 60.7, false),
            measured(0.0, (128.0, 16.0), 0.7, false),
        ];
        let long = Pace::of(&short).fits((64.0, 4096.0));
        assert!((10.0..120.0).contains(&long), "{long} s");
    }

    #[test]
    fn refusals_do_not_tell_what_requests_take() {
        let probes = [
            measured(1.0, (1000.0, 1000.0), 70.0, false),
            measured(0.0, (1000.0, 1000.0), 10.0, false),
            measured(0.0, (8000.0, 4000.0), 0.1, true),
        ];
        let pace = Pace::of(&probes);
        let long = (8000.0, 4000.0);
        assert!(pace.fits(long) > 20.0 && pace.fails(long) < 1.0, "{pace:?}");
    }

    proptest! {
        #[test]
        fn what_probes_took_is_found(
            start in 5.0_f64..300.0, per_input in 1e-5_f64..1e-3, per_output in 1e-3_f64..0.1,
            lengths in prop::collection::vec((100.0_f64..100_000.0, 16.0_f64..4096.0), 0..20),
        ) {
            let pace = |(input, output): (f64, f64)| 1.0 + per_input * input + per_output * output;
            let mut probes = vec![measured(1.0, (100.0, 16.0), start + pace((100.0, 16.0)), false)];
            for tokens in lengths.into_iter().chain([(100.0, 16.0), (100_000.0, 16.0), (100.0, 4096.0)]) {
                probes.push(measured(0.0, tokens, pace(tokens), false));
            }
            let found = Pace::of(&probes);
            for probe in &probes[1..] {
                prop_assert!((found.fits(probe.tokens) / probe.seconds).ln().abs() < 0.2, "{found:?} for {probe:?}");
            }
            prop_assert!((found.start(1) / start).ln().abs() < 0.2, "{found:?}");
        }
    }
}
