"""ONE table of what a broken or hostile server may do, and of what the exporter then says of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tests.e2e.faults.answers import (
    TEXT,
    Respond,
    answer,
    drips,
    each_time_another,
    endless,
    engines,
    gzip,
    head,
    page,
    says,
    says_and_closes,
    says_and_hangs,
    says_and_resets,
)

MB = 10**6
CHUNKED = "Transfer-Encoding: chunked"
POSITION = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="{}"}} 1'
READ = "read"
SLOWLY_READ = "read timeout"
"""Where the machine has other things to do, megabytes may not come in time."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that a server does."""

    respond: Respond | None
    """None: a port without a listener."""
    outcome: frozenset[str]
    """The reasons of the failed polls, or ``read``: nothing is wrong for us, or nothing that a page shows."""
    says: str = ""
    """What of the log's line tells what is wrong; empty where nothing is said."""


def _fault(respond: Respond | None, outcome: str, says: str = "") -> Fault:
    return Fault(respond, frozenset(outcome.split()), says)


@cache
def catalogue() -> dict[str, Fault]:
    """Return the faults by a short name; some take a moment to be made."""
    return {**_connections(), **_http(), **_sizes(), **_formats(), **_values(), **_names()}


def _connections() -> dict[str, Fault]:
    whole = answer(page())
    half_head, half_body = whole[:40], whole[:-80]
    return {
        "refuses": _fault(None, "refused", "onnect"),
        "hangs-up": _fault(says_and_closes(b""), "refused", "without an answer"),
        "hangs-first": _fault(says_and_hangs(b""), "timeout", "no whole answer"),
        "hangs-in-head": _fault(says_and_hangs(half_head), "timeout", "no whole answer"),
        "hangs-after-head": _fault(says_and_hangs(head("Content-Length: 99", TEXT)), "timeout", "no whole answer"),
        "hangs-in-body": _fault(says_and_hangs(half_body), "timeout", "no whole answer"),
        "hangs-after": _fault(says_and_hangs(
            head(CHUNKED, TEXT) + b"%x\r\n%s\r\n" % (len(page()), page())), "timeout", "no whole answer"),
        "drips": _fault(drips(whole, 0.05), "timeout", "no whole answer"),
        "closes-in-head": _fault(says_and_closes(half_head), "malformed", "in the middle"),
        "closes-in-body": _fault(says_and_closes(half_body), "malformed", "in the middle"),
        "resets": _fault(says_and_resets(half_body), "refused", "reset"),
    }  # fmt: skip


def _http() -> dict[str, Fault]:
    whole = page()
    other = "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n"
    return {
        "too-short-a-length": _fault(says(answer(whole, length=50)), "malformed", "cut off"),
        "too-long-a-length": _fault(says_and_hangs(answer(whole, length=9_999)), "timeout", "no whole answer"),
        "negative-length": _fault(says(answer(whole, length=-1)), "malformed", "not an HTTP answer"),
        "two-lengths": _fault(says(answer(whole, "Content-Length: 7", TEXT)), "malformed", "not an HTTP answer"),
        "bad-chunks": _fault(says(head(CHUNKED, TEXT) + b"zz\r\n"), "malformed", "not an HTTP answer"),
        "not-http": _fault(says_and_closes(b"SSH-2.0-OpenSSH_9.2p1\r\n"), "malformed", "not an HTTP answer"),
        "error": _fault(says(answer(b"oops", status="500 Internal Server Error")), "status", "500"),
        "not-found": _fault(says(answer(b"", status="404 Not Found")), "status", "404"),
        "no-content": _fault(says(head(status="204 No Content")), "status", "204"),
        "unauthorized": _fault(says(answer(b"", status="401 Unauthorized")), "status", "401"),
        "redirects": _fault(says(other.encode()), "status", "not followed"),
        "redirects-to-itself": _fault(says(other.replace("http://169.254.169.254", "").encode()), "status", "302"),
        "switches": _fault(says(head("Upgrade: h2c", "Connection: Upgrade", status="101 Switching Protocols")), "status", "101"),
        "for-ever-soon": _fault(endless(b"", head(status="100 Continue") * 50), "too_large", "besides its body"),
        "endless-headers": _fault(endless(head()[:-2], b"X-More: and more\r\n" * 100), "too_large malformed", ""),
        "two-answers": _fault(says(answer(whole) * 2), READ),
        "type-json": _fault(says(answer(whole, "Content-Type: application/json")), READ),
        "no-type": _fault(says(answer(whole, "X-Nothing: 1")), READ),
    }  # fmt: skip


def _sizes() -> dict[str, Fault]:
    line = b"# a comment without any meaning, of about 50 bytes\n"
    bomb = gzip([bytes(MB)] * 200)
    many = b"".join(b'vllm:x_total{n="%d"} 1\n' % n for n in range(10**6))
    return {
        "endless-body": _fault(endless(head(CHUNKED, TEXT), b"33\r\n" + line + b"\r\n"), "too_large timeout", ""),
        "endless-unsized": _fault(endless(head(TEXT, "Connection: close"), line * 100), "too_large timeout", ""),
        "says-a-gigabyte": _fault(says_and_hangs(head("Content-Length: 1000000000", TEXT)), "too_large", "bytes"),
        "gzip-bomb": _fault(says(answer(bomb, "Content-Encoding: gzip", TEXT)), "too_large", "bytes"),
        "gzip-broken": _fault(says(answer(b"not gzip", "Content-Encoding: gzip", TEXT)), "malformed", ""),
        "brotli": _fault(says(answer(b"??", "Content-Encoding: br", TEXT)), "malformed", ""),
        "long-line": _fault(says(answer(page("vllm:x" + "x" * 10 * MB + " 1"))), "too_large", "bytes"),
        "line": _fault(says(answer(page("vllm:x" + "x" * 3 * MB + " 1"))), SLOWLY_READ),
        "comment": _fault(says(answer(page("# HELP x " + "x" * 3 * MB))), SLOWLY_READ),
        "long-name": _fault(says(answer(page(model="m" * 2000))), "malformed", "more than 1024 characters"),
        "million-samples": _fault(says(answer(many)), "too_large malformed", ""),
        "many-lines": _fault(says(answer(b"x 1\n" * 300_000)), "malformed", "lines"),
        "million-labels": _fault(says(answer(page(_labelled(10**6)))), "too_large", "bytes"),
        "many-labels": _fault(says(answer(page(_labelled(300_000)))), "malformed", "more than 16384 bytes"),
        "labels": _fault(says(answer(page(*(_labelled(400, n) for n in range(500))))), "malformed", "labels"),
        "many-series": _fault(says(answer(page(*(_labelled(1, n) for n in range(50_000))))), "malformed", "samples of interest"),
    }  # fmt: skip


def _labelled(labels: int, value: int = 1) -> str:
    """Return a line of a counter that is read, with N labels."""
    text = ",".join(f'l{n}="{value}"' for n in range(labels))
    return f"vllm:num_preemptions_total{{{text}}} 1"


def _formats() -> dict[str, Fault]:
    return {
        "empty": _fault(says(answer(b"")), "malformed", "empty"),
        "html": _fault(says(answer(b"<html><body>Bad gateway</body></html>\n", "Content-Type: text/html")), "malformed", "not a metric"),
        "json": _fault(says(answer(b'{"detail": "no"}\n')), "malformed", "not a metric"),
        "cut-line": _fault(says(answer(page()[:-1])), "malformed", "cut off"),
        "utf-16": _fault(says(answer(page().decode().encode("utf-16"))), "malformed", ""),
        "invalid-utf-8": _fault(says(answer(page().replace(b'"m"', b'"\xff\xfe"'))), "malformed", "not UTF-8"),
        "zero-bytes": _fault(says(answer(bytes(1000))), "malformed", "not a metric"),
        "a-zero-byte-in-a-name": _fault(says(answer(page(model="a\0b"))), READ),
        "duplicates": _fault(says(answer(page() * 2)), "malformed", "the same series"),
        "contradicts-itself": _fault(says(answer(page() + page(drafts=11))), "malformed", "the same series"),
        "label-twice": _fault(says(answer(page('vllm:num_preemptions_total{a="1",a="2"} 1'))), "malformed", "label twice"),
        "open-quote": _fault(says(answer(page('vllm:num_preemptions_total{a="1} 1'))), "malformed", "no readable"),
        "no-value": _fault(says(answer(page("vllm:num_preemptions_total"))), "malformed", ""),
        "word-as-value": _fault(says(answer(page("vllm:num_preemptions_total many"))), "malformed", "not a number"),
        "other-type": _fault(says(answer(page().replace(b" counter", b" gauge"))), READ),
        "not-vllm": _fault(says(answer(b"go_goroutines 7\n")), READ),
    }  # fmt: skip


def _values() -> dict[str, Fault]:
    return {
        "nan": _fault(says(answer(page(drafts="NaN"))), "malformed", "no counter can have"),
        "infinite": _fault(says(answer(page(drafts="+Inf"))), "malformed", "no counter can have"),
        "minus-infinite": _fault(says(answer(page(drafts="-Inf"))), "malformed", "no counter can have"),
        "negative": _fault(says(answer(page(drafts=-1))), "malformed", "no counter can have"),
        "beyond-2-53": _fault(says(answer(page(drafts=2**53))), "malformed", "no counter can have"),
        "beyond-all": _fault(says(answer(page(drafts="1e300"))), "malformed", "no counter can have"),
        "decreasing": _fault(each_time_another(lambda n: answer(page(drafts=10**6 - n))), READ),
        "leaping": _fault(each_time_another(lambda n: answer(page(drafts=n % 2 * 2**52))), READ),
        "contradictory": _fault(each_time_another(lambda n: answer(page(drafts=10 * n, accepted=99 * n))), READ),
        "gauge-nan": _fault(says(answer(page('vllm:num_requests_running{engine="0",model_name="m"} NaN'))), READ),
        "position-million": _fault(says(answer(page(POSITION.format(10**6)))), "malformed", "position"),
        "position-negative": _fault(says(answer(page(POSITION.format(-1)))), "malformed", "position"),
        "positions-of-one": _fault(says(answer(page(*map(POSITION.format, range(30_000))))), "malformed", "position"),
        "positions": _fault(says(answer(page(*map(POSITION.format, range(128))))), READ),
    }  # fmt: skip


def _names() -> dict[str, Fault]:
    def inventing(number: int) -> bytes:
        return answer(engines((f"model-{number}-{n}", "0") for n in range(100)))

    return {
        "engines": _fault(says(answer(engines(("m", str(n)) for n in range(5000)))), "malformed", "at most 256"),
        "models": _fault(says(answer(engines((f"m{n}", "0") for n in range(5000)))), "malformed", "at most 256"),
        "inventing": _fault(each_time_another(inventing), READ, "engines_evicted"),
        "label-injection": _fault(says(answer(page(model='x\\",up=\\"1\\"} 1\\nevil_total{a=\\"'))), READ),
        "html-injection": _fault(says(answer(page(model="<script>alert(1)</script>"))), READ),
        "log-injection": _fault(says(answer(page(model="x\\nlevel=error event=forged"))), READ),
        "terminal-escapes": _fault(says(answer(page(model="\x1b[2J\x1b]0;owned\x07"))), READ),
        "right-to-left": _fault(says(answer(page(model="abc\u202egnp"))), READ),
    }  # fmt: skip
