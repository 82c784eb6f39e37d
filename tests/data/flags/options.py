"""Prints the options that a published wheel's server takes, as its own argument parser declares them.

    python options.py vllm|sglang FOLDER

FOLDER holds the unpacked wheel (`pip download --no-deps`, then unzip). Needs torch and transformers (any build), and the small libraries that the
wheel imports at its start; what else it imports (kernels, grpc, …) is replaced by empty stand-ins, as none of it declares an option.

One line an option: its spellings, then whether it takes `one` value, a `list`, or `none`, then the choices where it has some.
"""

import argparse
import importlib.abc
import importlib.machinery
import os
import sys
import types
from unittest.mock import MagicMock

engine, folder = sys.argv[1], os.path.abspath(sys.argv[2])
sys.path.insert(0, folder)


class Anything:
    """A class of a module that is not there."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        from pydantic_core import core_schema

        return core_schema.any_schema()


class StandIn(types.ModuleType):
    """A module that has every name."""

    __path__ = []
    __version__ = "0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        # A class, as names of missing modules are used in annotations and as bases.
        made = MagicMock() if name[:1].islower() else type(name, (Anything,), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last: what the wheel imports and nobody has is a stand-in. Libraries find missing what is missing."""

    missing = set()

    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe(1)
        while "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        top = name.split(".")[0]
        if top in ABSENT or top == engine or not frame.f_code.co_filename.startswith(folder):
            return None
        self.missing.add(top)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


# Asked for to find out which machine this is.
ABSENT = {"amdsmi", "libtpu", "torch_xla", "torch_npu", "habana_frameworks", "tpu_inference", "tpu_commons", "intel_extension_for_pytorch"}
sys.meta_path.append(Finder())


def parser():
    if engine == "sglang":
        from sglang.srt.server_args import ServerArgs

        made = argparse.ArgumentParser()
        ServerArgs.add_cli_args(made)
        return made
    import vllm.platforms

    if vllm.platforms.current_platform.device_type in ("", None):
        # Without a GPU no platform is found; what options there are does not depend on it, but what they default to is asked of one.
        from vllm.platforms.cpu import CpuPlatform

        vllm.platforms._current_platform = CpuPlatform()
    try:
        from vllm.entrypoints.common.cli_args import make_arg_parser
    except ImportError:
        from vllm.entrypoints.openai.cli_args import make_arg_parser
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    return make_arg_parser(FlexibleArgumentParser())


def takes(action):
    if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction):
        return "none"
    return "list" if action.nargs in ("+", "*") else "one"


# What the wheel says while it is imported is no option.
out, sys.stdout = sys.stdout, sys.stderr
made, sys.stdout = parser(), out
# What is accepted, hidden spellings included: an action's own list holds those that the help shows.
accepted = {}
for spelling, action in made._option_string_actions.items():
    accepted.setdefault(id(action), (action, set()))[1].add(spelling)
for action, spellings in sorted(accepted.values(), key=lambda entry: sorted(entry[1])):
    choices = " ".join(sorted(str(choice) for choice in action.choices or [] if choice is not None))
    print(f"{' '.join(sorted(spellings))} | {takes(action)} | {choices}".rstrip(" "))
print("stand-ins:", *sorted(Finder.missing), file=sys.stderr)
