"""Limits of reading: hostile requests are stopped, typical requests are read."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.vllm_middleware.adversarial import HOSTILE, HOSTILE_ANSWERS, TYPICAL
from tests.vllm_middleware.harness import SCOPE, Server, application, asked, body, json_exchange, run, start

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


def work_of(clock):
    work = inside.Work(clock, clock.sleep)
    work.begin_round()
    work.begin(inside.REQUEST_SECONDS)
    return work


def exchange_of(text):
    one = object.__new__(inside.Exchange)
    one.type = one.user = b""
    one.body = inside.Tail(inside.BODY_BYTES)
    one.body.add(text)
    return one


def read(text, clock):
    settings = inside.Settings()
    return inside.read_request(exchange_of(text), inside.request_keys(settings), settings, work_of(clock))


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
    work = work_of(clock)
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
    work = work_of(clock)
    settings = inside.Settings()
    found = inside.read_request(exchange_of(text), inside.request_keys(settings), settings, work)
    assert found == {"temperature": 0.5}
    assert inside.STEPS - work._steps < inside.STEPS / 8


@given(st.binary(max_size=2000), st.integers(0, 3))
def test_the_number_of_steps_is_bounded_by_the_size(text, keys):
    """At most one step per key, and one per chunk between keys."""
    clock = Clock(step=0.0)
    work = work_of(clock)
    found = [b'"n":', b'"temperature":', b""]
    inside.top_level(
        text.replace(b"n", found[keys % 3]), inside.keys_of("n", "temperature"), work, whole=bool(keys)
    )
    assert inside.STEPS - work._steps <= 2 * len(text) + 4


@pytest.mark.parametrize(("more", "is_read"), [(0, True), (1, False)])
def test_a_body_has_a_limit_of_keys(more, is_read):
    text = b"{" + b'"n":1,' * (inside.KEY_MATCHES - 1 + more) + b'"n":2}'
    if is_read:
        assert read(text, Clock(step=0.0)) == {"n": 2}
    else:
        with pytest.raises(inside.TooCostlyError):
            read(text, Clock(step=0.0))


def test_steps_have_a_limit_where_the_clock_is_coarse():
    work = work_of(Clock(step=0.0))
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
        reporter.put(reporter._read_request, exchange_of(b"{}"), inside.Tail(1))
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


@pytest.mark.parametrize(("more", "reported"), [(0, 1), (1, 0)])
async def test_a_body_has_a_limit_of_messages(wrap, exporter, more, reported):
    app = wrap(application(json_exchange()[1]))
    pieces = [b"{", *[b" "] * (inside.BODY_MESSAGES - 2 + more), b"}"]
    incoming = [*(asked(piece, more=True) for piece in pieces[:-1]), asked(pieces[-1])]
    assert await run(app, incoming) == await run(application(json_exchange()[1]), incoming)
    app._reporter.work(0.0)
    assert [len(exporter.records()), app._reporter.sender.too_costly] == [reported, 0]
    assert ("X-Spec-Decode-Too-Costly: 1" in exporter.requests[0][0]) == bool(more)


@pytest.mark.parametrize(
    "head", [start(400), start(headers=[(b"content-encoding", b"gzip")])], ids=["no success", "compressed"]
)
async def test_a_request_that_is_not_reported_is_not_read(wrap, monkeypatch, head):
    """Requests that vLLM refuses must not use the thread's share of time."""
    texts = []
    top_level = inside.top_level
    monkeypatch.setattr(
        inside,
        "top_level",
        lambda text, *words, **named: texts.append(text) or top_level(text, *words, **named),
    )
    app = wrap(application([head, body(b"")]))
    await run(app, [asked(b"{" + b'"n":1,' * 600 + b'"n":1}')])
    app._reporter.work(0.0)
    assert texts == [b""]
    assert (app._reporter.sender.too_costly, app._reporter.sender.dropped) == (0, 0)


def test_a_key_inside_a_string_counts_towards_the_limit():
    """Otherwise a step could match thousands."""
    for number in (inside.KEY_MATCHES, inside.KEY_MATCHES + 1):
        text = b'{"a' + b'\\"n":' * number + b'"}'
        with (
            contextlib.nullcontext() if number == inside.KEY_MATCHES else pytest.raises(inside.TooCostlyError)
        ):
            assert inside.find_keys(text, inside.keys_of("n"), work_of(Clock(step=0.0))) == []


@pytest.mark.parametrize(("number", "reported"), [(inside.HEADERS, 1), (inside.HEADERS + 1, 0)])
async def test_a_request_has_a_limit_of_headers(wrap, exporter, number, reported):
    """The type could follow them: such a request is not reported as one without a type."""
    scope = {**SCOPE, "headers": [(b"a", b"b")] * (number - 1) + [(b"x-request-type", b"t" * 65_536)]}
    app = wrap(application(json_exchange()[1]))
    await run(app, json_exchange()[0], scope)
    app._reporter.work(0.0)
    assert [record["request_type"] for record in exporter.records()] == [
        "t" * inside.TEXT_CHARACTERS
    ] * reported
    assert ("X-Spec-Decode-Too-Costly: 1" in exporter.requests[0][0]) == (not reported)


async def test_a_costly_request_is_logged_once_without_its_text(wrap, caplog):
    app = wrap(application(json_exchange()[1]))
    for _ in range(3):
        await run(app, [asked(b"{" + b'"n":"Rumpelstilzchen",' * 600 + b'"n":1}')])
        app._reporter.work(0.0)
    (line,) = caplog.records
    assert "one was too costly to read" in line.getMessage()
    assert "Rumpel" not in caplog.text


@pytest.mark.parametrize("name", HOSTILE_ANSWERS)
def test_the_end_of_a_hostile_response_is_read_within_the_time_limit(name):
    streamed, make = HOSTILE_ANSWERS[name]
    text = make()
    one = object.__new__(inside.Exchange)
    one.stream, one.head = streamed, text[:1024]
    one.answer = inside.Tail(inside.RESPONSE_BYTES)
    one.answer.add(text)
    clock = Clock(step=STEP / 50)
    work = inside.Work(clock, clock.sleep)
    work.begin_round()
    work.begin(inside.RESPONSE_SECONDS)
    try:
        record = inside.read_response(one, work)
    except inside.TooCostlyError:
        record = {}
    assert set(record) <= {"model", "metrics", "usage"}
    assert clock.now <= inside.RESPONSE_SECONDS + 10 * STEP


async def test_a_response_of_single_bytes_stays_within_the_memory_limit(wrap):
    text = b"x" * 50_000
    held = []

    async def app(scope, receive, send):
        await receive()
        await send(start(kind=b"text/event-stream"))
        for _ in text:
            await send(body(b"x", more=True))
            held.append(exchanges[0].answer.memory)

    exchanges = []
    make = inside.Exchange

    def exchange(*words):
        exchanges.append(make(*words))
        return exchanges[-1]

    async def send(message):
        pass

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inside, "Exchange", exchange)
        await wrap(app)(SCOPE, Server([asked(b"{}")]).receive, send)
    assert max(held) <= inside.RESPONSE_BYTES + inside.PIECES * (1 + inside.PIECE_OVERHEAD_BYTES)
