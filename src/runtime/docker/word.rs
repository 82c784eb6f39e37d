//! The daemon's word that the kernel killed a container for its memory, which may come after the container's end.
//!
//! Before 2.3, containerd's shim publishes the kill and the exit from two threads, in either order (`pkg/oom`, and since then `internal/oom`: containerd/containerd#12714).
//! The daemon takes each as it comes: `OOMKilled` is set, and an `oom` event told, when it hears of the kill, be the container running or not (moby, `daemon/monitor.go`,
//! `ProcessEvent`). So what is seen at the exit alone may be too early.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::models::ContainerState;
use bollard::query_parameters::EventsOptionsBuilder;
use futures_util::StreamExt;

/// How long after a container's end the word is waited for.
const LATE: Duration = Duration::from_secs(2);

/// The exit status of what was killed by signal 9.
const KILLED: i64 = 137;

/// Waits for the word where it may still come: after a kill that nobody explained yet, and a moment ago. It returns when the daemon tells of the kernel's kill, or
/// when that would be too late.
pub(super) async fn awaited(docker: &Docker, id: &str, state: &ContainerState) -> bool {
    let killed = !state.running.unwrap_or(false) && state.exit_code == Some(KILLED);
    if !killed || state.oom_killed.unwrap_or(false) {
        return false;
    }
    let Some(left) = left(state.finished_at.as_deref(), jiff::Timestamp::now()) else {
        return false;
    };
    let filters = HashMap::from([
        ("type", vec!["container"]),
        ("container", vec![id]),
        ("event", vec!["oom"]),
    ]);
    let mut options = EventsOptionsBuilder::default().filters(&filters);
    // By the daemon's clock: what was told since the start is told again.
    if let Some(started) = state
        .started_at
        .as_deref()
        .and_then(|time| time.parse::<jiff::Timestamp>().ok())
    {
        options = options.since(&started.as_second().to_string());
    }
    let mut events = std::pin::pin!(docker.events(Some(options.build())));
    matches!(tokio::time::timeout(left, events.next()).await, Ok(Some(Ok(_))))
}

/// What is left of the time in which the word may come; none when it is over. A clock that is behind the daemon's leaves all of it.
fn left(finished_at: Option<&str>, now: jiff::Timestamp) -> Option<Duration> {
    let finished: jiff::Timestamp = finished_at?.parse().ok()?;
    let since = Duration::try_from(now.duration_since(finished)).unwrap_or_default();
    LATE.checked_sub(since).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_waited_for_only_a_moment_after_the_end() {
        let now: jiff::Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        assert_eq!(
            left(Some("2026-01-01T00:00:09.5Z"), now),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(left(Some("2026-01-01T00:00:08Z"), now), None);
        assert_eq!(left(Some("2025-01-01T00:00:08Z"), now), None);
        assert_eq!(left(Some("2026-01-01T00:00:20Z"), now), Some(LATE), "clocks differ");
        assert_eq!((left(None, now), left(Some("soon"), now)), (None, None));
    }
}
