"""Checksummed JSON files: a format, its version, and a checksum of the data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from spec_decode_exporter.core.bounded_json import TooManyValuesError, decode

_MAX_SHOWN: Final = 40


class UnusableError(Exception):
    """A file is not a complete file of this format. The text is the reason."""


class ChecksummedFile(NamedTuple):
    """Format of a kind of file."""

    format: str
    version: int
    noun: str
    """The noun in error messages: ``a state``."""

    def written(self, data: Mapping[str, Any], indent: int | None = None) -> bytes:
        """Return the content of a file with ``data``, on one line or indented.

        Raises:
            TypeError: It holds a value that JSON does not support.
            ValueError: It holds a number that JSON does not support, or itself.
        """
        text = "".join(_parts(data))
        head = _json({"format": self.format, "version": self.version, "checksum": _checksum(text)})
        document = f'{head[:-1]},"data":{text}}}'
        if indent is not None:
            document = json.dumps(json.loads(document), indent=indent, allow_nan=False)
        return f"{document}\n".encode()

    def read(self, content: bytes, max_values: int) -> Mapping[str, Any]:
        """Return the data of a file.

        Raises:
            UnusableError: The file is not complete, or has more than ``max_values`` values.
        """
        try:
            return self._checked(decode(content, max_values))
        except TooManyValuesError as error:
            raise UnusableError(str(error)) from None
        except ValueError:  # also from the checksum: 1e999 is JSON, but not a number
            raise UnusableError("it is not JSON") from None

    def _checked(self, document: object) -> Mapping[str, Any]:
        if not isinstance(document, dict) or document.get("format") != self.format:
            raise UnusableError(f"it is not {self.noun} of this exporter")
        if document.get("version") != self.version:
            shown = repr(document.get("version"))[:_MAX_SHOWN]
            raise UnusableError(f"it has version {shown}; this exporter reads {self.version}")
        data = document.get("data")
        if not isinstance(data, dict) or document.get("checksum") != _checksum("".join(_parts(data))):
            raise UnusableError("it was changed or damaged: its checksum does not match")
        return data


def _parts(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON of ``data`` in parts: one call for a long list would hold the GIL for a second."""
    yield "{"
    for number, (key, value) in enumerate(data.items()):
        yield f"{',' if number else ''}{_json(key)}:"
        if not isinstance(value, list):
            yield _json(value)
            continue
        yield "["
        yield from (f"{',' if place else ''}{_json(element)}" for place, element in enumerate(value))
        yield "]"
    yield "}"


def _json(value: object) -> str:
    """Write JSON that stays the same when it is read and written again."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
