//! Quantiles that intervals of a mean are made of: Student's t, and the spread that chance alone gives a variance. Pure.

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_985;

/// The one-sided 95 % quantile of the normal distribution.
const Z_ONE_SIDED: f64 = 1.644_853_627;

/// The two-sided 95 % quantile of Student's t: exact for one and two degrees of freedom, else the expansion of
/// Abramowitz and Stegun 26.7.5, within 0.2 %.
pub(in crate::load) fn student(freedom: usize) -> f64 {
    match freedom {
        0 | 1 => 12.706_205,
        2 => 4.302_653,
        _ => {
            let n = freedom as f64;
            let power = |exponent: i32| Z.powi(exponent);
            Z + (power(3) + Z) / (4.0 * n)
                + (5.0 * power(5) + 16.0 * power(3) + 3.0 * Z) / (96.0 * n.powi(2))
                + (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * Z) / (384.0 * n.powi(3))
                + (79.0 * power(9) + 776.0 * power(7) + 1482.0 * power(5) - 1920.0 * power(3) - 945.0 * Z)
                    / (92_160.0 * n.powi(4))
        }
    }
}

/// What the ratio of a sample's variance to the true one stays below in 95 % of samples: the quantile of chi-square over its degrees of
/// freedom, by Wilson and Hilferty (1931), within 1 % from 5 degrees on.
pub(super) fn variance_by_chance(freedom: usize) -> f64 {
    let spread = 2.0 / (9.0 * freedom.max(1) as f64);
    (1.0 - spread + Z_ONE_SIDED * spread.sqrt()).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near_the_tables() {
        for (freedom, table) in [(3, 3.1824), (5, 2.5706), (10, 2.2281), (30, 2.0423), (1000, 1.9623)] {
            let got = student(freedom);
            assert!((got / table - 1.0).abs() < 0.002, "{freedom}: {got}");
        }
        for (freedom, table) in [(7, 14.067), (15, 24.996), (31, 44.985)] {
            let got = variance_by_chance(freedom) * f64::from(u32::try_from(freedom).unwrap());
            assert!((got / table - 1.0).abs() < 0.01, "{freedom}: {got}");
        }
    }
}
