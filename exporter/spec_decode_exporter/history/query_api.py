"""Query API of Prometheus, which VictoriaMetrics, Thanos and Mimir share: bounded, read-only requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from spec_decode_exporter.core.numbers import MAX_UNIX, bounded, decode
from spec_decode_exporter.core.urls import without_query
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.scrape.client import HttpResponse
from spec_decode_exporter.scrape.errors import PollError, StatusError

MAX_BODY: Final = 32 * 2**20
"""Maximum bytes of a response: some 800,000 samples."""
MAX_VALUES: Final = 3_000_000
"""Maximum JSON values of a response; a sample is three."""
MAX_SERIES: Final = 50_000
"""Maximum series of a response."""
MAX_QUERY: Final = 16 * 1024
"""Maximum characters of a query in a URL: many proxies refuse longer ones."""

_FEWER: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""Statuses by which servers refuse a query that is too expensive: limits of samples, time or memory."""
_DENIED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})

Labels = Mapping[str, str]


class HistoryError(ExporterError):
    """The history cannot be read; the text has the cause and the remedy."""


class TooMuchError(HistoryError):
    """The server refuses the query or its answer exceeds a limit: ask for less."""


class Remedies(NamedTuple):
    """Names under which the user sets what an error is about."""

    match: str
    credentials: str


FLAGS: Final = Remedies("--match", "SPEC_DECODE_EXPORTER_AUTHORIZATION_CREDENTIALS")


class Getter(Protocol):
    """The part of the HTTP client that is used."""

    async def get(self, address: str, *, max_body: int | None = None) -> HttpResponse:
        """Return the page at an address."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(frozen=True, slots=True)
class SampledSeries:
    """Raw samples of one series."""

    labels: Labels
    """All labels, ``__name__`` included."""
    times: Sequence[float]
    """Unix times, ascending."""
    values: Sequence[float]


class QueryApi:
    """Query API of one server."""

    def __init__(
        self, url: str, client: Getter, *, remedies: Remedies = FLAGS, max_values: int = MAX_VALUES
    ) -> None:
        """Query the server at ``url``, which may end with the prefix of a proxy.

        Args:
            url: Its address.
            client: Client of the server, which limits the bytes of a response.
            remedies: Names of settings in errors.
            max_values: Maximum JSON values of a response.
        """
        self._remedies = remedies
        self._max_values = max_values
        self._url = url.rstrip("/")
        self.name = without_query(self._url)
        self._client = client

    async def time(self) -> float:
        """Return the server's Unix time.

        Raises:
            HistoryError: The address is not that of a query API, or the server refuses the request.
        """
        try:
            data = await self._data("query", {"query": "time()"})
            result = data["result"]
            # Prometheus answers with a scalar, VictoriaMetrics with a vector of one sample.
            text = (result if data["resultType"] == "scalar" else result[0]["value"])[1]
            return bounded(float(text), 0.0, MAX_UNIX)
        except (KeyError, IndexError, TypeError, ValueError):
            raise self._unusable("its answer to the query `time()` has no time") from None

    async def series(self, selector: str, begin: float, end: float) -> list[Labels]:
        """Return the labels of the series that match and have samples between two Unix times.

        Raises:
            TooMuchError: There are too many.
            HistoryError: The server refuses the request.
        """
        values = {"match[]": selector, "start": f"{begin:.3f}", "end": f"{end:.3f}"}
        found = await self._data("series", values)
        if not isinstance(found, list) or not all(map(_is_labels, found)):
            raise self._unusable("its list of series has another format")
        if len(found) > MAX_SERIES:
            raise TooMuchError(
                f"{self.name}: more than {MAX_SERIES} series match; narrow them by {self._remedies.match}"
            )
        return found

    async def metric_names(self, begin: float, end: float) -> list[str]:
        """Return the names of all metrics with samples between two Unix times.

        Raises:
            HistoryError: The server refuses the request.
        """
        path = f"label/{quote('__name__')}/values"
        found = await self._data(path, {"start": f"{begin:.3f}", "end": f"{end:.3f}"})
        return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []

    async def samples(self, selector: str, end: float, seconds: int) -> list[SampledSeries]:
        """Return the raw samples of the last ``seconds`` before a Unix time.

        Raises:
            TooMuchError: The server refuses the query, or the answer exceeds a limit.
            HistoryError: The server refuses the request for another reason.
        """
        query = {"query": f"{selector}[{seconds}s]", "time": f"{end:.3f}"}
        return await self._matrix("query", query)

    async def values_every(self, selector: str, begin: float, end: float, step: int) -> list[SampledSeries]:
        """Return the newest value of each series at every ``step`` seconds from one Unix time to another.

        Raises:
            TooMuchError: The server refuses the query, or the answer exceeds a limit.
            HistoryError: The server refuses the request for another reason.
        """
        query = {"query": selector, "start": f"{begin:.3f}", "end": f"{end:.3f}", "step": str(step)}
        return await self._matrix("query_range", query)

    async def _matrix(self, path: str, query: Mapping[str, str]) -> list[SampledSeries]:
        data = await self._data(path, query, fewer=True)
        try:
            if data["resultType"] != "matrix":
                raise self._unusable("it answers a range selector with something else than a matrix")
            return [_sampled(each) for each in data["result"]]
        except (KeyError, IndexError, TypeError, ValueError):
            raise self._unusable("its samples have another format") from None

    async def _data(self, path: str, values: Mapping[str, str], *, fewer: bool = False) -> Any:  # noqa: ANN401
        """Return ``data`` of a response; ``fewer``: a refusal means that the query is too large."""
        query = urlencode(values)
        if len(query) > MAX_QUERY:
            raise HistoryError(
                f"the query has more than {MAX_QUERY} characters; shorten {self._remedies.match}"
            )
        try:
            response = await self._client.get(f"{self._url}/api/v1/{path}?{query}")
        except PollError as error:
            raise self._failure(error, fewer=fewer) from None
        try:
            answer = decode(response.body, self._max_values)
        except ValueError as error:
            if response.body[:1] == b"{":
                raise TooMuchError(f"{self.name}: its answer cannot be read: {error}") from None
            raise self._unusable("its answer is not JSON") from None
        if not isinstance(answer, dict) or answer.get("status") != "success" or "data" not in answer:
            raise self._unusable("its answer is not that of Prometheus's HTTP API")
        return answer["data"]

    def _failure(self, error: PollError, *, fewer: bool) -> HistoryError:
        status = error.status if isinstance(error, StatusError) else None
        if status in _DENIED:
            return HistoryError(
                f"{self.name}: {error}: no permission to query; give a token by {self._remedies.credentials}"
            )
        if status == HTTPStatus.NOT_FOUND:
            return self._unusable(str(error))
        if error.reason == "too_large" or (fewer and (status in _FEWER or error.reason == "timeout")):
            return TooMuchError(f"{self.name}: {error}")
        if status == HTTPStatus.BAD_REQUEST:
            return HistoryError(
                f"{self.name}: {error}: it cannot read the selector; check {self._remedies.match}"
            )
        return HistoryError(f"{self.name}: {error}")

    def _unusable(self, reason: str) -> HistoryError:
        return HistoryError(
            f"{self.name}: {reason}. Give the address of a Prometheus, such as http://prometheus:9090, with "
            "the prefix of its proxy if there is one"
        )


def _is_labels(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _sampled(found: Any) -> SampledSeries:  # noqa: ANN401  any JSON
    labels = found["metric"]
    if not _is_labels(labels):
        raise ValueError
    pairs = found["values"]
    times = [bounded(pair[0], 0.0, MAX_UNIX) for pair in pairs]
    return SampledSeries(labels, times, [float(pair[1]) for pair in pairs])
