//! Tools shared by the tests: the program as a user runs it, temporary folders, fake and real servers, and checks of
//! what the machine has.

pub mod attached;
pub mod browser;
pub mod container;
mod dialogue;
pub mod dockerd;
pub mod engines;
pub mod hub;
pub mod image;
mod killed;
pub mod llamacpp;
pub mod made_up;
pub mod model;
mod needs;
mod outcome;
pub mod podman;
mod profiler;
pub mod scripted;
pub mod slurm;
pub mod ssh;
mod temp;
mod wait;

pub use dialogue::Dialogue;
pub use killed::{killed_and_resumed, killed_and_resumed_at, killed_and_resumed_with};
pub use needs::{
    needs_browser, needs_docker, needs_dockerd, needs_git, needs_host_name, needs_llama_server, needs_other_user,
    needs_podman, needs_program, needs_registry, needs_rootless_docker, needs_rootless_podman, needs_slurm,
    needs_small_disk, needs_ssh, needs_strace, needs_torch,
};
pub use outcome::Outcome;
pub use profiler::{Profiler, SHARED_STATE};
pub use temp::{copy_all, copy_run, sealed, temp};
pub use wait::{eventually, wait_for_text};
