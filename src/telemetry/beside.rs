//! What is looked at beside memory, at a slower rate: power and utilisation of devices, and who holds how much.
//!
//! Pure, and bounded: times are microseconds since the sampler's start. When there are too many rows, neighbours are merged: power and
//! utilisation to their mean, what a process holds to the highest.

use std::collections::HashMap;

use super::phase::Phase;
use super::reading::{Reading, Tenant};

/// Rows kept of each kind before neighbours are merged: almost two hours of ten looks a second.
const MOST_ROWS: usize = 1 << 16;

/// What one device did over one or more looks.
#[derive(Clone, Debug, PartialEq)]
pub struct Doing {
    /// The device's id.
    pub device: String,
    /// Power drawn, in watts.
    pub power_w: Option<f64>,
    /// Share of the time in which it computed, in per cent.
    pub busy_percent: Option<f64>,
}

/// What the devices did at one look, or on average over several.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    /// Time of the first look, in microseconds since the sampler's start.
    pub from: u64,
    /// Time of the last look, in microseconds since the sampler's start.
    pub to: u64,
    /// What the engine was doing.
    pub phase: Phase,
    /// How many looks.
    pub looks: u64,
    /// Each device that tells.
    pub doings: Vec<Doing>,
}

/// What one process held on one device, as long as it held the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Time of the first look, in microseconds since the sampler's start.
    pub from: u64,
    /// Time of the last look, in microseconds since the sampler's start.
    pub to: u64,
    /// How many looks.
    pub looks: u64,
    /// The process, the device, and the bytes.
    pub tenant: Tenant,
}

/// What was seen beside memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    moments: Vec<Moment>,
    holdings: Vec<Holding>,
    /// The row of each process on each device that is still growing.
    open: HashMap<(u32, String), usize>,
    limit: usize,
}

impl Beside {
    /// Adds a look. Times never go back.
    pub fn push(&mut self, at: u64, phase: Phase, reading: &Reading) {
        if !reading.activity.is_empty() {
            self.moments.push(Moment {
                from: at,
                to: at,
                phase,
                looks: 1,
                doings: reading.activity.iter().map(doing).collect(),
            });
        }
        for tenant in &reading.tenants {
            self.hold(at, tenant);
        }
        let here = |pid: u32, device: &str| {
            let mut tenants = reading.tenants.iter();
            tenants.any(|tenant| tenant.pid == pid && tenant.device == device)
        };
        self.open.retain(|(pid, device), _| here(*pid, device));
        if self.moments.len() > MOST_ROWS {
            self.moments = halved(std::mem::take(&mut self.moments));
        }
        if self.holdings.len() > self.limit.max(MOST_ROWS) {
            self.merge_holdings();
        }
    }

    /// Power and utilisation, oldest first.
    #[must_use]
    pub fn moments(&self) -> &[Moment] {
        &self.moments
    }

    /// Who held how much and when, by the time at which each began to.
    #[must_use]
    pub fn holdings(&self) -> &[Holding] {
        &self.holdings
    }

    fn hold(&mut self, at: u64, tenant: &Tenant) {
        let key = (tenant.pid, tenant.device.clone());
        if let Some(row) = self.open.get(&key).and_then(|&row| self.holdings.get_mut(row))
            && row.tenant.used == tenant.used
        {
            row.to = at;
            row.looks += 1;
            return;
        }
        self.open.insert(key, self.holdings.len());
        self.holdings.push(Holding {
            from: at,
            to: at,
            looks: 1,
            tenant: tenant.clone(),
        });
    }

    /// Merges each process's rows on a device, two and two.
    fn merge_holdings(&mut self) {
        let mut merged: Vec<Holding> = Vec::with_capacity(self.holdings.len());
        let mut partners: HashMap<(u32, String), usize> = HashMap::new();
        self.open.clear();
        for row in self.holdings.drain(..) {
            let key = (row.tenant.pid, row.tenant.device.clone());
            match partners.remove(&key).and_then(|at| merged.get_mut(at)) {
                Some(first) => {
                    first.to = row.to;
                    first.looks += row.looks;
                    first.tenant.used = first.tenant.used.max(row.tenant.used);
                }
                None => {
                    partners.insert(key, merged.len());
                    merged.push(row);
                }
            }
        }
        self.holdings = merged;
        // Many processes that came and went cannot be merged: trying again on every look would take for ever.
        self.limit = 2 * self.holdings.len();
    }
}

fn doing(activity: &super::reading::Activity) -> Doing {
    Doing {
        device: activity.device.clone(),
        power_w: activity.power_mw.map(|power| power as f64 / 1000.0),
        busy_percent: activity.busy_percent.map(|busy| busy as f64),
    }
}

/// Neighbours of one phase and the same devices, two and two.
fn halved(rows: Vec<Moment>) -> Vec<Moment> {
    let mut merged: Vec<Moment> = Vec::with_capacity(rows.len() / 2 + 1);
    let mut open = false;
    for row in rows {
        match merged.last_mut() {
            Some(last) if open && fits(last, &row) => {
                join(last, &row);
                open = false;
            }
            _ => {
                merged.push(row);
                open = true;
            }
        }
    }
    merged
}

fn fits(last: &Moment, row: &Moment) -> bool {
    let ids = |moment: &Moment| -> Vec<String> { moment.doings.iter().map(|doing| doing.device.clone()).collect() };
    last.phase == row.phase && ids(last) == ids(row)
}

fn join(into: &mut Moment, row: &Moment) {
    let (a, b) = (into.looks as f64, row.looks as f64);
    let mean = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some((one * a + other * b) / (a + b)),
        (one, other) => one.or(other),
    };
    for (doing, other) in into.doings.iter_mut().zip(&row.doings) {
        doing.power_w = mean(doing.power_w, other.power_w);
        doing.busy_percent = mean(doing.busy_percent, other.busy_percent);
    }
    into.to = row.to;
    into.looks += row.looks;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Activity;

    fn look(power_mw: u64, held: &[(u32, u64)]) -> Reading {
        Reading {
            devices: Vec::new(),
            tenants: held
                .iter()
                .map(|&(pid, used)| Tenant {
                    pid,
                    device: "g".into(),
                    used: Some(used),
                })
                .collect(),
            activity: vec![Activity {
                device: "g".into(),
                power_mw: Some(power_mw),
                busy_percent: None,
            }],
        }
    }

    #[test]
    fn a_process_has_a_row_for_each_amount_and_each_stay() {
        let mut beside = Beside::default();
        for (at, held) in [
            (0, vec![(1, 5)]),
            (1, vec![(1, 5), (2, 9)]),
            (2, vec![(1, 6)]),
            (3, vec![(1, 6), (2, 9)]),
        ] {
            beside.push(at, Phase::Load, &look(0, &held));
        }
        let rows: Vec<_> = beside
            .holdings()
            .iter()
            .map(|row| (row.tenant.pid, row.tenant.used, row.from, row.to, row.looks))
            .collect();
        assert_eq!(
            rows,
            [
                (1, Some(5), 0, 1, 2),
                (2, Some(9), 1, 1, 1),
                (1, Some(6), 2, 3, 2),
                (2, Some(9), 3, 3, 1)
            ],
            "process 2 left in between"
        );
    }

    #[test]
    fn however_long_it_runs_the_rows_are_bounded_and_say_the_same() {
        let mut beside = Beside::default();
        let looks = 2 * MOST_ROWS as u64 + 9;
        for at in 0..looks {
            let held = if at == 101 { looks } else { at };
            beside.push(at, Phase::Load, &look(at % 2 * 2000, &[(1, held)]));
        }
        assert!(beside.moments().len() <= MOST_ROWS && beside.holdings().len() <= 2 * MOST_ROWS);
        assert_eq!(beside.moments().iter().map(|row| row.looks).sum::<u64>(), looks);
        assert_eq!(beside.holdings().iter().map(|row| row.looks).sum::<u64>(), looks);
        let energy: f64 = beside
            .moments()
            .iter()
            .map(|row| row.doings[0].power_w.unwrap() * row.looks as f64)
            .sum();
        assert!((energy - looks as f64).abs() <= 1.0, "one watt on average: {energy}");
        let most = beside.holdings().iter().filter_map(|row| row.tenant.used).max();
        assert_eq!(most, Some(looks), "the highest is never lost");
    }
}
