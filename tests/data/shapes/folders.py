"""Collects what decides the memory of the 89 model folders in the wheel `aiconfigurator_core` (Apache-2.0): the keys of their `config.json` and of
`hf_quant_config.json` that describe sizes, layers and quantization, and beside them what transformers makes of them: parameters, and the outputs of the matrices
that make keys and values, by a model on the meta device.

    pip download --no-deps aiconfigurator_core==0.12.0 && unzip aiconfigurator_core-*.whl
    pip install torch transformers==5.24.0
    python folders.py aiconfigurator_core/model_configs > folders.json
"""

import json
import pathlib
import re
import sys

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

# Keys without a word on sizes, layers or types.
DROPPED = re.compile(
    "token_|(?<!per)_token$|tokens$|placeholder|rope_(theta|scal|param)|rope_inter|^_name|architect|auto_map|version|dropout|norm_eps|layernorm_eps|initializer|beam|label|penalty|^id2|^do_|pruned|score|scoring|^n_group$|^topk_group$|expert_group$|topk_method|router_|"
    "time_step|hc_eps|sinkhorn|theta|image_|video_|mask|sample|prefix|return_|temperature|top_[kp]$|use_cache|activation|swiglu|problem|finetun|task|producer|"
    "global_compression|status|observer|pretraining|length_penalty|min_length|torchscript|tf_|typical|bfloat16$|max_length|output_(attentions|hidden|scores)"
)
# Families that transformers has under another name.
SAME = {"kimi_k2": "deepseek_v3", "deepseek_ref": "deepseek_v4", "minimax_m3": "minimax_m3_vl_text", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe"}


def kept(value, key=""):
    if isinstance(value, dict):
        inner = {k: kept(v, k) for k, v in value.items() if not DROPPED.search(k) and v is not None and not (k.endswith("_config") and "vision" in k)}
        inner |= {k: {"hidden_size": 1} for k in value if k == "vision_config"}
        return inner
    if isinstance(value, list):
        return [kept(one) for one in value]
    return value


def alike(names, layers):
    """Names of modules, without norms; those of all experts of a layer once, and those that several layers have as one expression."""
    names = sorted({re.sub(r"\bexperts\.\d+\b", "experts.0", name) for name in names if "norm" not in name})
    ends = {}
    for name in names:
        found = re.fullmatch(r"((?:.*\.)?layers\.)(\d+)(\..*)", name)
        ends.setdefault((found[1], found[3]) if found else (name, None), []).append(name)
    shorter = []
    for (root, end), names in ends.items():
        numbers = [] if end is None else [name[len(root) : len(name) - len(end)] for name in names]
        if end and len(names) == layers and "mtp" not in root:
            shorter.append(f"{root}*{end}")
        elif len(numbers) > 2:
            shorter.append(f"re:{re.escape(root)}({'|'.join(numbers)}){re.escape(end).replace(re.escape('*'), '.*')}")
        else:
            shorter += names
    return sorted(shorter)


def quantization(stated, layers):
    stated = kept(stated)
    for key in ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers"):
        if key in stated:
            stated[key] = alike(stated[key], layers)
    if "quantized_layers" in stated:
        by_algorithm = {}
        for name, layer in stated["quantized_layers"].items():
            by_algorithm.setdefault(layer["quant_algo"], []).append(name)
        stated["quantized_layers"] = {name: {"quant_algo": a} for a, names in by_algorithm.items() for name in alike(names, layers)}
    return stated


def by_transformers(config):
    """Parameters of the language model, outputs of the matrices of keys and values, and layers with an indexer."""
    text = dict(config.get("text_config") or config)
    family = text.pop("model_type", None) or config["model_type"]
    family = SAME.get(family, family)
    if "MiniMaxM3" in str(config.get("architectures")):
        family = "minimax_m3_vl_text"
    for key in ("quantization_config", "auto_map"):
        text.pop(key, None)
    text["tie_word_embeddings"] = config.get("tie_word_embeddings", text.get("tie_word_embeddings"))
    if text["tie_word_embeddings"] is None:
        text.pop("tie_word_embeddings")
    if family not in CONFIG_MAPPING or family == "step3p7":
        return None
    try:
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(family, **text))
    except KeyError as error:  # An activation that this version lacks.
        print(family, error, file=sys.stderr)
        return None
    model.tie_weights()
    found = {"parameters": sum(one.numel() for one in model.parameters()), "keys_and_values": 0, "indexers": 0}
    for name, module in model.named_modules():
        rows = getattr(module, "out_features", 0)
        last = name.rsplit(".", 1)[-1]
        if ".indexer." in name or ".compressor." in name:
            found["indexers"] += last in ("wk", "k_proj")
        elif last in ("k_proj", "v_proj", "kv_a_proj_with_mqa") and hasattr(module, "out_features"):
            parent = model.get_submodule(name.rsplit(".", 1)[0])
            same = last == "k_proj" and getattr(parent, "v_proj", None) is None
            found["keys_and_values"] += rows * (2 if same else 1)
    return found


folder = pathlib.Path(sys.argv[1])
rows = []
for file in sorted(folder.glob("*_config.json")):
    name = file.name.removesuffix("_config.json")
    if name.endswith("_hf_quant"):
        continue
    config = json.loads(file.read_text())
    text = config.get("text_config") or config
    layers = text.get("num_hidden_layers") or len(text["layers_block_type"])
    row = {"config": kept({k: v for k, v in config.items() if k != "quantization_config"})}
    for outer, inner in ((row["config"], config), (row["config"].get("text_config", {}), text)):
        if inner.get("quantization_config"):
            outer["quantization_config"] = quantization(inner["quantization_config"], layers)
    beside = folder / f"{name}_hf_quant_config.json"
    if beside.exists() and not config.get("quantization_config"):
        row["hf_quant_config"] = quantization(json.loads(beside.read_text())["quantization"], layers)
    row["transformers"] = by_transformers(config)
    rows.append(f"{json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}")
print("{\n" + ",\n".join(rows) + "\n}")
