//! The simulated engine: a model of GPU memory and of time behind the real wire protocols.
