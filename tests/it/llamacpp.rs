//! A real engine, a real container, a real kill by the kernel.

use crate::support::llamacpp::{Start, image, start};
use crate::support::{model, temp};

/// Holds a context of 1024 tokens (64 MiB of KV cache) and not one of 4096 (256 MiB).
const MEMORY: u64 = 160 << 20;

#[test]
fn the_kernel_kills_a_server_whose_context_is_too_large() {
    let Some(image) = image() else { return };
    let folder = temp();
    model::write(folder.path());
    assert_eq!(start(image, folder.path(), 1024, MEMORY), Start::Serves);
    assert_eq!(start(image, folder.path(), 4096, MEMORY), Start::KilledForMemory);
}
