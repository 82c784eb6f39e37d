"""Runs small made-up models of many families, and tells how many numbers transformers keeps of one sequence, and the shapes of the model's tensors.

    pip install torch transformers
    python caches.py > caches.json
"""

import json
import pathlib

import torch
import transformers

TOKENS = 40
ATTENTION = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": 100}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
ROUTED = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_group": 1, "topk_group": 1}
DELTA = {"linear_key_head_dim": 8, "linear_value_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
LATENT = {"kv_lora_rank": 32, "q_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "num_key_value_heads": 4}
# By a configuration in this folder.
SMALL = {
    "bamba-9b": {"num_hidden_layers": 3, "attn_layer_indices": [1], **MAMBA},
    "falcon-h1-1.5b": {"num_hidden_layers": 2, "head_dim": 16, "mamba_d_ssm": 96, "mamba_n_heads": 6, "mamba_d_head": 16},
    "gemma-3-1b": {"num_hidden_layers": 7, "head_dim": 16, "sliding_window": 16},
    "gpt-oss-20b": {"num_hidden_layers": 4, "head_dim": 16, "sliding_window": 16, "num_local_experts": 4, "num_experts_per_tok": 2},
    "granite-4.0-h-tiny": {
        "num_hidden_layers": 3,
        "layer_types": ["mamba", "attention", "mamba"],
        "shared_intermediate_size": 32,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        **MAMBA,
    },
    "jamba-v0.1": {"num_hidden_layers": 8, "num_experts": 4, "mamba_dt_rank": 4},
    "llama-4-scout-text": {
        "num_hidden_layers": 4,
        "head_dim": 16,
        "attention_chunk_size": 16,
        "intermediate_size_mlp": 64,
        "num_local_experts": 4,
    },
    "qwen3-8b": {"num_hidden_layers": 2, "head_dim": 32},
    "qwen3-next-80b-a3b": {"num_hidden_layers": 4, "head_dim": 16, **EXPERTS, **DELTA},
}
# By their family alone.
MADE_UP = {
    "cohere2": {"num_hidden_layers": 4, "sliding_window": 16},
    "deepseek_v3": {"num_hidden_layers": 2, "first_k_dense_replace": 1, "n_shared_experts": 1, **ROUTED, **LATENT},
    "exaone4": {"num_hidden_layers": 4, "head_dim": 16, "sliding_window": 16, "sliding_window_pattern": 4},
    "falcon": {"num_hidden_layers": 2, "multi_query": True, "num_key_value_heads": None, "intermediate_size": None, "alibi": False},
    "gemma4_text": {
        "num_hidden_layers": 6,
        "head_dim": 16,
        "global_head_dim": 32,
        "sliding_window": 16,
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 3,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 100,
    },
    "glm4": {"num_hidden_layers": 2, "head_dim": 16},
    "gpt2": {"n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 64, "num_key_value_heads": None, "intermediate_size": None},
    "kimi_linear": {
        "num_hidden_layers": 4,
        "linear_attn_config": {"full_attn_layers": [4], "kda_layers": [1, 2, 3], "num_heads": 4, "head_dim": 16, "short_conv_kernel_size": 4},
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        **LATENT,
        "q_lora_rank": None,  # Queries have no latent there.
    },
    "lfm2": {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 3},
    "mimo_v2_flash": {
        "num_hidden_layers": 3,
        "head_dim": 24,
        "v_head_dim": 16,
        "sliding_window": 16,
        "hybrid_layer_pattern": [0, 1, 0],
        "layer_types": ["full_attention", "sliding_attention", "full_attention"],
        "swa_num_key_value_heads": 4,
        "add_swa_attention_sink_bias": True,
        "moe_layer_freq": [0, 1, 1],
        **ROUTED,
    },
    "minimax_m2": {"num_hidden_layers": 2, "head_dim": 16, "num_local_experts": 4, "num_experts_per_tok": 2},
    "nemotron_h": {
        "num_hidden_layers": 4,
        "hybrid_override_pattern": "M-*E",
        "head_dim": 16,
        "mamba_num_heads": 8,
        "mamba_head_dim": 16,
        "ssm_state_size": 8,
        "n_groups": 2,
        "moe_shared_expert_intermediate_size": 16,
        **ROUTED,
    },
    "olmo3": {"num_hidden_layers": 4, "sliding_window": 16},
    "phi3": {"num_hidden_layers": 2},
    "qwen3_5_text": {"num_hidden_layers": 4, "head_dim": 16, **DELTA},
}


def values():
    for name, small in SMALL.items():
        yield name, json.loads((here / f"{name}.config.json").read_text()) | ATTENTION | small | {"dtype": "float32"}
    for name, small in MADE_UP.items():
        yield name, {key: value for key, value in ({"model_type": name} | ATTENTION | small | {"dtype": "float32"}).items() if value is not None}


here = pathlib.Path(__file__).parent
caches = {}
for name, stated in values():
    config = transformers.AutoConfig.for_model(**stated, pad_token_id=0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        cache = model(torch.randint(1, 99, (1, TOKENS)), use_cache=True).past_key_values
    found = {"keys_and_values": 0, "convolution": 0, "recurrent": 0}
    for layer in cache.layers:
        for attribute, kept in vars(layer).items():
            if attribute in ("keys", "values") and torch.is_tensor(kept):
                found["keys_and_values"] += kept.numel()
            elif attribute in ("conv_states", "recurrent_states"):
                states = kept.values() if isinstance(kept, dict) else [kept]
                found[attribute.removesuffix("_states").replace("conv", "convolution")] += sum(one.numel() for one in states if torch.is_tensor(one))
    tensors = {tensor: list(value.shape) for tensor, value in model.named_parameters()}
    caches[name] = {"config": stated, **found, "tensors": tensors}

versions = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
# A line for each model.
rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(cache, separators=(',', ':'))}" for name, cache in caches.items())
print(f'{{"versions": {json.dumps(versions)}, "tokens": {TOKENS}, "caches": {{\n{rows}\n}}}}')
