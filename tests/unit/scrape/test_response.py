"""Response parser: the result is independent of the pieces, and all errors are its own."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.client import MIN_PIECES, PIECE_BYTES, ResponseParser
from spec_decode_exporter.scrape.errors import PollError

PAGE = b'vllm:num_requests_running{engine="0"} 1.0\n' * 9
CHUNKS = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (PAGE[:50], PAGE[50:])) + b"0\r\n\r\n"
PACKED = gzip.compress(PAGE)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
WHOLE = [
    HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(PAGE), PAGE),
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
    HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(PACKED), PACKED),
]


@given(st.sampled_from(WHOLE), st.data())
def test_a_cut_off_response_is_never_complete(data, draw):
    response = ResponseParser(len(PAGE))
    response.feed(data[: draw.draw(st.integers(1, len(data) - 1))])
    assert not response.is_complete
    with pytest.raises(PollError, match="in the middle"):
        response.end()


@given(st.sampled_from(WHOLE) | st.just(b""), st.data())
def test_a_response_with_changed_bytes_gives_a_poll_error_or_a_body(data, draw):
    place = draw.draw(st.integers(0, len(data)))
    noise = draw.draw(st.binary(max_size=100))
    response = ResponseParser(len(PAGE))
    try:
        response.feed(data[:place] + noise + data[place + draw.draw(st.integers(0, 8)) :])
        if not response.is_complete:
            response.end()
        body = response.body()
    except PollError:
        return
    assert len(body) <= len(PAGE)


def test_a_response_in_too_many_small_pieces_is_cut_off():
    response, limit = ResponseParser(4096), MIN_PIECES + 4096 // PIECE_BYTES
    response.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n")
    for _ in range(limit - 1):
        response.feed(b"x")
    with pytest.raises(PollError, match="small pieces"):
        response.feed(b"x")
