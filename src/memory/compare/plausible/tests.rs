use super::*;
use crate::memory::{Part, Provenance};

const GIB: i64 = 1 << 30;

fn names(total: i64, parts: &[(Component, i64)], facts: &Facts) -> Vec<&'static str> {
    let part = |(component, bytes): &(Component, i64)| Part {
        component: *component,
        bytes: *bytes,
        provenance: Provenance::Measured,
        source: String::new(),
        within: None,
    };
    let parts = parts.iter().map(part).collect();
    let breakdown = Breakdown::new(None, u64::try_from(total).unwrap(), parts).unwrap();
    let found = implausible(Some(&breakdown), facts);
    found.iter().map(|found| found.name).collect()
}

#[test]
fn what_can_be_passes() {
    let parts = [(Component::Weights, 15 * GIB), (Component::OtherTenants, GIB)];
    assert!(names(20 * GIB, &parts, &Facts::default()).is_empty());
    // Two decimals of each part may add up to a little more.
    let parts = [
        (Component::Weights, 15 * GIB),
        (Component::Activations, 5 * GIB + GIB / 10),
    ];
    assert!(names(20 * GIB, &parts, &Facts::default()).is_empty());
    assert!(implausible(None, &Facts::default()).is_empty());
}

#[test]
fn what_cannot_be_is_named() {
    let full = [(Component::OtherTenants, 5 * GIB)];
    assert_eq!(names(20 * GIB, &full, &Facts::default()), ["baseline_full"]);
    let parts = [(Component::Weights, 15 * GIB), (Component::KvPool, 6 * GIB)];
    assert_eq!(names(20 * GIB, &parts, &Facts::default()), ["parts_exceed_whole"]);
    assert_eq!(names(0, &[], &Facts::default()), ["nothing_measured"]);
    let small = Facts {
        capacity: Some(16 * GIB),
        ..Facts::default()
    };
    assert_eq!(names(20 * GIB, &[], &small), ["above_capacity"]);
}
