"""Facts about a server that its metrics lack: ``/version``, and speculation settings of ``/server_info``.

vLLM serves ``/server_info`` in development mode only (``VLLM_SERVER_DEV_MODE=1``). The format follows
``vllm/config/speculative.py``; its fields and ``__repr__`` are unchanged since vLLM 0.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from spec_decode_exporter.config.batch_schedule import (
    NO_SCHEDULE,
    SCHEDULE_KEY,
    BatchSchedule,
    ScheduleError,
    batch_schedule,
)
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.urls import Url
from spec_decode_exporter.scrape.errors import PollError, StatusError
from spec_decode_exporter.scrape.sample import MAX_POSITIONS

if TYPE_CHECKING:
    from spec_decode_exporter.scrape.client import Client, HttpResponse

SERVER_INFO_PATH: Final = "server_info?config_format=json"
"""Path beside the metrics page. An older vLLM ignores the query and returns text in the JSON."""
MAX_RESPONSE_BYTES: Final = 64 * 1024
"""Maximum bytes of a response to ``/server_info`` or ``/version``. vLLM's has 22 kB."""
DETAILS_INTERVAL: Final = 60.0
"""Minimum seconds between two requests for details, also if counters appear to restart with every poll.

After a timeout ``/server_info`` is requested once more: vLLM collects the host's programs, drivers and
packages for its first response, which took 2 s without a GPU. vLLM keeps the result.
"""

_MAX_LABEL: Final = 64
_MAX_DRAFT_MODEL: Final = 256
_WITHOUT_MODEL: Final = frozenset({"ngram", "ngram_gpu", "suffix", "extract_hidden_states", "custom_class"})
"""Methods whose ``model`` is not a draft model but the method's name or a class."""
_FIELDS: Final = ("method", "model", "num_speculative_tokens", SCHEDULE_KEY, "rejection_sample_method")
_TEXT: Final = re.compile(
    r"speculative_config=SpeculativeConfig\("
    r"method='([^']{0,64}+)', model=(?:None|'([^']{0,256}+)'), num_spec_tokens=([0-9]{1,4}+)\)"
)


class _VllmConfig(msgspec.Struct):
    speculative_config: dict[str, Any] | None = None


class _Details(msgspec.Struct):
    """Response to ``/version`` or ``/server_info``; other keys are skipped without a Python object."""

    version: Any = None
    vllm_config: _VllmConfig | str | None = None


@dataclass(frozen=True, slots=True)
class ServedSpeculation:
    """Speculation settings of a server; unknown or unusable ones are empty or None."""

    method: str = ""
    tokens: int | None = None
    """K, the maximum number of draft tokens a step."""
    draft_model: str = ""
    """Name or path of the draft model."""
    schedule: BatchSchedule = NO_SCHEDULE
    problem: str = ""
    """Reason for an unused schedule; empty if the schedule is used or absent."""
    rejection_method: str = ""
    """``rejection_sample_method``: ``standard``, ``block``, ``fly``, …."""


def served_speculation(body: bytes) -> ServedSpeculation | None:
    """Parse a response of ``/server_info``; return None if it has no speculation settings."""
    return _speculation(_decoded(body))


def speculation_in(response: object) -> ServedSpeculation | None:
    """Return the speculation settings of a decoded response; None if it has none."""
    try:
        return _speculation(msgspec.convert(response, _Details))
    except msgspec.ValidationError:
        return None


def speculation_of(settings: Mapping[Any, object]) -> ServedSpeculation:
    """Return the usable part of vLLM's speculation settings, which are untrusted."""
    return _usable(*(settings.get(field) for field in _FIELDS))


def _decoded(body: bytes) -> _Details:
    try:
        return msgspec.json.decode(body, type=_Details)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _Details()


def _speculation(details: _Details) -> ServedSpeculation | None:
    match details.vllm_config:
        case _VllmConfig(speculative_config=dict(settings)):
            return speculation_of(settings)
        case str(text) if fields := _TEXT.search(text):
            method, model, tokens = fields.groups()
            return _usable(method, model, int(tokens))
    return None


def _usable(
    method: object, model: object, tokens: object, schedule: object = None, rejection_method: object = None
) -> ServedSpeculation:
    method = _label(method)
    try:
        used, problem = batch_schedule(schedule), ""
    except ScheduleError as error:
        used, problem = NO_SCHEDULE, str(error)
    return ServedSpeculation(
        method,
        tokens if type(tokens) is int and 0 < tokens <= MAX_POSITIONS else None,
        "" if method in _WITHOUT_MODEL else _label(model, _MAX_DRAFT_MODEL),
        used,
        problem,
        _label(rejection_method),
    )


def _label(value: object, max_characters: int = _MAX_LABEL) -> str:
    """Return a text that can be a label value; empty for anything else, such as half a surrogate pair."""
    return value if isinstance(value, str) and value.isprintable() and len(value) <= max_characters else ""


class DetailsRecord(Protocol):
    """Part of a target's poll record that its details fill."""

    version: str
    speculation: ServedSpeculation | None
    details_at: float
    """Time (monotonic) of the last requests."""

    def unused_event(self, source: str, kind: str, reason: str) -> Event | None:
        """Return the event that a detail is not used; None if already logged."""
        ...


class ServerDetails:
    """Requests a server's details after each of its starts, and writes them into the poll record."""

    def __init__(
        self, url: str, client: Client, record: DetailsRecord, emit: Callable[[Event], None]
    ) -> None:
        """Request the pages beside the metrics page at ``url``; ``emit`` takes events for the log."""
        self._url, self._client, self._record, self._emit = url, client, record, emit
        self.reset()

    def reset(self) -> None:
        """Request the details again with the next update: the server restarted."""
        self._wanted = {"version", "server_info"}

    def is_due(self, moment: float) -> bool:
        """Return whether details are wanted at ``moment`` (monotonic)."""
        return bool(self._wanted) and moment >= self._record.details_at + DETAILS_INTERVAL

    async def update(self, moment: float) -> None:
        """Request the wanted details at ``moment`` (monotonic); after a timeout, once more later."""
        self._record.details_at = moment
        wanted, self._wanted = self._wanted, set()
        if "version" in wanted:
            self._record.version = await self._version()
        if await self._is_speculation_late() and "version" in wanted:
            self._wanted.add("server_info")

    async def _version(self) -> str:
        """Return the server's version; empty if an older server or a proxy does not serve it."""
        try:
            response = await self._get("version", "version")
        except PollError:
            return ""
        return _label(_decoded(response.body).version)

    async def _is_speculation_late(self) -> bool:
        """Update the reported speculation settings; return whether the request timed out.

        A failed request keeps the last settings, except for status 404: the server has no such page.
        """
        try:
            response = await self._get("server_info", SERVER_INFO_PATH)
        except PollError as error:
            if isinstance(error, StatusError) and error.status == HTTPStatus.NOT_FOUND:
                self._record.speculation = None
            return error.reason == "timeout"
        speculation = self._record.speculation = served_speculation(response.body)
        if speculation and speculation.problem:
            self._emit_unused("server_info", speculation.problem, speculation.problem)
        return False

    async def _get(self, source: str, page: str) -> HttpResponse:
        url = str(Url.of(self._url).sibling(page))
        try:
            return await self._client.get(url, max_body=MAX_RESPONSE_BYTES)
        except PollError as error:
            if error.reason == "too_large":
                self._emit_unused(source, error.reason, str(error))
            raise

    def _emit_unused(self, source: str, kind: str, reason: str) -> None:
        if (event := self._record.unused_event(source, kind, reason)) is not None:
            self._emit(event)
