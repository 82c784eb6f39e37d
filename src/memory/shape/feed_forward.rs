//! The feed-forward part of a layer: dense, routed experts with those that process every token, or both side by side.

use super::family::Bias;
use super::model::{Layer, Phase, Role, Split, matrix, vector};
use super::parts::Reader;
use crate::fault::Result;

/// Modules of a feed-forward part, as families call them below a layer.
const DENSE_IN: &[&str] = &[
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.gate_up_proj",
    "feed_forward.up_proj",
    "mixer.up_proj",
];
const DENSE_OUT: &[&str] = &["mlp.down_proj", "feed_forward.down_proj", "mixer.down_proj"];
const EXPERT: &[&str] = &[
    "mlp.experts",
    "mlp.experts.gate_proj",
    "mlp.experts.up_proj",
    "mlp.experts.down_proj",
    "block_sparse_moe.experts",
    "block_sparse_moe.experts.w1",
    "mixer.experts",
    "mixer.experts.up_proj",
    "mixer.experts.down_proj",
    "ffn.experts",
    "experts",
    "feed_forward.experts",
    "moe.experts",
];
const SHARED: &[&str] = &[
    "mlp.shared_experts.gate_proj",
    "mlp.shared_experts.down_proj",
    "mlp.shared_expert.gate_proj",
    "mlp.shared_expert.down_proj",
    "mixer.shared_experts.up_proj",
    "mixer.shared_experts.down_proj",
    "block_sparse_moe.shared_experts.gate_proj",
    "ffn.shared_experts.w1",
    "feed_forward.shared_expert.gate_proj",
];
const EXPERT_LATENT: &[&str] = &["mixer.fc1_latent_proj", "mixer.fc2_latent_proj"];

impl Reader<'_> {
    /// The feed-forward part of a layer: dense, or routed experts, or both side by side.
    pub(super) fn forward(&self, layer: u64, shares: bool) -> Result<Layer> {
        let config = self.config;
        if config.flag(&["enable_moe_block"], false)? {
            let mut both = self.dense(layer)?;
            let mut experts = self.experts(self.expert_count()?.unwrap_or(1))?;
            for tensor in experts.tensors.iter_mut().filter(|tensor| tensor.role == Role::Expert) {
                tensor.modules = &["experts", "moe.experts"];
            }
            both = both.with(experts);
            // Three further norms, a scale of the router's input, and a scale for each expert.
            both.tensors.push(vector(
                self.hidden * 4 + self.expert_count()?.unwrap_or(0),
                Split::Replicated,
            ));
            return Ok(both);
        }
        if let Some(experts) = self.expert_count()?.filter(|experts| *experts > 1)
            && self.is_routed(layer)?
        {
            return self.experts(experts);
        }
        let wide = shares && config.flag(&["use_double_wide_mlp"], false)?;
        let size = self.dense_size(layer)? * if wide { 2 } else { 1 };
        self.feed_forward(size, DENSE_IN, DENSE_OUT)
    }

    /// The dense feed-forward part of a layer.
    pub(super) fn dense(&self, layer: u64) -> Result<Layer> {
        self.feed_forward(self.dense_size(layer)?, DENSE_IN, DENSE_OUT)
    }

    pub(super) fn expert_count(&self) -> Result<Option<u64>> {
        let names = [
            "num_experts",
            "num_local_experts",
            "n_routed_experts",
            "moe_num_experts",
            "num_routed_experts",
        ];
        for name in names {
            if let Some(count) = self.config.optional(&[name])? {
                return Ok(Some(count));
            }
        }
        Ok(None)
    }

    /// The size of a dense feed-forward part.
    fn dense_size(&self, layer: u64) -> Result<u64> {
        let config = self.config;
        let at = usize::try_from(layer).unwrap_or(usize::MAX);
        if let Some(multiple) = config
            .get(&["block_configs"])
            .and_then(|blocks| blocks[at]["ffn"]["ffn_mult"].as_f64())
        {
            // DeciLM: two thirds of the multiple, rounded up to a multiple of 256.
            let size = (2.0 * multiple * self.hidden as f64 / 3.0) as u64;
            return Ok(size.next_multiple_of(256));
        }
        let routed = self.expert_count()?.is_some();
        let names = [
            ("dense_intermediate_size", true),
            (
                "shared_intermediate_size",
                !routed || config.get(&["moe_intermediate_size"]).is_none(),
            ),
            ("intermediate_size_mlp", true),
            ("intermediate_size", true),
            ("block_ff_dim", true),
            ("n_inner", true),
            ("ffn_hidden_size", true),
        ];
        for (name, _) in names.into_iter().filter(|(_, counts)| *counts) {
            if let Some(size) = config.of_layer(&[name], layer)? {
                // LFM2 states the size before it is adjusted.
                let adjusted = config.flag(&["block_auto_adjust_ff_dim"], false)?;
                let multiple = config.optional(&["block_multiple_of"])?.filter(|_| adjusted);
                return Ok(multiple.map_or(size, |multiple| (size * 2 / 3).next_multiple_of(multiple)));
            }
        }
        match self.family.ungated {
            true => Ok(self.hidden * 4),
            false => config.number(&["intermediate_size"]),
        }
    }

    /// Whether a layer has routed experts, if the model has any.
    fn is_routed(&self, layer: u64) -> Result<bool> {
        let config = self.config;
        let at = usize::try_from(layer).unwrap_or(usize::MAX);
        if let Some(types) = config.names(&["mlp_layer_types"]) {
            return Ok(types
                .get(at)
                .is_none_or(|name| name.contains("moe") || *name == "sparse"));
        }
        if let Some(layers) = config.numbers("moe_layer_freq") {
            return Ok(layers.get(at).is_none_or(|one| *one > 0));
        }
        if let Some(layers) = config.numbers("moe_layers") {
            return Ok(layers.contains(&layer));
        }
        if let Some(layers) = config.get(&["moe_layers_enum"]).and_then(serde_json::Value::as_str) {
            return Ok(layers.split(',').any(|number| number.trim().parse() == Ok(layer)));
        }
        if let Some(period) = config.optional(&["expert_layer_period"])? {
            return Ok(layer % period == config.number_or_zero(&["expert_layer_offset"])?);
        }
        let steps = ["decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"];
        let step = config.optional(&steps)?.unwrap_or(1);
        let dense = config.numbers("mlp_only_layers").unwrap_or_default();
        Ok(
            layer >= config.number_or_zero(&["first_k_dense_replace", "moe_layer_start_index"])?
                && (layer + 1).is_multiple_of(step)
                && !dense.contains(&layer),
        )
    }

    fn feed_forward(
        &self,
        size: u64,
        inward: &'static [&'static str],
        outward: &'static [&'static str],
    ) -> Result<Layer> {
        let (family, hidden) = (self.family, self.hidden);
        // One of two input matrices gates the other.
        let inputs = if family.ungated { 1 } else { 2 };
        let mut tensors = vec![
            matrix(size, hidden, Split::Rows).times(inputs).named(inward),
            matrix(hidden, size, Split::Columns).named(outward),
        ];
        if self.config.flag(&["mlp_bias", "use_bias"], family.classic)? {
            tensors.push(vector(size, Split::Rows).times(inputs));
            tensors.push(vector(hidden, Split::Replicated));
        }
        let phase = Phase {
            tensors: "feed-forward: residual, normed input, outputs of the matrices in, their activation",
            replicated: hidden * 2,
            sharded: size * (inputs + 1),
            ..Phase::default()
        };
        Ok(Layer::new(tensors, phase))
    }

    /// Routed experts of equal size, and the shared expert that processes every token.
    ///
    /// Every rank holds a share of each expert's intermediate size. Expert parallelism holds the same number of bytes,
    /// divided differently.
    pub(super) fn experts(&self, experts: u64) -> Result<Layer> {
        let (config, hidden) = (self.config, self.hidden);
        let size = config.number(&["moe_intermediate_size", "intermediate_size"])?;
        let chosen = [
            "num_experts_per_tok",
            "experts_per_token",
            "num_experts_per_token",
            "top_k_experts",
            "moe_top_k",
            "moe_topk",
        ];
        let chosen = config.number(&chosen)?;
        let inputs = if self.family.ungated { 1 } else { 2 };
        let expert = |rows, columns, split| matrix(rows, columns, split).with_role(Role::Expert).named(EXPERT);
        let router = |rows| matrix(rows, hidden, Split::Replicated).with_role(Role::Router);
        // Experts may work on a smaller state, to which one matrix projects, and from which another.
        let latent = config.optional(&["moe_latent_size", "routed_expert_hidden_size"])?;
        let inner = latent.unwrap_or(hidden);
        let mut tensors = vec![
            router(experts),
            expert(size, inner, Split::Rows).times(experts * inputs),
            expert(inner, size, Split::Columns).times(experts),
        ];
        if let Some(latent) = latent {
            tensors.push(matrix(latent, hidden, Split::Replicated).times(2).named(EXPERT_LATENT));
        }
        if self.family.bias == Bias::All && config.flag(&["mlp_bias"], true)? {
            tensors.push(vector(experts, Split::Replicated));
            tensors.push(vector(size, Split::Rows).times(experts * inputs));
            tensors.push(vector(hidden, Split::Replicated).times(experts));
        }
        let gated = config.optional(&["shared_expert_intermediate_size"])?;
        if gated.is_some() {
            tensors.push(router(1));
        }
        let phase = Phase {
            tensors: "experts: residual, normed input, output; for each chosen expert outputs of the matrices in, their activation and the \
                      output; router scores in float32",
            replicated: hidden * (chosen + 3),
            sharded: size * 3 * chosen,
            replicated_f32: experts,
            ..Phase::default()
        };
        let layer = Layer::new(tensors, phase);
        match gated.map_or_else(|| self.shared_size(size), Ok)? {
            0 => Ok(layer),
            shared => Ok(layer.with(self.feed_forward(shared, SHARED, SHARED)?)),
        }
    }

    /// The size of the shared experts of a layer together; 0 if there are none.
    fn shared_size(&self, size: u64) -> Result<u64> {
        let config = self.config;
        for name in [
            "share_expert_dim",
            "moe_shared_expert_intermediate_size",
            "shared_intermediate_size",
        ] {
            if let Some(shared) = config.optional(&[name])? {
                return Ok(shared);
            }
        }
        // Llama 4 names the size of its dense layers differently; its shared expert is as large as a routed one.
        if config.get(&["intermediate_size_mlp"]).is_some() {
            return Ok(size);
        }
        Ok(size * config.number_or_zero(&["n_shared_experts", "num_shared_experts", "moe_num_shared_experts"])?)
    }
}
