//! Exchanges with a server: request bodies and decoders by protocol, request forms, prompts calibrated to the engine's
//! token count, batches of requests, pages, and refusals by status.

pub(super) mod batch;
mod fields;
pub(super) mod forms;
mod openai;
pub(super) mod page;
pub(super) mod prompting;
pub(super) mod protocol;
pub(super) mod refusal;
