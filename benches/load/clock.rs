//! The clock shared by server and client, and CPU time.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// The current time of the clock that all processes of this machine share.
pub fn monotonic() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap())
}

/// The reading of this clock at `at`.
pub fn reading(at: Instant) -> Duration {
    monotonic() - at.elapsed()
}

/// CPU time of a process: user, system.
pub fn cpu(who: UsageWho) -> (Duration, Duration) {
    let usage = getrusage(who).unwrap();
    let time = |value: nix::sys::time::TimeVal| {
        Duration::from_micros(u64::try_from(value.tv_sec() * 1_000_000 + value.tv_usec()).unwrap())
    };
    (time(usage.user_time()), time(usage.system_time()))
}

/// Time stolen by the hypervisor, and total time, in ticks.
pub fn stolen() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let fields: Vec<u64> = stat
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|field| field.parse().unwrap())
        .collect();
    (fields[7], fields[..8].iter().sum())
}
