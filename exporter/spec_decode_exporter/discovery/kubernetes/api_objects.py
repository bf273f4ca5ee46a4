"""Read Kubernetes' objects as its API sends them: one at a time, and only their wanted parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.core.json_reader import JsonError, JsonReader, Picker, Shape

if TYPE_CHECKING:
    from spec_decode_exporter.core.cooperative_yield import Pausing

_MAX_TOKEN: Final = 8 * 2**10
"""The most characters of a version or of a continuation."""

_LIST_METADATA: Final[Shape] = {"resourceVersion": None, "continue": None}
_STATUS: Final[Mapping[str, Shape]] = {"code": None, "reason": None, "message": None}
_MAX_REASON: Final = 300
_MAX_CODE: Final = 20
_MAX_VALUES: Final = 5_000
"""The most values that are kept of one pod, of one event or of the metadata of a list."""
MAX_CHARACTERS: Final = 16 * 2**10
"""The most characters of one text. A longer one is as good as absent."""
_SLICE: Final = 16
"""Events of a watch from one pause to the next."""
_NOT_JSON: Final = "the answer is not JSON; is `api_server` the API server?"
_NOT_AN_OBJECT: Final = "the answer is not an object of the API; is `api_server` the API server?"
_NOT_A_LIST: Final = "the answer is not a list of the API; is `api_server` the API server?"


class ApiError(Exception):
    """The API did not give what was asked for. The text goes into the log; it holds no secret."""


class ExpiredError(ApiError):
    """The API no longer knows the events since the given version: list again."""


def refused(status: object) -> ApiError:
    """Return what the Status in the middle of a watch means."""
    found = _mapping(status)
    code, message = found.get("code"), str(found.get("message") or "")[:_MAX_REASON]
    if code == HTTPStatus.GONE or found.get("reason") == "Expired":
        return ExpiredError("410 Gone")
    return ApiError(f"the watch ended with status {str(code)[:_MAX_CODE]}: {message}")


def refusal_of(status: int, body: bytes, needed: str) -> ApiError:
    """Return what a response with a ``status`` other than 200 means; ``needed`` is the missing permission."""
    if status == HTTPStatus.GONE:
        return ExpiredError("410 Gone")
    said = _status_message(body)
    if status == HTTPStatus.UNAUTHORIZED:
        return ApiError(f"401 Unauthorized: the API server does not accept the token{said}")
    if status == HTTPStatus.FORBIDDEN:
        return ApiError(f"403 Forbidden: {needed}{said}")
    return ApiError(f"status {status}{said}")


def events_of(lines: Iterable[bytes], shape: Mapping[str, Shape]) -> Pausing[list[Any]]:
    """Return the events in the lines of a watch, with the parts in ``shape`` of their objects.

    Raises:
        ApiError: A line is not an event.
    """
    parts: Shape = {"type": None, "object": {**_STATUS, **shape}}
    found = []
    for number, line in enumerate(lines):
        if number % _SLICE == 0:
            yield
        if line.strip():
            found.append((yield from _object_of(line, parts)))
    return found


def page_of(body: bytes, shape: Shape, put: Callable[[Any], None]) -> Pausing[Mapping[str, Any]]:
    """Give the parts in ``shape`` of each pod in a list to ``put``; return the list's metadata.

    Raises:
        ApiError: It is not a list of the API.
    """
    metadata: Mapping[str, Any] = {}
    with _reading():
        reader = JsonReader(body, MAX_CHARACTERS)
        _check_object(reader)
        for key in reader.members():
            kind = reader.kind()
            if key == "metadata":
                metadata = _mapping((yield from Picker(reader, _MAX_VALUES).pick(_LIST_METADATA)))
            elif key == "items" and kind == "[":
                for _ in reader.elements():
                    put((yield from Picker(reader, _MAX_VALUES).pick(shape)))
                    yield
            elif key == "items" and reader.value() is not None:
                raise ApiError(_NOT_A_LIST)
            elif key != "items":
                yield from reader.skip()
        reader.end()
    return metadata


def _object_of(body: bytes, shape: Shape) -> Pausing[Mapping[str, Any]]:
    """Return the parts in ``shape`` of an object of the API.

    Raises:
        ApiError: It is not an object.
    """
    with _reading():
        reader = JsonReader(body, MAX_CHARACTERS)
        _check_object(reader)
        found = yield from Picker(reader, _MAX_VALUES).pick(shape)
        reader.end()
    return _mapping(found)


def _check_object(reader: JsonReader) -> None:
    if reader.kind() != "{":
        reader.value()
        raise ApiError(_NOT_AN_OBJECT)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except JsonError:
        raise ApiError(_NOT_JSON) from None


def token_of(metadata: Mapping[str, Any], key: str) -> str:
    """Return a version or a continuation in the metadata of a list; empty if absent.

    Raises:
        ApiError: It is not a text, or too long.
    """
    found = metadata.get(key) or ""
    if not isinstance(found, str) or len(found) > _MAX_TOKEN:
        raise ApiError(_NOT_A_LIST)
    return found


def version_of(metadata: Mapping[str, Any]) -> str:
    """Return the version to watch from.

    Raises:
        ApiError: There is none.
    """
    version = token_of(metadata, "resourceVersion")
    if not version:
        raise ApiError("the list has no version to watch from; is `api_server` the API server?")
    return version


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _status_message(body: bytes) -> str:
    """Return what the API's Status says, for the end of a sentence."""
    try:
        message = finish(_object_of(body, _STATUS)).get("message")
    except ApiError:
        return ""
    return f" ({message[:_MAX_REASON]})" if isinstance(message, str) and message.isprintable() else ""
