"""Read and write reference files, atomically and with a checksum."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from spec_decode_exporter.core.files import read_bounded, size_text
from spec_decode_exporter.core.numbers import TooManyValuesError, check_values, decode
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.reports.reference_document import ReferenceDocument

_FORMAT: Final = "spec-decode-exporter reference"
_VERSION: Final = 1
_MAX_SHOWN: Final = 40
_TAKEN: Final = "is there already; name another, or remove it"
MAX_BYTES: Final = 16 * 2**20
"""Maximum size of a reference, in bytes."""
MAX_VALUES: Final = 200_000
"""Maximum number of JSON values of a reference: about 1,000 engines."""


class ReferenceFileError(ExporterError):
    """A reference file cannot be read or written. The text has the file, the reason and the remedy."""


def check_free(path: Path) -> None:
    """Check before the measurement that a file can be written.

    Raises:
        ReferenceFileError: The file cannot be written.
    """
    try:
        if path.exists():
            kind = _TAKEN if path.is_file() else "is not a plain file"
            raise ReferenceFileError(f"{path} {kind}")
        with tempfile.TemporaryFile(dir=path.parent):
            pass  # creating a file proves that the folder is writable
    except OSError as error:
        raise ReferenceFileError(f"{path} cannot be written: {error.strerror or error}") from None


def write(path: Path, document: ReferenceDocument) -> None:
    """Write a reference atomically: a reader never sees a part of it.

    Raises:
        ReferenceFileError: The file cannot be written, or exists.
    """
    content = sealed(document.model_dump(mode="json"))
    _check_size(path, content)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _put(temporary, path)
        finally:
            with suppress(FileNotFoundError):
                temporary.unlink()
    except FileExistsError:
        raise ReferenceFileError(f"{path} {_TAKEN}") from None
    except OSError as error:
        raise ReferenceFileError(f"{path} cannot be written: {error.strerror or error}") from None


def read(path: Path) -> ReferenceDocument:
    """Return the reference in a file.

    Raises:
        ReferenceFileError: The file cannot be read, or is not a complete reference.
    """
    try:
        return ReferenceDocument.model_validate_json(json.dumps(_unsealed(read_bounded(path, MAX_BYTES))))
    except OSError as error:
        raise ReferenceFileError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ReferenceFileError(f"{path} is not a usable reference: {place}: {first['msg']}") from None
    except ValueError as error:
        raise ReferenceFileError(f"{path} is not a usable reference: {error}; save a new one") from None


def sealed(data: Mapping[str, Any], version: int = _VERSION) -> bytes:
    """Return the content of a file: format, version, checksum and data."""
    head = {"format": _FORMAT, "version": version, "checksum": _checksum(data)}
    return f"{json.dumps({**head, 'data': data}, indent=1, allow_nan=False)}\n".encode()


def _unsealed(content: bytes) -> Mapping[str, Any]:
    """Return the data of a file.

    Raises:
        ValueError: It is not complete, or has too many values.
    """
    try:
        document = decode(content, MAX_VALUES)
    except TooManyValuesError:
        raise
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError("it is not a reference of this exporter")
    if document.get("version") != _VERSION:
        shown = repr(document.get("version"))[:_MAX_SHOWN]
        raise ValueError(f"it has version {shown}; this exporter reads {_VERSION}")
    data = document.get("data")
    if not isinstance(data, dict) or document.get("checksum") != _checksum(data):
        raise ValueError("it was changed or damaged: its checksum does not match")
    return data


def _checksum(data: Mapping[str, Any]) -> str:
    """Return a hash of the data in JSON that stays the same when it is read and written again."""
    return sha256(json.dumps(data, allow_nan=False, separators=(",", ":")).encode()).hexdigest()


def _check_size(path: Path, content: bytes) -> None:
    """Reject content that ``read`` would reject."""
    try:
        check_values(content, MAX_VALUES)
    except TooManyValuesError as error:
        raise ReferenceFileError(f"{path} cannot be written: {error}; measure fewer targets") from None
    if len(content) > MAX_BYTES:
        raise ReferenceFileError(
            f"{path} cannot be written: it is larger than {size_text(MAX_BYTES)}; measure fewer targets"
        )


def _put(temporary: Path, path: Path) -> None:
    """Move a file to its name, with the permissions that the umask allows."""
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)
    try:
        # Unlike a rename, a link never replaces another file.
        path.hardlink_to(temporary)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError from None
        temporary.replace(path)
