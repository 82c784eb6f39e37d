//! The quantile of Student's t for a 95 % interval, for any number of degrees of freedom, including fractions.
//!
//! From the regularized incomplete beta function: P(|T| > t) = I(ν/(ν+t²); ν/2, 1/2), DLMF 8.17.

/// Probability outside the interval, both sides together.
const TAIL: f64 = 0.05;

/// The quantile of the normal distribution, to which Student's t tends.
const NORMAL: f64 = 1.959_963_985;

/// Above this many degrees of freedom, the first term of the expansion in 1/ν is exact to 1e-6 (Abramowitz and Stegun
/// 26.7.5).
const MANY: f64 = 2000.0;

/// Half the width of a 95 % interval, in standard errors. `freedom` is at least 1.
pub(crate) fn t_quantile(freedom: f64) -> f64 {
    if freedom > MANY {
        return NORMAL + (NORMAL.powi(3) + NORMAL) / (4.0 * freedom);
    }
    let half = (freedom + 1.0) / 2.0;
    let scale = (ln_gamma(half) - ln_gamma(freedom / 2.0)).exp() / (freedom * std::f64::consts::PI).sqrt();
    let mut t = NORMAL;
    // Newton's method: the tail is convex, so it comes closer from below.
    for _ in 0..20 {
        let density = scale * (1.0 + t * t / freedom).powf(-half);
        let step = (two_sided_tail(t, freedom) - TAIL) / (2.0 * density);
        t += step;
        if step.abs() < 1e-9 {
            break;
        }
    }
    t
}

/// The probability of a value further from zero than `t`, on either side.
fn two_sided_tail(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// I(x; a, b) by the continued fraction DLMF 8.17.22, evaluated on the side of the mean where it converges fast.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    front / fraction(x, a, b)
}

/// The fraction 1 + d₁/(1 + d₂/(1 + …)) from its far end; sixty terms are enough for thousands of degrees of freedom.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    (1..=60_u8).rev().fold(1.0, |rest, term| {
        let m = f64::from(term / 2);
        let d = if term % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        1.0 + d / rest
    })
}

/// The logarithm of the gamma function: Stirling's series (DLMF 5.11.1), from an argument where five terms are exact
/// to 1e-12.
fn ln_gamma(x: f64) -> f64 {
    if x < 10.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let square = x * x;
    let series =
        1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - 1.0 / 1188.0 / square) / square) / square) / square;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series / x
}

#[cfg(test)]
mod tests {
    use super::t_quantile;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, table) in [
            (1.0, 12.706_205),
            (2.0, 4.302_653),
            (3.0, 3.182_446),
            (4.0, 2.776_445),
            (10.0, 2.228_139),
            (30.0, 2.042_272),
            (1000.0, 1.962_339),
            (1e7, 1.959_964),
        ] {
            assert!(
                (t_quantile(freedom) - table).abs() < 1e-5,
                "{freedom}: {}",
                t_quantile(freedom)
            );
        }
    }

    #[test]
    fn more_freedom_makes_intervals_narrower() {
        let mut before = f64::INFINITY;
        for tenths in 10..500 {
            let now = t_quantile(f64::from(tenths) / 10.0);
            assert!(now < before, "{tenths}");
            before = now;
        }
    }
}
