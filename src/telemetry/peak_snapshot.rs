//! The moment of peak memory, and the processes that held it.
//!
//! Pure. Memory is sampled far more often than processes, so the processes are those of the nearest sample: the one
//! before the peak, or a later one with at least as much memory.

use super::reading::{Device, Reading};

/// The moment at which total memory on all devices was highest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeakSnapshot {
    /// The devices at that moment.
    pub devices: Vec<Device>,
    /// The nearest sample of processes, with the memory seen by that sample itself.
    pub processes: Reading,
}

impl PeakSnapshot {
    /// Adds a memory sample; `processes` is the latest sample of processes.
    pub(super) fn add_memory(&mut self, devices: &[Device], processes: &Reading) {
        if self.devices.is_empty() || used(devices) > used(&self.devices) {
            self.devices = devices.to_vec();
            self.processes = processes.clone();
        }
    }

    /// Adds a sample of memory and processes.
    pub(super) fn add_full(&mut self, reading: &Reading) {
        // Also if equal: this sample knows the processes.
        if self.devices.is_empty() || reading.used() >= used(&self.devices) {
            self.devices.clone_from(&reading.devices);
            self.processes = reading.clone();
        }
    }
}

fn used(devices: &[Device]) -> u64 {
    devices.iter().map(|device| device.used).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Tenant;

    fn look(used: u64, held: u64) -> Reading {
        Reading {
            devices: vec![Device {
                id: "g".into(),
                name: "x".into(),
                used,
                total: 100,
            }],
            tenants: vec![Tenant {
                pid: 1,
                device: "g".into(),
                used: Some(held),
            }],
            activity: Vec::new(),
        }
    }

    #[test]
    fn peak_keeps_its_processes() {
        let mut peak = PeakSnapshot::default();
        peak.add_full(&look(10, 8));
        peak.add_memory(&look(50, 0).devices, &look(10, 8));
        assert_eq!((peak.devices[0].used, peak.processes.used()), (50, 10));
        peak.add_memory(&look(30, 0).devices, &look(30, 29));
        assert_eq!(peak.processes.used(), 10, "a lower moment changes nothing");
        peak.add_full(&look(40, 39));
        assert_eq!(peak.processes.used(), 10, "nor does a sample with less memory");
        peak.add_full(&look(50, 48));
        assert_eq!((peak.devices[0].used, peak.processes.tenants[0].used), (50, Some(48)));
        peak.add_memory(&look(50, 0).devices, &look(1, 1));
        assert_eq!(peak.processes.used(), 50, "an equal memory sample changes nothing");
    }
}
