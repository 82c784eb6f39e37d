use proptest::prelude::*;

use super::*;
use crate::sim::profile::{MemoryProfile, Profile};

fn memory() -> DynamicMemory {
    match Profile::load("llama-1b-12gib-transformers").unwrap().memory {
        MemoryProfile::Dynamic(profile) => DynamicMemory::new(&profile, None),
        other => panic!("not dynamic: {other:?}"),
    }
}

proptest! {
    #[test]
    fn memory_never_shrinks_as_tokens_grow(tokens in 0_u64..200_000, more in 0_u64..10_000, resident in 0_u64..50_000) {
        let memory = memory();
        let small = memory.prefill(tokens, resident);
        let large = memory.prefill(tokens + more, resident);
        prop_assert!(small <= large);
        prop_assert!(memory.decode(resident) <= memory.decode(resident + more));
        prop_assert!(memory.reserved_for(small) <= memory.reserved_for(large));
        prop_assert!(memory.reserved_for(small) >= small);
    }

    #[test]
    fn fitting_is_monotone_and_reserved_stays_below_the_cap(sizes in prop::collection::vec(0_u64..150_000, 1..20)) {
        let mut memory = memory();
        for size in sizes {
            let fits = memory.grow(memory.prefill(size, 0)).is_ok();
            prop_assert_eq!(fits, memory.clone().grow(memory.prefill(size, 0)).is_ok());
            prop_assert!(memory.reserved <= memory.cap);
            if fits && size > 0 {
                let smaller = memory.prefill(size - 1, 0);
                prop_assert!(memory.clone().grow(smaller).is_ok());
            }
        }
    }
}

#[test]
fn usage_stays_after_a_request_and_drops_after_a_failure() {
    let mut memory = memory();
    let idle = memory.used();
    memory.grow(memory.prefill(32_768, 0)).unwrap();
    let high = memory.used();
    assert!(high > idle);
    memory.grow(memory.prefill(512, 0)).unwrap();
    assert_eq!(memory.used(), high);
    memory.grow(memory.prefill(98_304, 0)).unwrap_err();
    assert_eq!(memory.used(), idle);
}
