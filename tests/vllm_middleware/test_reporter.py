"""Sending records to the exporter: batches, failures, credentials, TLS and forks."""

from __future__ import annotations

import base64
import logging
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trustme

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.vllm_middleware.harness import Exporter, application, json_exchange, run


@pytest.fixture
def reporter(settings):
    """Return a function that makes a reporter with requests in its queue."""

    async def with_requests(number, **values):
        settings(**values)
        app = inside.Middleware(application(json_exchange()[1]))
        for _ in range(number):
            await run(app, json_exchange()[0])
        return app._reporter

    return with_requests


def keep(reporter, *records):
    for record in records:
        reporter.sender.keep(record)


async def test_a_batch_is_ndjson_to_the_configured_address(reporter, exporter):
    one = await reporter(2, URL=exporter.url.replace("/api/v1/requests", "/behind/a/proxy"), TARGET="vllm-0")
    one.work(0.0)
    ((head, _),) = exporter.requests
    assert head.startswith("POST /behind/a/proxy HTTP/1.1\r\n")
    assert "Content-Type: application/x-ndjson" in head
    assert [record["target"] for record in exporter.records()] == ["vllm-0"] * 2


async def test_a_batch_above_the_exporter_s_rate_is_kept_and_sent_again(reporter, exporter):
    """The exporter counts nothing of it, and the sender repeats it."""
    one = await reporter(2, URL=exporter.url)
    one.sender.dropped = 7
    exporter.reply = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"
    one.work(0.0)
    first = exporter.records()
    assert len(first) == 2
    assert (one.sender.dropped, len(one.sender._records)) == (7, 2)
    assert one.sender._records.size == sum(len(record) for record, _ in one.sender._records._items)
    assert one.sender._pause == inside.ROUND_SECONDS
    exporter.reply = Exporter.OK
    keep(one, b"{}")
    one.work(60.0)
    assert exporter.records() == [*first, *first, {}]
    assert (one.sender.dropped, len(one.sender._records), one.sender._records.size) == (0, 0, 0)


async def test_records_are_sent_over_a_unix_socket(reporter, tmp_path):
    with Exporter(path=str(tmp_path / "socket")) as exporter:
        one = await reporter(1, URL=f"unix:{tmp_path}/socket")
        one.work(0.0)
        assert exporter.requests[0][0].startswith("POST /api/v1/requests ")


async def test_credentials_are_read_from_a_file_that_may_change(reporter, exporter, tmp_path):
    file = tmp_path / "secret"
    file.write_text("ann:secret\n")
    one = await reporter(1, URL=exporter.url, BASIC_AUTH_FILE=file)
    one.work(0.0)
    file.write_text("ann:other\n")
    keep(one, b"{}")
    one.work(0.0)
    tokens = [head.partition("Authorization: Basic ")[2].split("\r\n")[0] for head, _ in exporter.requests]
    assert [base64.b64decode(token) for token in tokens] == [b"ann:secret", b"ann:other"]


@pytest.mark.parametrize("secret", ["Rumpelstilzchen", "Rumpel\u20acstilzchen", "\xe4Rumpelstilzchen"])
@pytest.mark.parametrize(
    "answer", [b"Rumpelstilzchen", b"HTTP/1.1 401 Rumpelstilzchen\r\n\r\n", Exporter.RESET]
)
async def test_no_secret_is_in_the_log_whatever_the_exporter_answers(
    reporter, exporter, tmp_path, caplog, secret, answer
):
    caplog.set_level(logging.DEBUG)
    (tmp_path / "secret").write_text(secret)
    exporter.reply = answer
    one = await reporter(1, URL=exporter.url, BEARER_TOKEN_FILE=tmp_path / "secret")
    one.work(0.0)
    assert len(exporter.requests) == 1
    assert "does not take it" in caplog.text
    assert "stilzchen" not in caplog.text


async def test_https_requires_a_trusted_certificate(reporter, tmp_path, monkeypatch, caplog):
    """The certificates are read once, and again when the file changes: it takes tens of milliseconds."""
    made = []
    make = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda **named: made.append(0) or make(**named))
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    exporter = Exporter()
    exporter.listener = context.wrap_socket(exporter.listener, server_side=True)
    with exporter:
        url = exporter.url.replace("http:", "https:")
        one = await reporter(1, URL=url, CA_FILE=tmp_path / "ca.pem")
        for number in (1, 2):
            one.work(0.0)
            assert (len(exporter.records()), len(made)) == (number, 1)
            keep(one, b"{}")
        (tmp_path / "ca.pem").unlink()
        one.work(0.0)
        trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
        one.work(60.0)
    assert (len(exporter.records()), len(made), len(one.sender._records)) == (2, 2, 1)
    assert f"{tmp_path}/ca.pem: No such file" in caplog.text
    assert "certificate verify failed" in caplog.text


async def test_the_thread_is_started_with_the_first_request(wrap, monkeypatch):
    """It is started again after a failure or its end: later requests are reported."""
    monkeypatch.undo()
    started = []
    no_thread = RuntimeError("can't start new thread")

    def start(thread):
        started.append(thread)
        raise no_thread

    app = wrap(application(json_exchange()[1]))
    assert started == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        await run(app, json_exchange()[0])
    one = app._reporter
    assert (len(started), len(one._exchanges), one.sender.dropped) == (1, 0, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inside.Reporter, "_run", lambda reporter: None)
        await run(app, json_exchange()[0])
        one._thread.join()
        ended = one._thread
        await run(app, json_exchange()[0])
        assert one._thread is not ended
        one._thread.join()
    assert len(one._exchanges) == 4


FORK = """
import os, sys, threading
import spec_decode_requests as inside

inside.Reporter._start = lambda reporter: None
app = inside.Middleware(None)
one = app._reporter
exchange = inside.Exchange(one, {"headers": []})
one.queue_request(exchange)
one.sender.keep(b"{}")
one.failed(ValueError())
for lock in (one.sender._lock, one._exchanges._lock, one.sender._records._lock):
    lock.acquire()
if os.fork() == 0:
    print(len(one._exchanges), len(one.sender._records), one.sender.dropped)
    thread = threading.Thread(target=one.queue_request, args=(exchange,), daemon=True)
    thread.start()
    thread.join(30)
    one.failed(ValueError())
    print(len(one._exchanges), one.sender.dropped, flush=True)
    os._exit(0)
os.wait()
print(len(one._exchanges), len(one.sender._records), one.sender.dropped)
"""


def test_a_forked_child_has_no_records_and_no_locks_of_its_parent():
    """A lock that the thread holds at the fork is never released in the child; records are sent once."""
    folder = Path(inside.__file__).parent
    command = [sys.executable, "-c", FORK]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(folder)}, timeout=60
    )
    assert done.stdout.splitlines() == ["0 0 0", "1 1", "1 1 1"]


@pytest.mark.parametrize(("limit", "most"), [("RECORDS", 4), ("RECORD_BYTES", 9)])
async def test_waiting_records_are_bounded_and_the_oldest_are_dropped(reporter, monkeypatch, limit, most):
    monkeypatch.setattr(inside, limit, most)
    one = await reporter(0, URL="http://127.0.0.1:1/")
    keep(one, *(b"%d" % (11 * number) for number in range(6)))
    assert one.sender.dropped == 2
    one.work(0.0)
    assert one.sender._records.take(9, 9) == [b"22", b"33", b"44", b"55"]


LINES = [f"Rumpel{between}stilzchen" for between in ("\n", "\r\n", "\r", "\0", "\x7f", "\n\n-----")]


@pytest.mark.parametrize("name", ["BEARER_TOKEN_FILE", "BASIC_AUTH_FILE"])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        ("/dev/zero", f"has more than {inside.SECRET_BYTES} bytes"),
        *((line, "has more than one line") for line in LINES),
    ],
)
async def test_an_unusable_secret_is_neither_sent_nor_logged_and_records_are_kept(
    reporter, exporter, tmp_path, caplog, name, content, why
):
    file = tmp_path / "secret"
    if content == "/dev/zero":
        file.symlink_to(content)
    elif content:
        file.write_bytes(content.encode())
    one = await reporter(1, URL=exporter.url, **{name: file})
    one.work(0.0)
    assert exporter.requests == []
    assert f"{file}" in caplog.text
    assert why in caplog.text
    assert "Rumpel" not in caplog.text
    assert "stilzchen" not in caplog.text
    file.unlink(missing_ok=True)
    file.write_text("ann:t0ken")
    one.work(60.0)
    assert (len(exporter.records()), one.sender.dropped) == (1, 0)
