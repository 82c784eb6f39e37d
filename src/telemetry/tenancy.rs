//! Checks whether the selected GPUs are exclusively ours, and free again after the previous engine.
//!
//! All checks are pure; only [`settle`] waits.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Reading, Source};
use crate::fault::{Fault, Kind, Result};

/// Memory that a foreign process may use without causing an error, such as a desktop or a monitor.
pub const FOREIGN_LIMIT: u64 = 256 << 20;
/// Memory that no visible process explains may be the driver's own. Above this limit it belongs to a hidden process,
/// such as one in another container.
const UNEXPLAINED_LIMIT: u64 = 1 << 30;
/// The allowed excess over the baseline, because the driver frees memory lazily.
pub const SETTLE_SLACK: u64 = 64 << 20;
/// Polling interval while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Memory of a foreign process on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignProcess {
    /// Process id; `None` if the process is hidden.
    pub pid: Option<u32>,
    /// The device's id.
    pub device: String,
    /// Bytes.
    pub used: u64,
}

/// Foreign processes with more than [`FOREIGN_LIMIT`] on these devices. `ours` identifies our own processes.
pub fn foreign_processes(reading: &Reading, ours: impl Fn(u32) -> bool) -> Vec<ForeignProcess> {
    let mut all = Vec::new();
    for device in &reading.devices {
        let tenants = reading.tenants.iter().filter(|tenant| tenant.device == device.id);
        let explained: u64 = tenants.clone().filter_map(|tenant| tenant.used).sum();
        let anonymous = tenants.clone().any(|tenant| tenant.used.is_none());
        all.extend(tenants.filter(|tenant| !ours(tenant.pid)).filter_map(|tenant| {
            let used = tenant.used.filter(|&used| used > FOREIGN_LIMIT)?;
            Some(ForeignProcess {
                pid: Some(tenant.pid),
                device: device.id.clone(),
                used,
            })
        }));
        let unexplained = device.used.saturating_sub(explained);
        if unexplained > UNEXPLAINED_LIMIT && !anonymous {
            all.push(ForeignProcess {
                pid: None,
                device: device.id.clone(),
                used: unexplained,
            });
        }
    }
    all
}

/// Fails if a foreign process uses the GPUs. `ours` identifies our own processes.
///
/// # Errors
///
/// `missing` (exit 3) with the processes and their memory.
pub fn require_alone(reading: &Reading, ours: impl Fn(u32) -> bool) -> Result<()> {
    let foreign_processes = foreign_processes(reading, ours);
    if foreign_processes.is_empty() {
        return Ok(());
    }
    let describe = |foreign: &ForeignProcess| {
        let pid = foreign.pid.map(|pid| format!("process {pid}"));
        let who = pid.as_deref().unwrap_or("a hidden process");
        format!("{who} holds {} MiB of `{}`", foreign.used >> 20, foreign.device)
    };
    let descriptions: Vec<String> = foreign_processes.iter().map(describe).collect();
    Err(Fault::missing(
        format!("the GPU is not free: {}", descriptions.join(", ")),
        "end that process, choose other `gpus`, or accept it with --shared-gpu",
    ))
}

/// The excess of each device over its baseline plus [`SETTLE_SLACK`], in bytes; empty if memory has settled. The
/// baseline of an unknown device is 0.
pub fn unsettled(baseline: &Reading, now: &Reading) -> Vec<(String, u64)> {
    let over = excess(baseline, now).filter(|(_, excess)| *excess > SETTLE_SLACK);
    over.map(|(id, excess)| (id.to_owned(), excess)).collect()
}

/// The excess of each device over its baseline, in bytes.
fn excess<'a>(baseline: &'a Reading, now: &'a Reading) -> impl Iterator<Item = (&'a str, u64)> {
    let before = |id: &str| {
        let device = baseline.devices.iter().find(|device| device.id == id);
        device.map_or(0, |device| device.used)
    };
    let devices = now.devices.iter();
    devices.map(move |device| (device.id.as_str(), device.used.saturating_sub(before(&device.id))))
}

/// Memory before a start, compared with the baseline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// Seconds waited for it to come back.
    pub seconds: f64,
    /// Bytes above the baseline, summed over the devices; within [`SETTLE_SLACK`] on each if it came back.
    pub above: u64,
    /// Whether it came back.
    pub back: bool,
}

impl Settled {
    /// Compares a reading with the baseline, `waited` after the wait began.
    pub fn new(baseline: &Reading, now: &Reading, waited: Duration) -> Self {
        Self {
            seconds: waited.as_secs_f64(),
            above: excess(baseline, now).map(|(_, excess)| excess).sum(),
            back: unsettled(baseline, now).is_empty(),
        }
    }
}

/// Waits until memory is back at its baseline, at most `timeout`, and returns what was seen last.
///
/// # Errors
///
/// `io` if the source cannot be read by then; `interrupted`.
pub async fn settle(source: &mut dyn Source, baseline: &Reading, timeout: Duration) -> Result<(Settled, Reading)> {
    let began = Instant::now();
    loop {
        let reading = source.read();
        let waited = began.elapsed();
        let timed_out = waited >= timeout;
        match reading.map(|now| (Settled::new(baseline, &now, waited), now)) {
            Ok((seen, now)) if seen.back || timed_out => return Ok((seen, now)),
            Err(fault) if timed_out || fault.kind == Kind::Interrupted => return Err(fault),
            Ok(_) | Err(_) => tokio::time::sleep(POLL_INTERVAL.min(timeout)).await,
        }
    }
}

/// The fault if memory did not come back.
pub fn never_settled(baseline: &Reading, now: &Reading, timeout: Duration) -> Fault {
    let excess_by_device = unsettled(baseline, now);
    let excess = excess_by_device
        .iter()
        .map(|(id, excess)| format!("{} MiB of `{id}`", excess >> 20));
    let (excess, seconds) = (excess.collect::<Vec<_>>().join(", "), timeout.as_secs_f64());
    Fault::missing(
        format!("memory still above the baseline after {seconds} s: {excess}"),
        "end what holds it (see `gpu::sample()`), raise `settle_timeout`, or accept it with --shared-gpu",
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::telemetry::{Device, Polled, Tenant};

    const MIB: u64 = 1 << 20;

    fn reading(used: u64, tenants: &[(u32, Option<u64>)]) -> Reading {
        Reading {
            devices: vec![Device {
                id: "g".into(),
                name: "test".into(),
                used: used * MIB,
                total: 100_000 * MIB,
            }],
            tenants: tenants
                .iter()
                .map(|&(pid, used)| Tenant {
                    pid,
                    device: "g".into(),
                    used: used.map(|mib| mib * MIB),
                })
                .collect(),
            activity: Vec::new(),
        }
    }

    #[test]
    fn only_large_foreign_processes_count() {
        let reading = reading(2000, &[(1, Some(256)), (2, Some(257)), (3, Some(900)), (4, None)]);
        let foreign = foreign_processes(&reading, |pid| pid == 3);
        assert_eq!(foreign.iter().map(|foreign| foreign.pid).collect::<Vec<_>>(), [Some(2)]);
        let fault = require_alone(&reading, |pid| pid == 3).unwrap_err();
        assert_eq!(fault.kind.exit_code(), 3);
        assert!(fault.message.contains("process 2 holds 257 MiB"), "{fault}");
        assert!(require_alone(&reading, |pid| pid >= 2).is_ok());
    }

    #[test]
    fn unexplained_memory_is_a_hidden_process_above_the_drivers_own() {
        assert!(foreign_processes(&reading(615, &[]), |_| false).is_empty());
        assert_eq!(foreign_processes(&reading(20_000, &[]), |_| true)[0].pid, None);
        assert!(foreign_processes(&reading(20_000, &[(9, Some(19_500))]), |pid| pid == 9).is_empty());
    }

    proptest! {
        #[test]
        fn settled_means_within_the_slack(baseline in 0_u64..1000, now in 0_u64..2000) {
            let excess_by_device = unsettled(&reading(baseline, &[]), &reading(now, &[]));
            prop_assert_eq!(excess_by_device.is_empty(), now <= baseline + 64);
        }
    }

    #[tokio::test]
    async fn waiting_ends_when_memory_is_back() {
        let mut looks = 0;
        let mut source = Polled::new("sim", || {
            looks += 1;
            Ok(reading(if looks < 3 { 500 } else { 20 }, &[]))
        });
        let (seen, _) = settle(&mut source, &reading(0, &[]), Duration::from_secs(60))
            .await
            .unwrap();
        assert_eq!((seen.above, seen.back), (20 * MIB, true));
        assert_eq!(looks, 3);
    }

    #[tokio::test]
    async fn settle_timeout_has_a_remedy() {
        let mut source = Polled::new("sim", || Ok(reading(500, &[])));
        let timeout = Duration::from_millis(10);
        let (seen, now) = settle(&mut source, &reading(0, &[]), timeout).await.unwrap();
        assert_eq!((seen.above, seen.back), (500 * MIB, false));
        let fault = never_settled(&reading(0, &[]), &now, timeout);
        assert_eq!(fault.kind, Kind::Missing);
        assert!(
            fault.message.contains("500 MiB of `g`") && fault.hint.is_some(),
            "{fault}"
        );
    }
}
