//! A file per command: parses, calls, prints.
