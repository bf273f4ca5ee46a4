"""Build the tiny models that llama.cpp serves, in its own format, with nothing but the standard library.

``target.gguf`` is a random Llama of two layers. The second adds little to the residual stream, so that ``draft.gguf``,
the first layer of the same weights, guesses its greedy choice more often than not and its sampled one almost never: the
temperature of the requests decides how well speculation works.
"""

from __future__ import annotations

import math
import random
import string
import struct
import sys
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

LAYERS, DRAFT_LAYERS = 2, 1
WEAKENED = 0.1  # factor for the output of every layer that the draft model lacks
VOCABULARY, HIDDEN, INTERMEDIATE, CONTEXT = 256, 32, 64, 8192
ALIGNMENT = 32  # Bytes; the format's own default
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # types of tokens
UNSIGNED, SIGNED, FLOAT, STRING, ARRAY = 4, 5, 6, 8, 9  # types of metadata; numbers have 32 bits

TOKENS = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
"""Text and type of each token: the bytes of ASCII, letters, and as many others as fill the vocabulary."""
TOKENS += [(f"<0x{byte:02X}>", BYTE) for byte in range(128)]
TOKENS += [(text, NORMAL) for text in ("\u2581", *string.ascii_lowercase)]
TOKENS += [(f"<{number}>", NORMAL) for number in range(len(TOKENS), VOCABULARY)]

Value = str | int | float | Sequence[str] | Sequence[int] | Sequence[float]
Tensor = tuple[tuple[int, ...], bytes]  # Shape, the innermost dimension first, and values of 32 bits

SETTINGS: Mapping[str, Value] = {
    "general.architecture": "llama",
    "general.name": "tiny",
    "llama.context_length": CONTEXT,
    "llama.embedding_length": HIDDEN,
    "llama.feed_forward_length": INTERMEDIATE,
    "llama.attention.head_count": 1,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.dimension_count": HIDDEN,
    "llama.vocab_size": VOCABULARY,
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": [text for text, _ in TOKENS],
    "tokenizer.ggml.scores": [-float(number) for number in range(VOCABULARY)],
    "tokenizer.ggml.token_type": [kind for _, kind in TOKENS],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
}
"""Description of both models, without the number of their layers."""


def tensors() -> dict[str, Tensor]:
    """Draw the target's weights, always the same ones: all are of a normal distribution but the norms, which are 1."""
    drawn = {"token_embd.weight": (1.0, HIDDEN, VOCABULARY), "output.weight": (0.2, HIDDEN, VOCABULARY)}
    norms = ["output_norm.weight"]
    for layer in range(LAYERS):
        factor = 1 if layer < DRAFT_LAYERS else WEAKENED
        norms += [f"blk.{layer}.attn_norm.weight", f"blk.{layer}.ffn_norm.weight"]
        drawn |= {
            f"blk.{layer}.attn_q.weight": (0.08, HIDDEN, HIDDEN),
            f"blk.{layer}.attn_k.weight": (0.08, HIDDEN, HIDDEN),
            f"blk.{layer}.attn_v.weight": (0.2, HIDDEN, HIDDEN),
            f"blk.{layer}.attn_output.weight": (0.3 * factor, HIDDEN, HIDDEN),
            f"blk.{layer}.ffn_gate.weight": (0.2, HIDDEN, INTERMEDIATE),
            f"blk.{layer}.ffn_up.weight": (0.2, HIDDEN, INTERMEDIATE),
            f"blk.{layer}.ffn_down.weight": (0.2 * factor, INTERMEDIATE, HIDDEN),
        }
    weights: dict[str, Tensor] = {name: ((HIDDEN,), array("f", [1.0] * HIDDEN).tobytes()) for name in norms}
    chance = random.Random(7)
    for name, (deviation, *shape) in drawn.items():
        values = (chance.gauss(0, deviation) for _ in range(math.prod(shape)))
        weights[name] = tuple(shape), array("f", values).tobytes()
    return weights


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> tuple[int, bytes]:
    """Return type and bytes of a value. A whole number has no sign; one of an array has: so llama.cpp reads both."""
    match value:
        case str():
            return STRING, _text(value)
        case int():
            return UNSIGNED, struct.pack("<I", value)
        case float():
            return FLOAT, struct.pack("<f", value)
        case _:
            kinds, data = zip(*map(_value, value), strict=True)
            kind = SIGNED if kinds[0] == UNSIGNED else kinds[0]
            return ARRAY, struct.pack("<IQ", kind, len(data)) + b"".join(data)


def write(path: Path, metadata: Mapping[str, Value], weights: Mapping[str, Tensor]) -> None:
    """Write a file of the format GGUF, version 3: metadata, a table of tensors, and their values in 32 bits."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(metadata))
    for key, value in metadata.items():
        kind, data = _value(value)
        head += _text(key) + struct.pack("<I", kind) + data
    body = b""
    for name, (shape, values) in weights.items():
        head += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(body))
        body += values + bytes(-len(values) % ALIGNMENT)
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + body)


def build(folder: Path) -> None:
    """Write target and draft model into ``folder``."""
    weights = tensors()
    beyond = tuple(f"blk.{layer}." for layer in range(DRAFT_LAYERS, LAYERS))
    cut = {name: tensor for name, tensor in weights.items() if not name.startswith(beyond)}
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "target.gguf", {**SETTINGS, "llama.block_count": LAYERS}, weights)
    write(folder / "draft.gguf", {**SETTINGS, "llama.block_count": DRAFT_LAYERS}, cut)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
