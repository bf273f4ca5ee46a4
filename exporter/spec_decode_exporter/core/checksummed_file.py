"""JSON files that say what they are: a format, its version, and a checksum over what they hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from spec_decode_exporter.core.bounded_json import TooManyValuesError, decode

_LONGEST_SHOWN: Final = 40


class UnusableError(Exception):
    """A file holds something else than what was written whole. The text says what is wrong."""


class ChecksummedFile(NamedTuple):
    """What a kind of file says of itself."""

    format: str
    version: int
    noun: str
    """What it is called where it is not one: ``a state``."""

    def written(self, data: Mapping[str, Any], indent: int | None = None) -> bytes:
        """Return a file that holds ``data``; on one line, or indented for people.

        Raises:
            TypeError: It holds something that JSON cannot.
            ValueError: It holds a number that JSON cannot, or itself.
        """
        text = "".join(_parts(data))
        head = _json({"format": self.format, "version": self.version, "checksum": _checksum(text)})
        document = f'{head[:-1]},"data":{text}}}'
        if indent is not None:
            document = json.dumps(json.loads(document), indent=indent, allow_nan=False)
        return f"{document}\n".encode()

    def read(self, content: bytes, most_values: int) -> Mapping[str, Any]:
        """Return what a file holds, if it is all there.

        Raises:
            UnusableError: It is not, or it has more than ``most_values``.
        """
        try:
            return self._checked(decode(content, most_values))
        except TooManyValuesError as error:
            raise UnusableError(str(error)) from None
        except ValueError:  # of the second writing too: 1e999 is JSON, and no number
            raise UnusableError("it is not JSON") from None

    def _checked(self, document: object) -> Mapping[str, Any]:
        if not isinstance(document, dict) or document.get("format") != self.format:
            raise UnusableError(f"it is not {self.noun} of this exporter")
        if document.get("version") != self.version:
            shown = repr(document.get("version"))[:_LONGEST_SHOWN]
            raise UnusableError(f"it has the version {shown}; {self.version} is known here")
        data = document.get("data")
        if not isinstance(data, dict) or document.get("checksum") != _checksum("".join(_parts(data))):
            raise UnusableError("it was changed or damaged: its checksum is another")
        return data


def _parts(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON of ``data`` in parts: as a whole, a long list would hold the GIL for a second."""
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
    """Write JSON that is the same again after it was read."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
