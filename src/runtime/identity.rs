//! Which host process a container or process belongs to, so that what a dead run left can be told from what a live one uses.
//!
//! A process number alone may be reused: it counts only with the start time, on the same boot, machine and pid namespace.

use std::fs;

/// A process of this machine, for as long as the machine exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Its number.
    pub(super) pid: u32,
    /// Clock ticks from boot to its start (`/proc/PID/stat`, field 22).
    pub(super) start_time: u64,
    /// `/proc/sys/kernel/random/boot_id`.
    pub(super) boot_id: String,
    /// `/etc/machine-id`; empty where there is none.
    pub(super) machine_id: String,
    /// The pid namespace, as `/proc/self/ns/pid` names it.
    pub(super) namespace: String,
}

/// What is known of the owner of something found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It lives: hands off.
    Alive,
    /// It is gone.
    Dead,
    /// It lives, if at all, where its process numbers mean nothing here: hands off.
    Elsewhere,
}

impl Identity {
    /// This process.
    #[must_use]
    pub(super) fn own() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start_time: start_time(pid).unwrap_or_default(),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            machine_id: read("/etc/machine-id"),
            namespace: fs::read_link("/proc/self/ns/pid")
                .map(|link| link.to_string_lossy().into_owned())
                .unwrap_or_default(),
        }
    }

    /// As one word: `PID:START:BOOT:MACHINE:NAMESPACE`.
    #[must_use]
    pub(super) fn mark(&self) -> String {
        let namespace: String = self.namespace.chars().filter(char::is_ascii_digit).collect();
        let Self {
            pid,
            start_time,
            boot_id,
            machine_id,
            ..
        } = self;
        format!("{pid}:{start_time}:{boot_id}:{machine_id}:{namespace}")
    }

    /// Reads a [`mark`](Self::mark).
    #[must_use]
    pub(super) fn parse(mark: &str) -> Option<Self> {
        let mut parts = mark.split(':');
        let identity = Self {
            pid: parts.next()?.parse().ok()?,
            start_time: parts.next()?.parse().ok()?,
            boot_id: parts.next()?.to_owned(),
            machine_id: parts.next()?.to_owned(),
            namespace: format!("pid:[{}]", parts.next()?),
        };
        parts.next().is_none().then_some(identity)
    }

    /// Whether this process still lives, seen from `here`.
    #[must_use]
    pub(super) fn owner(&self, here: &Self) -> Owner {
        self.owner_with(here, start_time)
    }

    fn owner_with(&self, here: &Self, start_time: impl Fn(u32) -> Option<u64>) -> Owner {
        if self.machine_id != here.machine_id {
            // A daemon shared between machines: the other one looks after its own.
            return Owner::Elsewhere;
        }
        if self.boot_id != here.boot_id {
            return Owner::Dead;
        }
        if self.namespace != here.namespace {
            return Owner::Elsewhere;
        }
        if start_time(self.pid) == Some(self.start_time) {
            Owner::Alive
        } else {
            Owner::Dead
        }
    }
}

/// When a process started, in clock ticks since boot; none when there is no such process, or only its zombie.
#[must_use]
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, `)` included: fields are counted from the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    (!matches!(state, "Z" | "X")).then(|| fields.nth(18)?.parse().ok())?
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn somebody() -> Identity {
        Identity {
            pid: 7,
            start_time: 100,
            boot_id: "b".into(),
            machine_id: "m".into(),
            namespace: "pid:[1]".into(),
        }
    }

    #[test]
    fn a_mark_survives_its_writing() {
        assert_eq!(Identity::parse(&Identity::own().mark()), Some(Identity::own()));
        assert_eq!(Identity::parse("7:x"), None);
    }

    #[test]
    fn this_process_lives() {
        assert_eq!(Identity::own().owner(&Identity::own()), Owner::Alive);
    }

    #[test]
    fn only_the_same_start_on_the_same_boot_is_alive() {
        let here = somebody();
        let alive = |_| Some(100);
        assert_eq!(somebody().owner_with(&here, alive), Owner::Alive);
        assert_eq!(
            somebody().owner_with(&here, |_| Some(101)),
            Owner::Dead,
            "reused number"
        );
        assert_eq!(somebody().owner_with(&here, |_| None), Owner::Dead);
        let rebooted = Identity {
            boot_id: "c".into(),
            ..somebody()
        };
        assert_eq!(rebooted.owner_with(&here, alive), Owner::Dead);
    }

    #[test]
    fn what_cannot_be_told_is_left_alone() {
        let here = somebody();
        let contained = Identity {
            namespace: "pid:[2]".into(),
            ..somebody()
        };
        assert_eq!(contained.owner_with(&here, |_| None), Owner::Elsewhere);
        let foreign = Identity {
            machine_id: "n".into(),
            boot_id: "c".into(),
            ..somebody()
        };
        assert_eq!(foreign.owner_with(&here, |_| None), Owner::Elsewhere);
    }
}
