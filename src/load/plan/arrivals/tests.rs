use super::*;

fn moment(profile: &Profile, units: f64) -> Option<f64> {
    profile.time_of(units).map(|time| time.as_secs_f64())
}

#[test]
fn constant_rate_never_ends() {
    let profile = Profile::constant(4.0).unwrap();
    assert_eq!((moment(&profile, 10.0), profile.length()), (Some(2.5), None));
}

#[test]
fn rates_are_integrated_over_steps_and_pauses() {
    let second = Duration::from_secs(1);
    let profile = Profile::steps([(2.0, second), (0.0, second), (4.0, second)]).unwrap();
    let moments: Vec<_> = [0.0, 1.0, 2.0, 4.0, 5.999, 6.0]
        .map(|units| moment(&profile, units))
        .into();
    assert_eq!(moments[..4], [Some(0.0), Some(0.5), Some(2.0), Some(2.5)]);
    assert!(moments[4].is_some_and(|at| at < 3.0) && moments[5].is_none());
    assert_eq!(profile.length(), Some(3 * second));
}

#[test]
fn invalid_rate_is_an_error() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Profile::constant(rate).is_err(), "{rate}");
    }
    assert!(Profile::steps([(0.0, Duration::from_secs(1))]).is_err());
}
