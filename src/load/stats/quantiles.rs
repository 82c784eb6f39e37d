//! Quantiles for confidence intervals: Student's t and the chi-square distribution. Pure.

/// Two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.959_963_985;

/// One-sided 95 % quantile of the normal distribution.
const Z_ONE_SIDED: f64 = 1.644_853_627;

/// Two-sided 95 % quantile of Student's t: exact for one and two degrees of freedom, otherwise the expansion of
/// Abramowitz and Stegun 26.7.5, accurate to 0.2 %.
pub(in crate::load) fn t_quantile(dof: usize) -> f64 {
    match dof {
        0 | 1 => 12.706_205,
        2 => 4.302_653,
        _ => {
            let n = dof as f64;
            let power = |exponent: i32| Z.powi(exponent);
            Z + (power(3) + Z) / (4.0 * n)
                + (5.0 * power(5) + 16.0 * power(3) + 3.0 * Z) / (96.0 * n.powi(2))
                + (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * Z) / (384.0 * n.powi(3))
                + (79.0 * power(9) + 776.0 * power(7) + 1482.0 * power(5) - 1920.0 * power(3) - 945.0 * Z)
                    / (92_160.0 * n.powi(4))
        }
    }
}

/// The 95 % quantile of a sample variance divided by the true variance (chi-square over its degrees of freedom), by
/// Wilson and Hilferty (1931), accurate to 1 % from 5 degrees of freedom on.
pub(super) fn variance_ratio_limit(dof: usize) -> f64 {
    let spread = 2.0 / (9.0 * dof.max(1) as f64);
    (1.0 - spread + Z_ONE_SIDED * spread.sqrt()).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_tables() {
        for (dof, table) in [(3, 3.1824), (5, 2.5706), (10, 2.2281), (30, 2.0423), (1000, 1.9623)] {
            let got = t_quantile(dof);
            assert!((got / table - 1.0).abs() < 0.002, "{dof}: {got}");
        }
        for (dof, table) in [(7, 14.067), (15, 24.996), (31, 44.985)] {
            let got = variance_ratio_limit(dof) * f64::from(u32::try_from(dof).unwrap());
            assert!((got / table - 1.0).abs() < 0.01, "{dof}: {got}");
        }
    }
}
