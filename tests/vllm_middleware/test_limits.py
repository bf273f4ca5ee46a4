"""Limits of reading: hostile requests are stopped, typical requests are read."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.hostile.middleware import ROWS
from tests.vllm_middleware.adversarial import HOSTILE, TYPICAL
from tests.vllm_middleware.harness import (
    SCOPE,
    application,
    asked,
    body,
    exchange,
    json_exchange,
    run,
    start,
    work_of,
)

STEP = 50e-6
"""Seconds by which each reading advances the clock."""


class Clock:
    """Processor clock that advances with each reading, and records the rests."""

    def __init__(self, step=STEP):
        self.now = 0.0
        self.step = step
        self.rests = []

    def __call__(self):
        self.now += self.step
        return self.now

    def sleep(self, seconds):
        assert seconds == inside.REST_SECONDS
        self.rests.append(self.now)


class Sliced(bytes):
    """Bytes that record the size of each slice, and the steps before it."""

    def __new__(cls, text, work):
        one = super().__new__(cls, text)
        one.work, one.slices, one.at = work, [], []
        return one

    def __getitem__(self, key):
        found = super().__getitem__(key)
        if isinstance(key, slice):
            self.slices.append(len(found))
            self.at.append(self.work._steps)
        return found


def read(text, clock):
    settings = inside.Settings()
    return inside.read_request(
        exchange(text), inside.request_keys(settings), settings, work_of(clock, clock.sleep)
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_read_within_the_time_limit(name):
    clock = Clock()
    with contextlib.suppress(inside.TooCostlyError, UnicodeError):
        read(HOSTILE[name](), clock)
    # What begins the round and the reading, the step that is too much, and those that rest.
    assert clock.now <= inside.REQUEST_SECONDS + (3 + len(clock.rests)) * STEP
    since = [0.0, *clock.rests, clock.now]
    assert max(b - a for a, b in itertools.pairwise(since)) <= inside.SLICE_SECONDS + 3 * STEP


@pytest.mark.parametrize("name", {**HOSTILE, **TYPICAL})
def test_no_step_reads_more_than_a_chunk(name):
    """A C call blocks the interpreter, and so the event loop."""
    clock = Clock(step=0.0)
    work = work_of(clock, clock.sleep)
    text = Sliced({**HOSTILE, **TYPICAL}[name]()[-inside.BODY_BYTES :], work)
    keys = inside.keys_of("temperature", "n")
    regions = []

    class Watched:
        def finditer(self, text, at, end):
            regions.append((min(end, len(text)) - at, work._steps))
            return keys.pattern.finditer(text, at, end)

    with contextlib.suppress(inside.TooCostlyError):
        inside.top_level(text, keys._replace(pattern=Watched()), work, whole=True)
    assert max((size for size, _ in regions), default=0) <= inside.CHUNK_BYTES + keys.max_bytes
    assert max(text.slices, default=0) <= inside.CHUNK_BYTES
    assert len(regions) == len({steps for _, steps in regions})  # each after a step of its own
    parts = [at for size, at in zip(text.slices, text.at, strict=True) if size > inside.VALUE_BYTES]
    assert len(parts) == len(set(parts))


@pytest.mark.parametrize("name", TYPICAL)
def test_a_typical_request_of_up_to_a_mib_is_read(name):
    """A tenth of the steps suffices, with the temperature first or last, without slicing the prompt."""
    text = TYPICAL[name]()
    assert len(text) <= 1.05 * inside.BODY_BYTES
    clock = Clock(step=0.0)
    work = work_of(clock, clock.sleep)
    settings = inside.Settings()
    found = inside.read_request(exchange(text), inside.request_keys(settings), settings, work)
    assert found == {"temperature": 0.5}
    assert inside.STEPS - work._steps < inside.STEPS / 8


def test_steps_have_a_limit_where_the_clock_is_coarse():
    work = work_of()
    for _ in range(inside.STEPS):
        work.step()
    with pytest.raises(inside.TooCostlyError):
        work.step()


def test_the_thread_rests_between_small_requests_too(wrap, monkeypatch):
    """The time since the last rest continues across requests."""
    clock = Clock(step=inside.SLICE_SECONDS / 10)
    reporter = wrap(None)._reporter
    reporter._work = inside.Work(clock, clock.sleep)
    for _ in range(100):
        reporter.put(reporter._read_request, exchange(b"{}"), inside.Tail(1))
    reporter.work(0.0)
    assert len(clock.rests) >= 25
    assert max(b - a for a, b in zip(clock.rests, clock.rests[1:], strict=False)) < 1.5 * inside.SLICE_SECONDS


async def test_a_thousand_hostile_requests_stay_within_the_share_of_a_core(wrap, monkeypatch):
    """Other requests wait in a bounded queue; those beyond it are dropped."""
    text = HOSTILE['repeated `"`']()
    clock = Clock()
    app = wrap(application(json_exchange()[1]))
    reporter = app._reporter
    reporter._work = inside.Work(clock, clock.sleep)
    monkeypatch.setattr(inside.Sender, "send", lambda sender, now: None)
    for _ in range(1000):
        await run(app, [asked(text)])
    waiting = len(reporter._exchanges)
    assert reporter._exchanges.size <= inside.EXCHANGE_BYTES
    assert reporter.sender.dropped > 900
    for _ in range(100):
        before = clock.now
        reporter.work(0.0)
        assert (
            clock.now - before
            <= inside.CORE_SHARE * inside.ROUND_SECONDS + inside.REQUEST_SECONDS + 20 * STEP
        )
    assert len(reporter._exchanges) == 0
    assert reporter.sender.dropped + reporter.sender.too_costly == 1000
    assert 0 < reporter.sender.too_costly < waiting


def test_a_key_inside_a_string_counts_towards_the_limit():
    """Otherwise a step could match thousands."""
    for number in (inside.KEY_MATCHES, inside.KEY_MATCHES + 1):
        text = b'{"a' + b'\\"n":' * number + b'"}'
        with (
            contextlib.nullcontext() if number == inside.KEY_MATCHES else pytest.raises(inside.TooCostlyError)
        ):
            assert inside.find_keys(text, inside.keys_of("n"), work_of()) == []


async def test_a_costly_request_is_logged_once_without_its_text(wrap, caplog):
    app = wrap(application(json_exchange()[1]))
    for _ in range(3):
        await run(app, [asked(b"{" + b'"n":"Rumpelstilzchen",' * 600 + b'"n":1}')])
        app._reporter.work(0.0)
    (line,) = caplog.records
    assert "one was too costly to read" in line.getMessage()
    assert "Rumpel" not in caplog.text


@pytest.mark.parametrize(("messages", "headers"), [(inside.BODY_MESSAGES, 1), (0, inside.HEADERS + 1)])
async def test_a_request_beyond_a_limit_passes_and_is_reported_as_too_costly(
    wrap, exporter, messages, headers
):
    app, scope = wrap(application(json_exchange()[1])), {**SCOPE, "headers": [(b"a", b"b")] * headers}
    incoming = [*[asked(b" ", more=True)] * messages, asked(b"{}")]
    assert await run(app, incoming, scope) == await run(application(json_exchange()[1]), incoming, scope)
    app._reporter.work(0.0)
    assert exporter.records() == []
    assert "X-Spec-Decode-Too-Costly: 1" in exporter.requests[0][0]


@pytest.mark.parametrize(
    "head", [start(400), start(headers=[(b"content-encoding", b"gzip")])], ids=["no success", "compressed"]
)
async def test_a_request_that_is_not_reported_is_not_read(wrap, head):
    """Requests that vLLM refuses must not use the thread's share of time: this one would be too costly."""
    app = wrap(application([head, body(b"")]))
    await run(app, [asked(HOSTILE['repeated `"n":1,`']())])
    app._reporter.work(0.0)
    assert (app._reporter.sender.too_costly, app._reporter.sender.dropped) == (0, 0)


ANSWERS = [
    pytest.param("streamed" in row.name, make, id=f"{row.name} {case}")
    for row in ROWS
    if "response" in row.name
    for case, make in {**row.worst, **row.beyond}.items()
]


@pytest.mark.parametrize(("streamed", "make"), ANSWERS)
def test_the_end_of_a_hostile_response_is_read_within_the_time_limit(streamed, make):
    clock = Clock(step=STEP / 50)
    try:
        record = inside.read_response(
            exchange(text=make(), streamed=streamed), work_of(clock, clock.sleep, inside.RESPONSE_SECONDS)
        )
    except inside.TooCostlyError:
        record = {}
    assert set(record) <= {"model", "metrics", "usage"}
    assert clock.now <= inside.RESPONSE_SECONDS + 10 * STEP
