//! Containers and processes that dead runs left behind: listed, and ended on request.

use super::finding::Finding;
use crate::fault::Result;
use crate::runtime::orphans::{self, Orphan};

const NAME: &str = "leftovers";

/// Looks for containers and processes with our mark whose host process is dead. Without Docker, for processes
/// only.
pub(super) async fn check(clean: bool) -> Finding {
    let mut found = orphans::processes();
    found.extend(orphans::containers().await.unwrap_or_default());
    let (dead, elsewhere): (Vec<Orphan>, Vec<Orphan>) = found.into_iter().partition(|orphan| orphan.dead);
    if dead.is_empty() {
        return match elsewhere.as_slice() {
            [] => Finding::ok(NAME, "none"),
            some => Finding::attention(
                NAME,
                format!("of runs that cannot be seen from here: {}", names(some)),
                "run `profiler doctor --clean` where those runs were started",
            ),
        };
    }
    if !clean {
        return Finding::attention(
            NAME,
            format!("of dead runs: {}", names(&dead)),
            "end them with `profiler doctor --clean`",
        );
    }
    match end(&dead).await {
        Ok(()) => Finding::ok(NAME, format!("ended: {}", names(&dead))),
        Err(fault) => Finding::from_fault(NAME, fault),
    }
}

async fn end(dead: &[Orphan]) -> Result<()> {
    orphans::end(dead).await.map(|_| ())
}

fn names(orphans: &[Orphan]) -> String {
    let names = orphans
        .iter()
        .map(|orphan| format!("{} {} of {}", orphan.kind, orphan.name, orphan.run));
    names.collect::<Vec<_>>().join(", ")
}
