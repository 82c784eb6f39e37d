//! Requests in time: streaming, SSE, time stamps as bytes arrive, per-token timing, percentiles.
