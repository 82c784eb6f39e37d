//! Where an engine lives: `docker`, `process`, `attach`: start, stop, logs, exec, copy, exit state; and what the user allowed.
//!
//! Only this room knows Docker. Everything started is entered in [`Services`] before it runs, and carries the run's id as a label
//! or an environment mark, so that nothing is left behind: not after a failure, Ctrl-C, a panic, or kill -9.
//! [`start`] and [`attach`] give a [`Service`], the same whatever the runtime; [`Permits`] is asked before anything starts.

mod attach;
mod captured;
mod cgroup;
mod claims;
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
mod log_book;
pub mod orphans;
mod permits;
mod process;
mod program;
pub mod redact;
mod service;
mod services;
mod start;
mod state;

pub use attach::{Target, attach};
pub use captured::Captured;
pub use disk::free as disk_free;
pub use docker::{Daemon, is_here as image_is_here, look as look_at_docker};
pub use exec_output::ExecOutput;
use identity::Identity;
pub use kind::RuntimeKind;
pub use launch::{Launch, Mount};
pub use log_book::{Arrived, LogBook};
pub use permits::{Grant, Permits};
pub use program::{Program, holding};
pub use service::Service;
pub use services::Services;
pub use start::{StartContext, start};
pub use state::{Exit, State};
