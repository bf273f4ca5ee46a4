"""Pieces of a response are compressed and joined."""

from __future__ import annotations

import gzip

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.byte_stream import PIECE, compress, each, joined


async def test_compressing_in_pieces_gives_one_gzip_stream():
    pieces = [f"line {number}\n".encode() * 500 for number in range(200)]
    packed = await compress(each(pieces))
    assert gzip.decompress(packed) == b"".join(pieces)
    assert len(packed) < len(b"".join(pieces)) / 5


@given(sizes=st.lists(st.integers(0, 2 * PIECE), max_size=8))
async def test_joined_pieces_have_the_same_bytes_and_at_least_the_size_of_a_piece_but_the_last(sizes):
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    found = [piece async for piece in joined(each(pieces))]
    assert b"".join(found) == b"".join(pieces)
    assert all(len(piece) >= PIECE for piece in found[:-1])
