//! Docker containers. Only containers with our labels are stopped or removed.

mod connect;
mod container;
mod copy;
mod create;
mod exec;
mod fault;
mod gpu;
mod image;
mod labels;
mod logs;
mod model_path;
mod names;
mod oom_event;
mod orphans;
mod pull;
mod remove;
mod start;

pub(super) use connect::connect;
pub use connect::{DockerInfo, info};
pub(super) use container::{Container, ContainerClient};
pub(super) use fault::explain;
pub use image::is_present;
pub(super) use logs::follow;
pub(super) use model_path::model;
pub(super) use names::check_container as check_name;
pub(super) use orphans::{find as find_orphans, remove as remove_orphan};
pub(super) use remove::remove_blocking;
pub(super) use start::start;
