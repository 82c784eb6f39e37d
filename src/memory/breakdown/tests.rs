use proptest::prelude::*;

use super::*;

fn part(component: Component, bytes: i64, within: Option<Component>) -> Part {
    Part {
        component,
        bytes,
        provenance: Provenance::Measured,
        source: String::new(),
        within,
    }
}

#[test]
fn kv_in_use_lies_within_its_pool() {
    let parts = vec![
        part(Component::KvUsed, 30, Some(Component::KvPool)),
        part(Component::KvPool, 50, None),
        part(Component::Weights, 40, None),
    ];
    let breakdown = Breakdown::new(None, 100, parts).unwrap();
    assert_eq!(breakdown.unexplained(), 10);
    assert_eq!(breakdown.parts[0].component, Component::Weights);
}

#[test]
fn parts_that_cannot_be_are_refused() {
    let refused = |parts: Vec<Part>| Breakdown::new(None, 100, parts).unwrap_err().to_string();
    assert!(refused(vec![part(Component::Weights, -1, None)]).contains("below zero"));
    assert!(refused(vec![part(Component::Unexplained, 1, None)]).contains("leave it out"));
    let twice = vec![part(Component::Weights, 1, None), part(Component::Weights, 1, None)];
    assert!(refused(twice).contains("comes twice"));
    let alone = vec![part(Component::KvUsed, 1, Some(Component::KvPool))];
    assert!(refused(alone).contains("not among the parts"));
    let larger = vec![
        part(Component::KvPool, 1, None),
        part(Component::KvUsed, 2, Some(Component::KvPool)),
    ];
    assert!(refused(larger).contains("larger than"));
}

proptest! {
    #[test]
    fn parts_add_up_to_what_is_there(total in 0..1_u64 << 40, weights in 0..1_i64 << 40, pool in 0..1_i64 << 40) {
        let parts = vec![part(Component::Weights, weights, None), part(Component::KvPool, pool, None)];
        let breakdown = Breakdown::new(None, total, parts).unwrap();
        let sum: i64 = breakdown.parts.iter().map(|part| part.bytes).sum();
        prop_assert_eq!(u64::try_from(sum).unwrap(), total);
    }
}
