//! What memory is used for.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a part of the memory is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// The model's parameters, as stored on the device.
    Weights,
    /// The KV cache that the engine has reserved, used or not.
    KvPool,
    /// The KV cache that holds tokens: within the pool if there is one, otherwise a component of its own.
    KvUsed,
    /// What a forward pass needs beyond weights and KV cache, at its peak.
    Activations,
    /// Captured CUDA graphs.
    CudaGraphs,
    /// CUDA context, libraries and communication buffers, outside the framework's allocator.
    RuntimeContext,
    /// Other processes. Shown, but never counted as the engine's.
    OtherTenants,
    /// The remainder of the physical total; negative if the other parts exceed it.
    Unexplained,
}

impl Component {
    /// Every component, in display order.
    pub const ALL: [Component; 8] = [
        Component::Weights,
        Component::KvPool,
        Component::KvUsed,
        Component::Activations,
        Component::CudaGraphs,
        Component::RuntimeContext,
        Component::OtherTenants,
        Component::Unexplained,
    ];

    /// The name in JSON and in scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Component::Weights => "weights",
            Component::KvPool => "kv_pool",
            Component::KvUsed => "kv_used",
            Component::Activations => "activations",
            Component::CudaGraphs => "cuda_graphs",
            Component::RuntimeContext => "runtime_context",
            Component::OtherTenants => "other_tenants",
            Component::Unexplained => "unexplained",
        }
    }

    /// The name for people.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Component::Weights => "weights",
            Component::KvPool => "KV pool",
            Component::KvUsed => "KV used",
            Component::Activations => "activations",
            Component::CudaGraphs => "CUDA graphs",
            Component::RuntimeContext => "runtime context",
            Component::OtherTenants => "other tenants",
            Component::Unexplained => "unexplained",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
