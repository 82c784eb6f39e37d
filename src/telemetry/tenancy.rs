//! Whether the chosen GPUs are ours alone, and free again after the engine before.
//!
//! The judgements are pure; only [`settle`] waits.

use std::time::{Duration, Instant};

use crate::fault::{Fault, Kind, Result};

use super::reading::{Reading, Source};

/// What a foreign process may hold without disturbing: a desktop, a monitor.
pub const FOREIGN_LIMIT: u64 = 256 << 20;
/// Memory in use that no visible process explains may be the driver's own; beyond this it is a process that is hidden from here, in
/// another container.
const UNEXPLAINED_LIMIT: u64 = 1 << 30;
/// How far above its baseline memory may stay: the driver frees lazily.
pub const SETTLE_SLACK: u64 = 64 << 20;
/// Time between two looks while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Somebody else's memory on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The process; none when it is hidden from here.
    pub pid: Option<u32>,
    /// The device's id.
    pub device: String,
    /// Bytes.
    pub used: u64,
}

/// Who else holds more than [`FOREIGN_LIMIT`] on these devices.
pub fn foreigners(reading: &Reading, ours: impl Fn(u32) -> bool) -> Vec<Foreign> {
    let mut all = Vec::new();
    for device in &reading.devices {
        let tenants = reading.tenants.iter().filter(|tenant| tenant.device == device.id);
        let explained: u64 = tenants.clone().filter_map(|tenant| tenant.used).sum();
        let anonymous = tenants.clone().any(|tenant| tenant.used.is_none());
        all.extend(tenants.filter(|tenant| !ours(tenant.pid)).filter_map(|tenant| {
            let used = tenant.used.filter(|&used| used > FOREIGN_LIMIT)?;
            Some(Foreign {
                pid: Some(tenant.pid),
                device: device.id.clone(),
                used,
            })
        }));
        let unexplained = device.used.saturating_sub(explained);
        if unexplained > UNEXPLAINED_LIMIT && !anonymous {
            all.push(Foreign {
                pid: None,
                device: device.id.clone(),
                used: unexplained,
            });
        }
    }
    all
}

/// Refuses GPUs that somebody else uses. `ours` tells our own processes.
///
/// # Errors
///
/// `missing` (exit 3), with who holds what.
pub fn require_alone(reading: &Reading, ours: impl Fn(u32) -> bool) -> Result<()> {
    let foreigners = foreigners(reading, ours);
    if foreigners.is_empty() {
        return Ok(());
    }
    let holder = |foreign: &Foreign| {
        let who = foreign
            .pid
            .map_or("a hidden process".to_owned(), |pid| format!("process {pid}"));
        format!("{who} holds {} MiB of `{}`", foreign.used >> 20, foreign.device)
    };
    let holders: Vec<String> = foreigners.iter().map(holder).collect();
    Err(Fault::missing(
        format!("the GPU is not free: {}", holders.join(", ")),
        "end that process, choose other `gpus`, or accept it with --shared-gpu",
    ))
}

/// How many bytes each device holds beyond its baseline and [`SETTLE_SLACK`]; empty when all is settled. A device that the
/// baseline does not know had nothing in use then.
#[must_use]
pub fn unsettled(baseline: &Reading, now: &Reading) -> Vec<(String, u64)> {
    let before = |id: &str| {
        let known = baseline.devices.iter().find(|device| device.id == id);
        known.map_or(0, |device| device.used)
    };
    now.devices
        .iter()
        .map(|device| (device.id.clone(), device.used.saturating_sub(before(&device.id))))
        .filter(|(_, excess)| *excess > SETTLE_SLACK)
        .collect()
}

/// Waits until memory is back at its baseline, and gives the time that took.
///
/// # Errors
///
/// `missing` (exit 3) when it is not within `timeout`; `io` when the source cannot be read at the end of it.
pub async fn settle(source: &mut dyn Source, baseline: &Reading, timeout: Duration) -> Result<Duration> {
    let began = Instant::now();
    loop {
        let reading = source.read();
        let over = began.elapsed() >= timeout;
        match reading.map(|now| unsettled(baseline, &now)) {
            Ok(rest) if rest.is_empty() => return Ok(began.elapsed()),
            Ok(rest) if over => return Err(never_settled(&rest, timeout)),
            Err(fault) if over || fault.kind == Kind::Interrupted => return Err(fault),
            Ok(_) | Err(_) => tokio::time::sleep(LOOK_EVERY.min(timeout)).await,
        }
    }
}

fn never_settled(rest: &[(String, u64)], timeout: Duration) -> Fault {
    let rest: Vec<String> = rest
        .iter()
        .map(|(id, excess)| format!("{} MiB of `{id}`", excess >> 20))
        .collect();
    Fault::missing(
        format!(
            "after {} s, still in use beyond the baseline: {}",
            timeout.as_secs_f64(),
            rest.join(", ")
        ),
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
    fn only_large_foreign_holders_count() {
        let reading = reading(2000, &[(1, Some(256)), (2, Some(257)), (3, Some(900)), (4, None)]);
        let foreign = foreigners(&reading, |pid| pid == 3);
        assert_eq!(foreign.iter().map(|foreign| foreign.pid).collect::<Vec<_>>(), [Some(2)]);
        let fault = require_alone(&reading, |pid| pid == 3).unwrap_err();
        assert_eq!(fault.kind.exit_code(), 3);
        assert!(fault.message.contains("process 2 holds 257 MiB"), "{fault}");
        assert!(require_alone(&reading, |pid| pid >= 2).is_ok());
    }

    #[test]
    fn memory_that_nobody_explains_is_a_hidden_process_unless_it_is_the_drivers() {
        assert!(foreigners(&reading(615, &[]), |_| false).is_empty());
        assert_eq!(foreigners(&reading(20_000, &[]), |_| true)[0].pid, None);
        assert!(foreigners(&reading(20_000, &[(9, Some(19_500))]), |pid| pid == 9).is_empty());
    }

    proptest! {
        #[test]
        fn settled_means_within_the_slack(baseline in 0_u64..1000, now in 0_u64..2000) {
            let rest = unsettled(&reading(baseline, &[]), &reading(now, &[]));
            prop_assert_eq!(rest.is_empty(), now <= baseline + 64);
        }
    }

    #[tokio::test]
    async fn waiting_ends_when_memory_is_back() {
        let mut looks = 0;
        let mut source = Polled::new("sim", || {
            looks += 1;
            Ok(reading(if looks < 3 { 500 } else { 20 }, &[]))
        });
        settle(&mut source, &reading(0, &[]), Duration::from_secs(60))
            .await
            .unwrap();
        assert_eq!(looks, 3);
    }

    #[tokio::test]
    async fn waiting_in_vain_is_told_with_a_remedy() {
        let mut source = Polled::new("sim", || Ok(reading(500, &[])));
        let fault = settle(&mut source, &reading(0, &[]), Duration::from_millis(10))
            .await
            .unwrap_err();
        assert_eq!(fault.kind, Kind::Missing);
        assert!(
            fault.message.contains("500 MiB of `g`") && fault.hint.is_some(),
            "{fault}"
        );
    }
}
