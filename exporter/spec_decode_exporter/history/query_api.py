"""Query API of Prometheus, which VictoriaMetrics, Thanos and Mimir share: bounded, read-only requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from math import ceil, nan
from typing import Annotated, Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Meta, Struct

from spec_decode_exporter.core.log import escaped
from spec_decode_exporter.core.numbers import MAX_NUMBER, MAX_TEXT, MAX_UNIX
from spec_decode_exporter.core.tasks import unless_stopped
from spec_decode_exporter.core.urls import without_query
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.scrape.client import Client
from spec_decode_exporter.scrape.errors import PollError, StatusError

TIMEOUT: Final = 60.0  # seconds of a request: servers end a query after 30 s to 2 min
MAX_BODY: Final = 32 * 2**20  # maximum bytes of a response: some 800,000 samples
MAX_QUERY: Final = 16 * 1024  # maximum characters of a query in a URL: many proxies refuse longer ones
TIME_ERROR: Final = 1.0
"""Seconds by which a sample may lie outside of the time asked for: servers round times."""

_FEWER: Final = frozenset({400, 413, 422, 429, 500, 502, 503, 504})
"""Statuses by which servers refuse a query that is too expensive: limits of samples, time or memory."""
_DENIED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})

Labels = Mapping[str, str]
Answer = TypeVar("Answer")
_Time = Annotated[float, Meta(ge=0, le=MAX_UNIX)]
_Number = Annotated[str, Meta(max_length=400)]
"""Text of a number; the longest ones are the greatest and the least floats, written without an exponent."""


class HistoryError(ExporterError):
    """The history cannot be read; the text has the cause and the remedy."""


class _RefusedError(HistoryError):
    """The server cannot read the query (status 400)."""


class TooMuchError(HistoryError):
    """The server refuses the query or its answer exceeds a limit: ask for less."""


class Selector(NamedTuple):
    """Series by the regular expression of their names, which matches whole names, and by label matchers."""

    names: str
    matchers: str = ""

    def __str__(self) -> str:
        return self._text("=~", self.names.replace("\\", "\\\\"))

    def exactly(self, names: Iterable[str]) -> list[str]:
        """Return one selector for each of the names that match."""
        pattern = re.compile(self.names)
        return [self._text("=", name) for name in names if pattern.fullmatch(name)]

    def _text(self, operator: str, name: str) -> str:
        return f'{{__name__{operator}"{name}"{"," if self.matchers else ""}{self.matchers}}}'


_CREDENTIALS: Final = "SPEC_DECODE_EXPORTER_AUTHORIZATION_CREDENTIALS or …_BASIC_AUTH_USERNAME and …_PASSWORD"
_IN_FILE: Final = "in a configuration `baseline.prometheus"
MATCH: Final = f"--match, or {_IN_FILE}.match`"


class SampledSeries(NamedTuple):
    """Raw samples of one series."""

    labels: Labels  # all labels, ``__name__`` included
    times: Sequence[float]  # Unix times, ascending
    values: Sequence[float]  # NaN in place of an infinite number, and of one that nothing can count


class _Refusal(Struct, tag_field="status", tag="error"):
    """Answer of a server or proxy that reports an error, maybe with status 200."""

    error: Annotated[str, Meta(min_length=1)]


class _Range(Struct):
    metric: dict[str, str]
    values: list[tuple[_Time, _Number]]


class _Matrix(Struct, tag_field="resultType", tag="matrix"):
    result: list[_Range]


class QueryApi:
    """Query API of one server."""

    def __init__(self, url: str, client: Client, *, stop: asyncio.Event | None = None) -> None:
        """Query the server at ``url``, which may end with the prefix of a proxy.

        ``client`` limits the bytes of a response. Once ``stop`` is set, a query that waits for its answer
        fails at once.
        """
        self._url = url.rstrip("/")
        self.name = without_query(self._url)
        self._client = client
        self._stop = stop or asyncio.Event()
        self._names: frozenset[str] | None = None
        """Names of all metrics, of a server that takes no pattern of names."""

    async def series(self, selector: Selector, begin: float, end: float) -> list[dict[str, str]]:
        """Return the labels of the series that match and have samples between two Unix times.

        Raises:
            TooMuchError: There are too many.
            HistoryError: The address is not that of a query API, or the server refuses the request.
        """
        span = _span(begin, end)
        if self._names is None:
            try:
                return await self._series_of(str(selector), span)
            except _RefusedError as refused:
                # Google's managed Prometheus takes exact names only.
                with suppress(HistoryError):
                    self._names = frozenset(await self.metric_names(begin, end))
                if self._names is None:
                    raise refused from None
        found = [await self._series_of(each, span) for each in selector.exactly(self._names)]
        return [labels for each in found for labels in each]

    async def _series_of(self, selector: str, span: Mapping[str, str]) -> list[dict[str, str]]:
        found: list[dict[str, str]] = await self._answer(
            list[dict[str, str]], "list of series", "series", {"match[]": selector, **span}
        )
        return found

    async def metric_names(self, begin: float, end: float) -> list[str]:
        """Return the names of all metrics with samples between two Unix times; raise like ``series``."""
        path = "label/__name__/values"
        names: list[str] = await self._answer(list[str], "list of names", path, _span(begin, end))
        return names

    async def samples(self, selector: Selector, end: float, seconds: int) -> list[SampledSeries]:
        """Return the raw samples of the last ``seconds`` before a Unix time.

        Raises:
            TooMuchError: The server refuses the query, or the answer exceeds a limit.
            HistoryError: The server refuses the request for another reason.
        """
        found = list[SampledSeries]()
        for text in self._texts(selector):
            query = {"query": f"{text}[{seconds}s]", "time": f"{end:.3f}"}
            found += await self._matrix("query", query, end - seconds, end)
        return found

    async def values_every(
        self, selector: Selector, step: int, end: float, seconds: int
    ) -> list[SampledSeries]:
        """Return the newest value of each series at every ``step`` seconds; raise like ``samples``.

        It is without the end itself: that is the first moment of the seconds that follow.
        """
        found, first = list[SampledSeries](), ceil((end - seconds) / step) * step
        last = max(first, end - 1)
        for text in self._texts(selector):
            query = {"query": text, **_span(first, last), "step": str(step)}
            found += await self._matrix("query_range", query, first, last)
        return found

    def _texts(self, selector: Selector) -> Sequence[str]:
        """Return the selectors of as many queries as the server needs for some series."""
        return [str(selector)] if self._names is None else selector.exactly(self._names)

    async def _matrix(
        self, path: str, query: Mapping[str, str], begin: float, end: float
    ) -> list[SampledSeries]:
        """Return the samples of a query; those outside of the time asked for are left out."""
        first, last = begin - TIME_ERROR, end + TIME_ERROR
        matrix, found = await self._answer(_Matrix, "matrix of samples", path, query, fewer=True), []
        for each in matrix.result:
            pairs = [pair for pair in each.values if first <= pair[0] <= last]
            try:
                values = [float(text) for _, text in pairs]
            except ValueError:
                raise self._unusable("its matrix of samples has a value that is no number") from None
            values = [value if -MAX_NUMBER <= value <= MAX_NUMBER else nan for value in values]
            found.append(SampledSeries(each.metric, [time for time, _ in pairs], values))
        return found

    async def _answer(
        self, wanted: object, what: str, path: str, values: Mapping[str, str], *, fewer: bool = False
    ) -> Any:  # noqa: ANN401  a value of the type ``wanted``, which may be a union
        """Return ``data`` of a response; ``fewer``: a refusal means that the query is too large."""
        query = urlencode(values)
        if len(query) > MAX_QUERY:
            raise HistoryError(f"the query has more than {MAX_QUERY} characters; shorten {MATCH}")
        try:
            get = self._client.get(f"{self._url}/api/v1/{path}?{query}")
            if (response := await unless_stopped(get, self._stop)) is None:
                raise HistoryError(f"{self.name}: interrupted")
            body = response.body
            answer = _decoder(wanted).decode(body)
        except PollError as error:
            raise self._failure(error, fewer=fewer) from None
        except msgspec.ValidationError as error:
            raise self._unusable(f"its {what} has another format: {error}") from None
        except (ValueError, RecursionError) as error:
            if body[:1] == b"{":
                raise TooMuchError(f"{self.name}: its answer cannot be read: {error}") from None
            raise self._unusable("its answer is not JSON") from None
        if isinstance(answer, _Refusal):
            kind, text = TooMuchError if fewer else HistoryError, escaped(answer.error[:MAX_TEXT], kept="")
            raise kind(f"{self.name}: it answers with an error: {text}")
        return answer.data

    def _failure(self, error: PollError, *, fewer: bool) -> HistoryError:
        status, text = error.status if isinstance(error, StatusError) else None, f"{self.name}: {error}"
        if status in _DENIED:
            remedy = f"give a token by {_CREDENTIALS}, or {_IN_FILE}.authorization`"
            return HistoryError(f"{text}: no permission to query; {remedy}")
        if status == HTTPStatus.NOT_FOUND:
            return self._unusable(str(error))
        if error.reason == "too_large" or (fewer and (status in _FEWER or error.reason == "timeout")):
            return TooMuchError(text)
        if status == HTTPStatus.BAD_REQUEST:
            return _RefusedError(f"{text}: it cannot read the selector; check {MATCH}")
        if error.reason == "tls":
            return HistoryError(
                f"{text}; give its authority by SPEC_DECODE_EXPORTER_TLS_CA_FILE, or "
                f"{_IN_FILE}.tls_config.ca_file`; or write http://"
            )
        return HistoryError(text)

    def _unusable(self, reason: str) -> HistoryError:
        return HistoryError(
            f"{self.name}: {reason}. Give the address of a Prometheus, such as http://prometheus:9090, with "
            "the prefix of its proxy if there is one"
        )


@cache
def _decoder(wanted: object) -> msgspec.json.Decoder[Any]:
    """Return the decoder of answers whose ``data`` is of a type; it holds the GIL for some 10 ms a MiB."""
    answer = msgspec.defstruct("Answer", [("data", wanted)], tag_field="status", tag="success")
    return msgspec.json.Decoder(answer | _Refusal)


def _span(begin: float, end: float) -> dict[str, str]:
    return {"start": f"{begin:.3f}", "end": f"{end:.3f}"}
