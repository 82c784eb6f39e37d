"""Counts the parameters of every shape in this folder as transformers does, on the meta device: no weight is made.

    pip install torch transformers
    python count.py > counts.json
"""

import json
import pathlib

import torch
import transformers

here = pathlib.Path(__file__).parent
counts = {}
for file in sorted(here.glob("*.config.json")):
    values = json.loads(file.read_text())
    config = transformers.AutoConfig.for_model(**values)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    # A tied output matrix is one parameter, and `parameters()` gives it once.
    model.tie_weights()
    counts[file.name.removesuffix(".config.json")] = sum(one.numel() for one in model.parameters())

versions = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
print(json.dumps({"versions": versions, "parameters": counts}, indent=2))
