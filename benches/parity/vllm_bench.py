"""Runs `vllm bench serve` without vLLM, against the simulated engine, beside `profiler run throughput`. Made the second table of docs/parity.md.

    python3 -m venv /tmp/parity && /tmp/parity/bin/pip install aiohttp numpy tqdm transformers pybase64 regex pillow pandas datasets
    pip download --no-deps --only-binary :all: vllm && unzip vllm-*.whl 'vllm/benchmarks/*' && touch vllm/__init__.py
    profiler sim --profile llama-8b-24gb-vllm --port 8123 --time-scale 1 --model llama --tokenizer MODEL/tokenizer.json
    /tmp/parity/bin/python benches/parity/vllm_bench.py FOLDER --backend openai --base-url http://127.0.0.1:8123 --endpoint /v1/completions \
        --model llama --tokenizer MODEL --dataset-name random --random-input-len 256 --random-output-len 64 --num-prompts 64 --max-concurrency 8 \
        --ignore-eos --save-result --save-detailed --result-filename vllm.json
    profiler show vllm.json
    profiler run throughput --url http://127.0.0.1:8123 --model llama --input 256 --output 64 --concurrency 8 --requests 64

FOLDER is where the wheel was unpacked. The bench is vLLM's own code; what it takes from the rest of vLLM (a parser of options, a tokenizer, a logger) has
a stand-in here, so that no GPU, no CUDA and no torch is needed.
"""

import argparse
import asyncio
import importlib.abc
import importlib.machinery
import logging
import sys
import types
from unittest.mock import MagicMock


def tokenizer(name, **_):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(name)


PARTS = {
    "vllm.tokenizers": {"get_tokenizer": tokenizer, "TokenizerLike": object},
    "vllm.utils.argparse_utils": {"FlexibleArgumentParser": argparse.ArgumentParser},
    "vllm.utils.network_utils": {"join_host_port": lambda host, port: f"{host}:{port}"},
    "vllm.logger": {"init_logger": logging.getLogger},
}


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules that were not unpacked. Anything in them that is not in PARTS does nothing."""

    def find_spec(self, name, path, target=None):
        if name.startswith("vllm.") or name.split(".")[0] == "torch":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        vars(module).update(PARTS.get(spec.name, {}))

        def missing(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return MagicMock(name=name)

        module.__getattr__ = missing
        return module

    def exec_module(self, module):
        pass


sys.path.insert(0, sys.argv.pop(1))
sys.meta_path.append(StandIns())

from vllm.benchmarks.serve import add_cli_args, main_async  # noqa: E402

parser = argparse.ArgumentParser()
add_cli_args(parser)
asyncio.run(main_async(parser.parse_args()))
