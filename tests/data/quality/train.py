#!/usr/bin/env python3
"""Trains the small model of the tests of quality, a Llama over bytes, on the pages of docs/, and writes it as GGUF:
`model-f16.gguf`, and `model-q4_0.gguf` with the matrices in 4 bits.

Run in the root of the repository with a Python that has torch (`.ci/probe-python` makes one); takes a few minutes.
"""

import glob
import math
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

LAYERS, WIDTH, HEADS, HEAD, FORWARD, CONTEXT, STEPS = 2, 64, 2, 32, 192, 512, int(sys.argv[1]) if len(sys.argv) > 1 else 700
VOCABULARY = 258  # <s>, </s>, and the bytes
OUT = "tests/data/quality"
torch.manual_seed(1)


def normal(*shape):
    return torch.nn.Parameter(torch.randn(*shape) / math.sqrt(shape[-1]))


w = {"token_embd": normal(VOCABULARY, WIDTH), "output": normal(VOCABULARY, WIDTH), "output_norm": torch.nn.Parameter(torch.ones(WIDTH))}
for layer in range(LAYERS):
    shapes = {"attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH), "attn_output": (WIDTH, WIDTH),
              "ffn_gate": (FORWARD, WIDTH), "ffn_up": (FORWARD, WIDTH), "ffn_down": (WIDTH, FORWARD)}
    for name, shape in shapes.items():
        w[f"blk.{layer}.{name}"] = normal(*shape)
    for name in ("attn_norm", "ffn_norm"):
        w[f"blk.{layer}.{name}"] = torch.nn.Parameter(torch.ones(WIDTH))


def rms(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight


def rope(x):
    # Pairs of neighbours, as llama.cpp rotates them.
    at = torch.arange(x.shape[-2], dtype=torch.float32)
    angle = at[:, None] * 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)[None, :]
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1).flatten(-2)


def model(ids):
    x = w["token_embd"][ids]
    batch, length = ids.shape
    mask = torch.full((length, length), float("-inf")).triu(1)
    for layer in range(LAYERS):
        p = f"blk.{layer}."
        h = rms(x, w[p + "attn_norm"])
        q, k, v = ((h @ w[p + n].T).view(batch, length, HEADS, HEAD).transpose(1, 2) for n in ("attn_q", "attn_k", "attn_v"))
        score = rope(q) @ rope(k).transpose(-1, -2) / math.sqrt(HEAD) + mask
        x = x + (score.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, WIDTH) @ w[p + "attn_output"].T
        h = rms(x, w[p + "ffn_norm"])
        x = x + (F.silu(h @ w[p + "ffn_gate"].T) * (h @ w[p + "ffn_up"].T)) @ w[p + "ffn_down"].T
    return rms(x, w["output_norm"]) @ w["output"].T


text = b"\n\n".join(open(name, "rb").read() for name in sorted(glob.glob("docs/*.md")) if "reference" not in name)
data = torch.tensor(list(text)) + 2
optimizer = torch.optim.AdamW(w.values(), lr=3e-3, weight_decay=0.01)
for step in range(STEPS):
    for group in optimizer.param_groups:
        group["lr"] = 4e-3 * min(1, (step + 1) / 50) * (0.5 + 0.5 * math.cos(math.pi * step / STEPS))
    starts = torch.randint(len(data) - 129, (16,))
    batch = torch.stack([data[s : s + 129] for s in starts])
    loss = F.cross_entropy(model(batch[:, :-1]).reshape(-1, VOCABULARY), batch[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 99:
        print(step + 1, round(loss.item(), 3), flush=True)


def symbols():
    """GPT-2's printable characters for the bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) if byte in plain else chr(256 + others.index(byte)) for byte in range(256)]


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def q4_0(values):
    blocks = values.reshape(-1, 32)
    extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
    scale = extreme / -8
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale != 0)
    q = np.clip(np.floor(blocks * inverse + 8.5), 0, 15).astype(np.uint8)
    packed = q[:, :16] | (q[:, 16:] << 4)
    return b"".join(s.astype("<f2").tobytes() + row.tobytes() for s, row in zip(scale, packed))


def write(path, quantized):
    tokens = ["<s>", "</s>", *symbols()]
    meta = [("general.architecture", "llama"), ("general.name", "bytes of docs"), ("general.file_type", 2 if quantized else 1),
            ("llama.block_count", LAYERS), ("llama.context_length", CONTEXT), ("llama.embedding_length", WIDTH),
            ("llama.feed_forward_length", FORWARD), ("llama.attention.head_count", HEADS), ("llama.attention.head_count_kv", HEADS),
            ("llama.rope.dimension_count", HEAD), ("llama.vocab_size", VOCABULARY), ("llama.attention.layer_norm_rms_epsilon", 1e-5),
            ("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", "default"), ("tokenizer.ggml.tokens", tokens),
            ("tokenizer.ggml.merges", ["a a"]), ("tokenizer.ggml.token_type", [3, 3, *[1] * 256]),
            ("tokenizer.ggml.bos_token_id", 0), ("tokenizer.ggml.eos_token_id", 1), ("tokenizer.ggml.add_bos_token", False)]
    head = b""
    for key, value in meta:
        head += string(key)
        if isinstance(value, bool):
            head += struct.pack("<I?", 7, value)
        elif isinstance(value, str):
            head += struct.pack("<I", 8) + string(value)
        elif isinstance(value, float):
            head += struct.pack("<If", 6, value)
        elif isinstance(value, int):
            head += struct.pack("<II", 4, value)
        else:
            kind = 8 if isinstance(value[0], str) else 5
            items = b"".join(string(item) if kind == 8 else struct.pack("<i", item) for item in value)
            head += struct.pack("<IIQ", 9, kind, len(value)) + items
    infos, body = b"", b""
    for name, tensor in w.items():
        values = tensor.detach().numpy().astype(np.float32)
        if values.ndim == 1:
            kind, raw = 0, values.astype("<f4").tobytes()
        elif quantized:
            kind, raw = 2, q4_0(values)
        else:
            kind, raw = 1, values.astype("<f2").tobytes()
        infos += string(name + ".weight") + struct.pack("<I", values.ndim)
        infos += b"".join(struct.pack("<Q", size) for size in reversed(values.shape)) + struct.pack("<IQ", kind, len(body))
        body += raw + b"\0" * (-len(raw) % 32)
    file = b"GGUF" + struct.pack("<IQQ", 3, len(w), len(meta)) + head + infos
    with open(path, "wb") as out:
        out.write(file + b"\0" * (-len(file) % 32) + body)


write(f"{OUT}/model-f16.gguf", False)
write(f"{OUT}/model-q4_0.gguf", True)
