"""Label matchers of a Prometheus selector, as users write them."""

from __future__ import annotations

import re
from typing import Final

MAX_MATCH: Final = 4096
"""Maximum characters of the matchers."""

_LABEL: Final = r'[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*"'
_MATCH: Final = re.compile(rf"\s*{_LABEL}(?:\s*,\s*{_LABEL})*\s*,?\s*")


def label_matchers(text: str) -> str:
    """Return matchers such as ``job="vllm"``, without braces.

    Raises:
        ValueError: It is something else.
    """
    inner = text.strip().removeprefix("{").removesuffix("}").strip().removesuffix(",")
    if len(inner) > MAX_MATCH or (inner and not _MATCH.fullmatch(inner)):
        raise ValueError(
            """is not a list of label matchers; write for example 'job="vllm",namespace=~"prod-.*"'"""
        )
    return inner
