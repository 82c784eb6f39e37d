//! Wake-up sources of the client's thread besides its sockets: a waker for other threads, and a timer.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

/// Wakes the client's event loop from any thread (an eventfd).
pub(super) struct Waker(EventFd);

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self(EventFd::from_flags(flags)?))
    }

    pub(super) fn wake(&self) {
        // Fails only if the counter is full (2^64 wake-ups); the loop wakes up anyway.
        let _ignored = self.0.write(1);
    }

    pub(super) fn clear(&self) {
        let _ignored = self.0.read();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Fires at a given time. Uses a timerfd because `epoll_wait` only has millisecond resolution.
pub(super) struct Timer {
    timer: TimerFd,
    set: Option<Instant>,
}

impl Timer {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        Ok(Self {
            timer: TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?,
            set: None,
        })
    }

    /// Sets the timer; does nothing if it is already set to that time.
    pub(super) fn set(&mut self, at: Option<Instant>) -> io::Result<()> {
        if at == self.set {
            return Ok(());
        }
        self.set = at;
        match at {
            Some(at) => {
                // Zero would disarm the timer.
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

    /// Call after the timer fired.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.set = None;
        match self.timer.wait() {
            Ok(()) | Err(Errno::EAGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
