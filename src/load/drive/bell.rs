//! What wakes the client's thread beside its sockets: a bell that other threads ring, and an alarm.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// Rung by any thread.
pub(super) struct Bell(EventFd);

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self(EventFd::from_flags(flags)?))
    }

    pub(super) fn ring(&self) {
        // It fails only where it has been rung 2^64 times unheard.
        let _heard_anyway = self.0.write(1);
    }

    pub(super) fn hush(&self) {
        let _was_silent = self.0.read();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Goes off at a moment. A timer of the kernel's own: the timeout of `epoll_wait` counts whole milliseconds only.
pub(super) struct Alarm {
    timer: TimerFd,
    set: Option<Instant>,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Self {
            timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?,
            set: None,
        })
    }

    /// Sets it, unless it is set to that moment.
    pub(super) fn set(&mut self, at: Option<Instant>) -> io::Result<()> {
        if at == self.set {
            return Ok(());
        }
        self.set = at;
        match at {
            Some(at) => {
                // Zero would turn it off.
                let wait = at
                    .saturating_duration_since(Instant::now())
                    .max(Duration::from_nanos(1));
                let once = Expiration::OneShot(TimeSpec::from(wait));
                self.timer.set(once, TimerSetTimeFlags::empty())?;
            }
            None => self.timer.unset()?,
        }
        Ok(())
    }

    /// It went off.
    pub(super) fn hush(&mut self) -> io::Result<()> {
        self.set = None;
        match self.timer.wait() {
            Ok(()) | Err(Errno::EAGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
