//! Waits for Docker's `oom` event, which may arrive after the container's exit.
//!
//! Before 2.3, containerd's shim publishes OOM kill and exit from two threads, in either order (`pkg/oom`, later
//! `internal/oom`: containerd/containerd#12714). The daemon handles each as it arrives: it sets `OOMKilled` and emits
//! `oom` when it hears of the kill, whether or not the container still runs (moby, `daemon/monitor.go`,
//! `ProcessEvent`). So the state read right after the exit may be too early.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::models::ContainerState;
use bollard::query_parameters::EventsOptionsBuilder;
use futures_util::StreamExt;

/// How long after the exit the event may still arrive.
const MAX_DELAY: Duration = Duration::from_secs(2);

/// 128 + SIGKILL.
const SIGKILL_EXIT_CODE: i64 = 137;

/// Waits for the event if it may still arrive: after a recent SIGKILL without a known cause. Returns whether it
/// arrived.
pub(super) async fn wait_for(docker: &Docker, id: &str, state: &ContainerState) -> bool {
    let killed = !state.running.unwrap_or(false) && state.exit_code == Some(SIGKILL_EXIT_CODE);
    if !killed || state.oom_killed.unwrap_or(false) {
        return false;
    }
    let Some(remaining) = remaining(state.finished_at.as_deref(), jiff::Timestamp::now()) else {
        return false;
    };
    let filters = HashMap::from([
        ("type", vec!["container"]),
        ("container", vec![id]),
        ("event", vec!["oom"]),
    ]);
    let mut options = EventsOptionsBuilder::default().filters(&filters);
    // In the daemon's time; events since the container's start are replayed.
    if let Some(started) = state
        .started_at
        .as_deref()
        .and_then(|time| time.parse::<jiff::Timestamp>().ok())
    {
        options = options.since(&started.as_second().to_string());
    }
    let mut events = std::pin::pin!(docker.events(Some(options.build())));
    matches!(tokio::time::timeout(remaining, events.next()).await, Ok(Some(Ok(_))))
}

/// Time in which the event may still arrive; none if it is over. If our clock is behind the daemon's, the full delay.
fn remaining(finished_at: Option<&str>, now: jiff::Timestamp) -> Option<Duration> {
    let finished: jiff::Timestamp = finished_at?.parse().ok()?;
    let since = Duration::try_from(now.duration_since(finished)).unwrap_or_default();
    MAX_DELAY.checked_sub(since).filter(|remaining| !remaining.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oom_event_is_awaited_only_shortly_after_the_exit() {
        let now: jiff::Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        assert_eq!(
            remaining(Some("2026-01-01T00:00:09.5Z"), now),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(remaining(Some("2026-01-01T00:00:08Z"), now), None);
        assert_eq!(remaining(Some("2025-01-01T00:00:08Z"), now), None);
        assert_eq!(
            remaining(Some("2026-01-01T00:00:20Z"), now),
            Some(MAX_DELAY),
            "clocks differ"
        );
        assert_eq!((remaining(None, now), remaining(Some("soon"), now)), (None, None));
    }
}
