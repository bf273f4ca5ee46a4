"""Text that ``run`` prints at its start: first answers of the targets, a scrape job, address of the page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from spec_decode_exporter.app.service import Options
from spec_decode_exporter.core.log import escaped
from spec_decode_exporter.core.version import __version__
from spec_decode_exporter.monitor.snapshot import TargetStatus

ANSWER_SECONDS: Final = 10.0
"""Seconds to wait for the first answers; an unreachable target may take longer."""
_STEP: Final = 0.1
_MAX_SHOWN: Final = 10
"""Targets whose answer is printed."""


async def first_answers(
    statuses: Callable[[], Sequence[TargetStatus]], sleep: Callable[[float], Awaitable[None]]
) -> Sequence[TargetStatus]:
    """Return the targets once each was polled, or after ``ANSWER_SECONDS``."""
    for _ in range(round(ANSWER_SECONDS / _STEP)):
        found = statuses()
        if found and all(status.record.polls for status in found):
            return found
        await sleep(_STEP)
    return statuses()


def start_report(targets: Sequence[TargetStatus], urls: Sequence[str], options: Options) -> str:
    """Return the text; its last line is the address of the page."""
    page = f"{options.external_url}/" if options.external_url else urls[0]
    lines = [f"spec-decode-exporter {__version__}", "", "First answers:", *_answers(targets), ""]
    tcp = [url for url in urls if not url.startswith("unix:")]
    if tcp:
        lines += ["For scrape_configs in prometheus.yml:", *_scrape_job(tcp[0], options), ""]
    return "\n".join([*lines, f"Page: {page}", ""])


def _answers(targets: Sequence[TargetStatus]) -> Iterator[str]:
    if not targets:
        yield "  no target yet: discovery continues"
    for target in targets[:_MAX_SHOWN]:
        yield f"  {escaped(target.name)}: {escaped(_answer(target))}"
    if len(targets) > _MAX_SHOWN:
        yield f"  and {len(targets) - _MAX_SHOWN} more: /api/v1/targets lists them"


def _answer(target: TargetStatus) -> str:
    record = target.record
    if record.up is None:
        return f"no answer within {ANSWER_SECONDS:.0f} s"
    if not record.up:
        return record.failure_text
    server = " ".join(word for word in (target.engine_kind, record.version) if word)
    number = record.engines or 0
    engines = f"{number} engine{'' if number == 1 else 's'}"
    return f"up, {server}, {engines}" if number else "up, but its page is of no supported server"


def _scrape_job(url: str, options: Options) -> Iterator[str]:
    address = urlsplit(url)
    yield "  - job_name: spec-decode"
    yield "    scrape_interval: 15s"
    if address.scheme == "https":
        yield "    scheme: https"
    if options.web_config:
        yield f"    # basic_auth and tls_config as in {options.web_config}"
    yield "    static_configs:"
    hint = "  # or the name of this host" if address.hostname == "localhost" else ""
    yield f'      - targets: ["{address.netloc}"]{hint}'
