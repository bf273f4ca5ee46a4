"""Read objects of the Kubernetes API one at a time, and only their wanted parts."""

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
"""Maximum characters of a version or a continuation token."""

_LIST_METADATA: Final[Shape] = {"resourceVersion": None, "continue": None}
_STATUS: Final[Mapping[str, Shape]] = {"code": None, "reason": None, "message": None}
_MAX_REASON: Final = 300
_MAX_CODE: Final = 20
_MAX_VALUES: Final = 5_000
"""Maximum values of one pod, one event or the metadata of a list."""
MAX_CHARACTERS: Final = 16 * 2**10
"""Maximum characters of one text. Longer ones are dropped."""
_SLICE: Final = 16
"""Events of a watch between two cooperative yields."""
_NOT_JSON: Final = "the answer is not JSON; is `api_server` the API server?"
_NOT_AN_OBJECT: Final = "the answer is not an object of the API; is `api_server` the API server?"
_NOT_A_LIST: Final = "the answer is not a list of the API; is `api_server` the API server?"


class ApiError(Exception):
    """Failed API request. The text is logged; it contains no secret."""


class ExpiredError(ApiError):
    """The API no longer has the events since the given version: list again."""


def watch_error(status: object) -> ApiError:
    """Return the error for a Status among the events of a watch."""
    fields = _mapping(status)
    code, message = fields.get("code"), str(fields.get("message") or "")[:_MAX_REASON]
    if code == HTTPStatus.GONE or fields.get("reason") == "Expired":
        return ExpiredError("410 Gone")
    return ApiError(f"the watch ended with status {str(code)[:_MAX_CODE]}: {message}")


def refusal_of(status: int, body: bytes, needed: str) -> ApiError:
    """Return the error for a response with a ``status`` other than 200; ``needed`` is the permission."""
    if status == HTTPStatus.GONE:
        return ExpiredError("410 Gone")
    message = _status_message(body)
    if status == HTTPStatus.UNAUTHORIZED:
        return ApiError(f"401 Unauthorized: the API server does not accept the token{message}")
    if status == HTTPStatus.FORBIDDEN:
        return ApiError(f"403 Forbidden: {needed}{message}")
    return ApiError(f"status {status}{message}")


def events_of(lines: Iterable[bytes], shape: Mapping[str, Shape]) -> Pausing[list[Any]]:
    """Return the events in the lines of a watch, with the parts in ``shape`` of their objects.

    Raises:
        ApiError: A line is not an event.
    """
    parts: Shape = {"type": None, "object": {**_STATUS, **shape}}
    events = []
    for number, line in enumerate(lines):
        if number % _SLICE == 0:
            yield
        if line.strip():
            events.append((yield from _object_of(line, parts)))
    return events


def page_of(body: bytes, shape: Shape, put: Callable[[Any], None]) -> Pausing[Mapping[str, Any]]:
    """Read one page of a pod list: pass each pod's fields in ``shape`` to ``put``; return the list metadata.

    Raises:
        ApiError: The body is not a list of the API.
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
        ApiError: The body is not an object.
    """
    with _reading():
        reader = JsonReader(body, MAX_CHARACTERS)
        _check_object(reader)
        parts = yield from Picker(reader, _MAX_VALUES).pick(shape)
        reader.end()
    return _mapping(parts)


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
    """Return a version or a continuation token from the metadata of a list; empty if absent.

    Raises:
        ApiError: The token is not a text, or too long.
    """
    token = metadata.get(key) or ""
    if not isinstance(token, str) or len(token) > _MAX_TOKEN:
        raise ApiError(_NOT_A_LIST)
    return token


def version_of(metadata: Mapping[str, Any]) -> str:
    """Return the version to watch from.

    Raises:
        ApiError: The list has no version.
    """
    version = token_of(metadata, "resourceVersion")
    if not version:
        raise ApiError("the list has no version to watch from; is `api_server` the API server?")
    return version


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _status_message(body: bytes) -> str:
    """Return the message of a Status in parentheses; empty if absent."""
    try:
        message = finish(_object_of(body, _STATUS)).get("message")
    except ApiError:
        return ""
    return f" ({message[:_MAX_REASON]})" if isinstance(message, str) and message.isprintable() else ""
