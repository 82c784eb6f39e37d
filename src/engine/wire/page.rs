//! Fetches pages of a server, with a limit on their size, and reads metrics pages as snapshots.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response};

use crate::engine::adapter::MetricRules;
use crate::engine::facts::metrics::read;
use crate::http;
use crate::load::engine_side::EngineMetrics;
use crate::run::Run;

/// Fetches a page of an engine; `None` if the engine does not have it. Skips a page that is too long, with a warning.
pub(crate) async fn read_page(request: RequestBuilder, run: &Run) -> Option<String> {
    let answer = http::send(request).await.and_then(Response::error_for_status).ok()?;
    let path = answer.url().path().to_owned();
    let (text, cut) = http::text(answer, http::MAX_PAGE).await.ok()?;
    if cut {
        let most = http::MAX_PAGE >> 20;
        // A full disk is reported by the next event that must be written.
        let _ = run.warn(format!(
            "the engine's page `{path}` is larger than {most} MiB and was skipped: its values are unknown"
        ));
    }
    (!cut).then_some(text)
}

/// Timeout for fetching the metrics page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// The metrics page of an engine, and how to read it.
#[derive(Clone)]
pub(crate) struct MetricsPage {
    pub(crate) client: Client,
    pub(crate) url: String,
    pub(crate) rules: MetricRules,
    /// Receives a warning if the page is too long.
    pub(crate) run: Arc<Run>,
}

impl MetricsPage {
    /// Fetches the page; snapshots are oldest first. `None` if the page does not answer.
    pub(crate) async fn fetch(&self) -> Option<Vec<EngineMetrics>> {
        let request = self.client.get(&self.url).timeout(PAGE_TIMEOUT);
        let text = read_page(request, &self.run).await?;
        Some(read(&text, &self.rules))
    }
}
