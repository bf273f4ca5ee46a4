"""Memory of GPUs, by their name or as an amount."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, NamedTuple

from pydantic import ByteSize, TypeAdapter, ValidationError

GPUS: Final[Mapping[str, int]] = {
    "A10G": 23_028, "L4": 23_034, "RTX-4090": 24_564, "RTX-5090": 32_607, "A100-40GB": 40_960, "L40S": 46_068,
    "H100": 81_559, "A100": 81_920, "H20": 97_871, "GH200": 97_871, "RTX-PRO-6000": 97_887, "H200": 143_771,
    "B200": 183_359, "GB200": 189_471, "MI300X": 196_592,
}  # fmt: skip
"""Memory in MiB, as nvidia-smi or rocm-smi shows it."""
DEFAULT: Final = "H100"
_SIZE: Final = TypeAdapter(ByteSize)


class Gpu(NamedTuple):
    """A kind of GPU, such as ``H100``; one of a given memory has no name."""

    name: str
    memory_bytes: int


def gpu_of(text: str) -> Gpu:
    """Return a GPU by its name or its memory.

    Raises:
        ValueError: The text is neither; the message has the nearest name.
    """
    name = re.sub("[ _]", "-", text.strip().upper())
    if name in GPUS:
        return Gpu(name, GPUS[name] * 2**20)
    if text[:1].isdigit():
        if size := memory(text):
            return Gpu("", size)
        raise ValueError(f"a GPU has more memory than {text!r}")
    near = get_close_matches(name, GPUS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(GPUS)};"
    raise ValueError(f"unknown GPU {text[:60]!r}; {hint} or give its memory, such as 81559MiB")


def memory(text: str) -> int:
    """Return the bytes in ``text``: ``80GB`` is 80 · 10^9, ``143771MiB`` is 143771 · 2^20.

    Raises:
        ValueError: The text is no amount of memory; the message has examples.
    """
    wrong = f"{text[:60]!r} is no amount of memory; write it as 80GB, 79.6GiB or 81559MiB"
    if text != "0" and not text.strip().upper().endswith("B"):
        raise ValueError(wrong)
    try:
        return int(_SIZE.validate_python(text.strip()))
    except (ValidationError, OverflowError):
        raise ValueError(wrong) from None
