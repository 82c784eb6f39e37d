//! What other tools read, written from our boundaries: the counterpart of `import`.

mod tgi_profiler;

pub use tgi_profiler::TgiProfiler;
