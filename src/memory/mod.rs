//! Model shapes from config.json, and estimates of memory by architecture.
