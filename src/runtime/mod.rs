//! Runs engines in Docker containers, native processes or in-process (simulated), or attaches to running ones: start,
//! stop, logs, exec, copy, exit state, and the user's permissions.
//!
//! Only this module uses Docker. Everything started is registered in [`Services`] and carries the run's id as a label
//! or environment variable, so that nothing is left running after a failure, Ctrl-C, a panic or SIGKILL. [`start`]
//! and [`attach`] return a [`Service`], which is the same for every runtime. [`Permits`] is checked before anything
//! starts.

mod attach;
mod captured;
mod cgroup;
mod container_names;
mod credentials;
mod disk;
mod docker;
mod exec_output;
mod files;
mod hook;
mod identity;
mod in_process;
mod kind;
mod launch;
mod lines;
pub mod orphans;
mod permits;
mod process;
mod program;
pub mod redact;
mod server_log;
mod service;
mod services;
mod start;
mod state;

pub use attach::{Target, attach};
pub use captured::Captured;
pub use disk::free as disk_free;
pub use docker::{DockerInfo, info as docker_info, is_present as image_is_present};
pub use exec_output::ExecOutput;
use identity::ProcessIdentity;
pub use kind::RuntimeKind;
pub use launch::{Launch, Mount};
pub use permits::{Grant, Permits};
pub use program::{Program, placeholder_launch};
pub use server_log::{LogLine, ServerLog};
pub use service::Service;
pub use services::Services;
pub use start::{StartContext, start};
pub use state::{Exit, State};
