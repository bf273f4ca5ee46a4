"""Settings, and sending of records to the exporter: batches, failures, credentials, TLS and forks."""

import ast
import base64
import logging
import socket
import ssl
import sys
import threading
from pathlib import Path

import pytest
import trustme

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside
from tests.unit.vllm_middleware.harness import OK, Exporter, application, configure, json_exchange, run

FILE = Path(inside.__file__)
FORM = "SPEC_DECODE_REQUESTS_URL: give http://"


async def reporter(number):
    """Return a reporter with some requests in its queue."""
    asked, answered = json_exchange()
    app = inside.Middleware(application(answered))
    for _ in range(number):
        await run(app, asked)
    return app._reporter


def test_the_file_needs_python_3_10_and_msgspec_alone():
    tree = ast.parse(FILE.read_text(), feature_version=(3, 10))
    imported = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    imported += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in imported} - sys.stdlib_module_names == {"msgspec"}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"BASIC_AUTH_FILE": "a", "BEARER_TOKEN_FILE": "b"}, "exclude each other"),
        *(({"URL": f"http://h/{end}Rumpel"}, FORM) for end in ("\n", "\x1b[2J", "\u202e")),
        *(({"URL": url}, FORM) for url in ("ftp://x", "http://x:port", "Rumpel", "unix:", "http://[Rumpel")),
        *(({"URL": f"https://h/api{end}"}, FORM) for end in ("?token=Rumpel", "#Rumpel")),
        *(({"URL": f"https://{user}@h/"}, FORM) for user in ("Rumpel", "ann:Rumpel")),
    ],
)
async def test_invalid_settings_disable_the_middleware_with_one_log_line_without_secrets(
    monkeypatch, caplog, values, why
):
    caplog.set_level(logging.DEBUG)
    configure(monkeypatch, **values)
    asked, answered = json_exchange()
    app = inside.Middleware(application(answered))
    assert await run(app, asked) == await run(application(answered), asked)
    (line,) = caplog.records
    assert why in line.getMessage()
    assert "Rumpel" not in caplog.text


async def test_a_batch_is_ndjson_to_the_configured_address(exporter, monkeypatch):
    monkeypatch.setattr(inside, "BATCH_RECORDS", 2)
    url = exporter.url.replace("/api/v1/requests", "/behind/a/proxy")
    configure(monkeypatch, URL=url, TARGET="vllm-0")
    one = await reporter(3)
    one.work(0.0)
    assert [head.split("\r\n")[0] for head, _ in exporter.requests] == ["POST /behind/a/proxy HTTP/1.1"] * 2
    assert "Content-Type: application/x-ndjson" in exporter.requests[0][0]
    assert [len(text.splitlines()) for _, text in exporter.requests] == [2, 1]
    assert [record["target"] for record in exporter.records()] == ["vllm-0"] * 3


async def test_a_batch_above_the_exporter_s_rate_is_kept_and_sent_again_after_pauses(exporter, caplog):
    one = await reporter(2)
    one.unreported.append(True)
    exporter.reply = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"
    for now in (0.0, 0.9, 1.0, 2.9):  # pauses of 1 and 2 s
        one.work(now)
    assert len(exporter.requests) == 2
    assert "they are above its requests.rate" in caplog.text
    exporter.reply = OK
    one.work(3.0)
    assert len(exporter.requests[-1][1].splitlines()) == 2
    assert f"{inside.DROPPED}: 1\r\n{inside.TOO_COSTLY}: 1" in exporter.requests[-1][0]
    assert (len(one.unreported), len(one.records)) == (0, 0)


async def test_records_of_an_exporter_that_is_away_are_kept_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(inside, "RECORDS", 3)
    configure(monkeypatch, URL="http://127.0.0.1:1/")
    one = await reporter(5)
    one.work(0.0)
    assert (len(one.records), len(one.unreported)) == (3, 2)


async def test_records_are_sent_over_a_unix_socket(monkeypatch, tmp_path):
    configure(monkeypatch, URL=f"unix:{tmp_path}/socket")
    listener = socket.create_server(str(tmp_path / "socket"), family=socket.AF_UNIX)
    with Exporter(listener=listener) as exporter:
        one = await reporter(1)
        one.work(0.0)
        assert exporter.requests[0][0].startswith("POST /api/v1/requests HTTP/1.1\r\nHost: localhost\r\n")


async def test_credentials_are_read_from_a_file_that_may_change(exporter, monkeypatch, tmp_path):
    file = tmp_path / "secret"
    file.write_text("ann:secret\n")
    configure(monkeypatch, BASIC_AUTH_FILE=file)
    one = await reporter(1)
    one.work(0.0)
    file.write_text("ann:öther\n")
    one.records.append(b"{}")
    one.work(0.0)
    tokens = [head.partition("Authorization: Basic ")[2].split("\r\n")[0] for head, _ in exporter.requests]
    assert [base64.b64decode(token).decode() for token in tokens] == ["ann:secret", "ann:öther"]


@pytest.mark.parametrize("name", ["BEARER_TOKEN_FILE", "BASIC_AUTH_FILE"])
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        ("/dev/zero", "more than one line"),
        *((f"Rumpel{end}stilzchen", "more than one line") for end in ("\n", "\r", "\0", "\x7f", "\n\n-----")),
    ],
)
async def test_an_unusable_secret_is_neither_sent_nor_logged_and_records_are_kept(
    exporter, monkeypatch, tmp_path, caplog, name, content, why
):
    file = tmp_path / "secret"
    if content == "/dev/zero":
        file.symlink_to(content)
    elif content:
        file.write_bytes(content.encode())
    configure(monkeypatch, **{name: file})
    one = await reporter(1)
    one.work(0.0)
    assert exporter.requests == []
    assert f"{file}: {why}" in caplog.text
    assert "Rumpel" not in caplog.text
    assert "stilzchen" not in caplog.text
    assert len(one.records) == 1


async def test_https_requires_a_trusted_certificate(monkeypatch, tmp_path, caplog):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    listener = context.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True)
    with Exporter(listener=listener) as exporter:
        configure(monkeypatch, URL=exporter.url.replace("http:", "https:"), CA_FILE=tmp_path / "ca.pem")
        one = await reporter(1)
        one.work(0.0)
        one.records.append(b"{}")
        one._tls = None
        trustme.CA().cert_pem.write_to_path(tmp_path / "ca.pem")
        one.work(60.0)
    assert (len(exporter.records()), len(one.records)) == (1, 1)
    assert "certificate verify failed" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # that is how it ends
async def test_the_thread_reads_and_sends_and_survives_an_internal_error(exporter, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv(f"{inside.PREFIX}URL", exporter.url)
    monkeypatch.setattr(inside, "ROUND_SECONDS", 0.001)
    app = inside.Middleware(application(json_exchange()[1]))
    failed, sent = threading.Event(), threading.Event()
    work = app._reporter.work

    def fails_once(now):
        if not failed.is_set():
            failed.set()
            raise RuntimeError("bug")
        work(now)
        if exporter.records():
            sent.set()
            raise SystemExit

    monkeypatch.setattr(app._reporter, "work", fails_once)
    await run(app, json_exchange()[0])
    assert failed.wait(30)
    assert sent.wait(30)
    app._reporter._thread.join()
    assert f"{inside.DROPPED}: 1" in exporter.requests[0][0]
    assert len(exporter.records()) == 1
