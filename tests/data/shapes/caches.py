"""Runs small made-up models of hybrid and sliding families, and tells how many numbers transformers keeps of one sequence.

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
DELTA = {"linear_key_head_dim": 8, "linear_value_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
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

here = pathlib.Path(__file__).parent
caches = {}
for name, small in SMALL.items():
    values = json.loads((here / f"{name}.config.json").read_text()) | ATTENTION | small | {"dtype": "float32"}
    config = transformers.AutoConfig.for_model(**values, pad_token_id=0)
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
                found[attribute.removesuffix("_states").replace("conv", "convolution")] += sum(one.numel() for one in states)
    caches[name] = {"config": values, **found}

versions = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
print(json.dumps({"versions": versions, "tokens": TOKENS, "caches": caches}, indent=2))
