"""Runs `vllm bench serve` without vLLM: `vllm_bench.py FOLDER [options of vllm bench serve]`. `parity.py` calls it.

FOLDER holds `vllm/benchmarks` of the wheel and an empty `vllm/__init__.py`. The bench is vLLM's own code; what it takes from the rest of vLLM (a parser of
options, a tokenizer, a logger) has a stand-in here, so that no GPU, no CUDA and no torch is needed.
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
