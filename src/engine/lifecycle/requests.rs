//! Requests to a running engine: their form for a point, and the batch that sends them.

use std::collections::VecDeque;
use std::time::Duration;

use super::engine::Engine;
use super::options::wrong;
use super::state::Running;
use crate::boundary::Point;
use crate::engine::adapter::RequestForm;
use crate::engine::wire::batch::{Batch, STALL};
use crate::engine::wire::forms::{Accepted, remove};
use crate::engine::wire::protocol;
use crate::fault::{Fault, Result};
use crate::load::{QueuedRequest, RequestRecord};
use crate::prompt::Content;
use crate::run::Limits;

/// The request for this point, in the form that the running engine accepts; before a start, in the adapter's first
/// form.
pub(crate) fn request(engine: &Engine, point: &Point, running: Option<&Running>) -> Result<RequestForm> {
    let limits = running.and_then(|running| running.limits);
    let mut forms = engine.adapter.request(point, limits.as_ref())?;
    let first = Accepted::default();
    let accepted = running.map_or(&first, |running| &running.accepted);
    if accepted.index >= forms.len() {
        return wrong(
            format!(
                "`request(point)` of the adapter gives {} forms for {point}, and gave more for another",
                forms.len()
            ),
            "give a list of the same length for every point",
        );
    }
    let mut form = forms.swap_remove(accepted.index);
    for field in &accepted.left_out {
        remove(&mut form, field);
    }
    Ok(form)
}

/// The request form for these lengths.
pub(crate) fn form_for(engine: &Engine, running: Option<&Running>, input: u64, output: u64) -> Result<RequestForm> {
    request(engine, &Limits::new(input.max(1), output, 1).point()?, running)
}

/// A request for each prompt, with the same form.
pub(crate) fn batch(
    running: &Running,
    form: &RequestForm,
    prompts: &[Content],
    requested: Limits,
    timeout: Duration,
) -> Result<Batch> {
    let job = |prompt| {
        Ok(QueuedRequest {
            at: None,
            body: protocol::body(form, prompt, running.info.model.as_deref())?,
            decoder: protocol::decoder(form.protocol),
            timeout,
            input: requested.input,
            output: requested.output,
        })
    };
    let jobs = prompts.iter().map(job).collect::<Result<VecDeque<_>>>()?;
    Ok(Batch::new(
        running.server.url(&form.path)?,
        running.key.clone(),
        jobs,
        timeout,
    ))
}

/// Sends one prompt to a running engine.
pub(crate) fn send_one(
    engine: &Engine,
    running: &Running,
    form: &RequestForm,
    prompt: &Content,
    requested: Limits,
    timeout: Duration,
) -> Result<RequestRecord> {
    let batch = batch(running, form, std::slice::from_ref(prompt), requested, timeout)?;
    let (records, _) = engine.wait(batch.send(None, STALL))?;
    let record = records.into_iter().next();
    record.ok_or_else(|| Fault::internal("a request without a record"))
}
