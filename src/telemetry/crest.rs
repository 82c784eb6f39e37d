//! The moment at which most memory was in use, and who held it then.
//!
//! Pure. Memory is looked at far more often than processes are, so the processes are those of the look nearest to the moment:
//! the one before it, or a later one that sees just as much memory.

use super::reading::{Device, Reading};

/// The moment at which most memory was in use on all devices together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crest {
    /// The devices at that moment.
    pub devices: Vec<Device>,
    /// The look at the processes that is nearest to it, with the memory that this look itself saw.
    pub beside: Reading,
}

impl Crest {
    /// Memory was looked at; `beside` is the newest look at the processes.
    pub(super) fn quick(&mut self, devices: &[Device], beside: &Reading) {
        if self.devices.is_empty() || used(devices) > used(&self.devices) {
            self.devices = devices.to_vec();
            self.beside = beside.clone();
        }
    }

    /// Memory and processes were looked at together.
    pub(super) fn whole(&mut self, reading: &Reading) {
        // As much as ever, and this look knows who holds it.
        if self.devices.is_empty() || reading.used() >= used(&self.devices) {
            self.devices.clone_from(&reading.devices);
            self.beside = reading.clone();
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
    fn the_highest_moment_stays_with_whoever_held_it() {
        let mut crest = Crest::default();
        crest.whole(&look(10, 8));
        crest.quick(&look(50, 0).devices, &look(10, 8));
        assert_eq!((crest.devices[0].used, crest.beside.used()), (50, 10));
        crest.quick(&look(30, 0).devices, &look(30, 29));
        assert_eq!(crest.beside.used(), 10, "a lower moment changes nothing");
        crest.whole(&look(40, 39));
        assert_eq!(crest.beside.used(), 10, "nor does a look that sees less");
        crest.whole(&look(50, 48));
        assert_eq!((crest.devices[0].used, crest.beside.tenants[0].used), (50, Some(48)));
        crest.quick(&look(50, 0).devices, &look(1, 1));
        assert_eq!(crest.beside.used(), 50, "the same once more is no news");
    }
}
