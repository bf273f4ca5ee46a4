"""Which of several exporters a target belongs to."""

from __future__ import annotations

from hashlib import md5
from typing import TYPE_CHECKING

from spec_decode_exporter.config.url import address

if TYPE_CHECKING:
    from spec_decode_exporter.discovery.target import Target


def shard_of(target: Target, count: int) -> int:
    """Return which of ``count`` exporters watches a target, from 0.

    Only the address counts, not the name: that may depend on what else was found, which two exporters need
    not know at the same moment.
    """
    return hash_modulus(address(target.url), count)


def hash_modulus(text: str, modulus: int) -> int:
    """Return what ``action: hashmod`` of Prometheus' ``model/relabel/relabel.go`` gives."""
    digest = md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[8:]) % modulus
