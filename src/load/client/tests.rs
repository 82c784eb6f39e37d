use std::fs;

use super::event_loop::{grow_file_table, raise_file_limit};
use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn ramp_opens_slots_evenly() {
    let slots = Slots::Closed {
        concurrency: 4,
        ramp: ms(100),
    };
    let levels: Vec<_> = [0, 24, 25, 50, 74, 75, 99, 100, 500]
        .map(|at| slots.level(ms(at)).unwrap())
        .into();
    assert_eq!(levels, [1, 1, 2, 3, 3, 4, 4, 4, 4]);
    assert_eq!(slots.next_change(ms(30)), Some(ms(50)));
    assert_eq!((slots.next_change(ms(80)), slots.opened(3, ms(80))), (None, ms(50)));
}

#[test]
fn every_slot_of_a_long_ramp_opens_on_time() {
    let slots = Slots::Closed {
        concurrency: 997,
        ramp: ms(3333),
    };
    let mut now = Duration::ZERO;
    for number in 1..=997 {
        assert_eq!(slots.level(now), Some(number), "at {now:?}");
        assert_eq!(slots.opened(number, now), now);
        now = slots.next_change(now).unwrap_or(now);
    }
}

#[test]
fn steps_rise_and_fall() {
    let step = |begins, concurrency| Step { begins, concurrency };
    let slots = Slots::Steps(vec![step(ms(0), 2), step(ms(10), 8), step(ms(20), 1)]);
    assert_eq!([5, 10, 25].map(|at| slots.level(ms(at))), [Some(2), Some(8), Some(1)]);
    assert_eq!((slots.next_change(ms(10)), slots.connections()), (Some(ms(20)), 8));
}

#[test]
fn file_table_is_large_enough_before_the_load() {
    // The kernel's own figure, of this process.
    let size = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    // Larger than other tests of this process make it.
    let connections = 2 * size() + 1000;
    raise_file_limit(connections).unwrap();
    grow_file_table(&fs::File::open("/dev/null").unwrap(), connections);
    assert!(size() > connections, "{} of {connections}", size());
}
