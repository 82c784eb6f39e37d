"""Prints which flags, metrics and log lines of a shipped adapter do not stand in the sources of a wheel.

    python facts.py vllm|sglang FOLDER…

Each FOLDER holds an unpacked wheel (`pip download --no-deps`, then unzip). Nothing of a wheel runs. A line an item: kind, item, and the folders that
lack it. Of a pattern, the longest constant part is looked for, so a line that is composed of pieces may be named here although it exists.
"""

import ast
import os
import re
import sys

engine, folders = sys.argv[1], sys.argv[2:]
root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")


def strings(folder):
    """All string constants of the sources; what a format string fills in is a NUL."""
    found = []
    for place, _, files in os.walk(folder):
        for name in files:
            if not name.endswith(".py"):
                continue
            try:
                with open(os.path.join(place, name), encoding="utf-8") as file:
                    tree = ast.parse(file.read())
            except (SyntaxError, UnicodeDecodeError):
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
                elif isinstance(node, ast.JoinedStr):
                    found.append("".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values))
    return "\n".join(found)


def constant(pattern):
    """The longest part of each alternative of a pattern that stands for itself."""
    alternatives = re.split(r"\|(?![^(]*\))", pattern)
    for alternative in alternatives:
        text = re.sub(r"\(\?<\w+>", "(", alternative)
        text = re.sub(r"\(\?:[^()]*\)\??|\[[^\]]*\][+*?]?|\\[dswbSDW][+*?]?|\.[*+]\??|\w\?|[\^$]", "\1", text)
        text = re.sub(r"(?<!\\)[()]", "\1", text)
        parts = re.sub(r"\\(.)", r"\1", text).split("\1")
        yield max((part.strip() for part in parts), key=len)


with open(os.path.join(root, f"stdlib/engines/{engine}.rhai"), encoding="utf-8") as file:
    code = "\n".join(line for line in file.read().split("\n") if not line.strip().startswith("//"))
launch, rest = code[: code.index("fn harmless()")], code[code.index("fn facts()") :]
facts = rest[: rest.index("fn failures()")]
items = {("flag", flag, (flag,)) for flag in re.findall(r"--[a-z][a-z0-9-]+", launch + rest[rest.index("fn flags(") :])}
items |= {("metric", name, (name, name.removesuffix("_total"))) for name in re.findall(rf"\b{engine}:\w+", facts)}
logs = re.findall(r"`([^`]+)`", facts[: facts.index("metrics: #{")])
items |= {("log", pattern, tuple(constant(pattern))) for pattern in logs if f"{engine}:" not in pattern}
texts = {os.path.basename(folder.rstrip("/")): strings(folder) for folder in folders}
for kind, item, words in sorted(items):
    lacking = [name for name, text in texts.items() if not any(word in text for word in words)]
    if lacking:
        print(kind, item, "not in", *lacking, sep="\t")
