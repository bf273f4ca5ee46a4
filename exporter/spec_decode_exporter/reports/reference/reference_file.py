"""Reference files: written as a whole or not at all, read only if they are all there."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from spec_decode_exporter.core.bounded_file import read_bounded, size_text
from spec_decode_exporter.core.bounded_json import TooManyValuesError, check_values
from spec_decode_exporter.core.checksummed_file import ChecksummedFile, UnusableError
from spec_decode_exporter.reports.reference.reference_document import ReferenceDocument

_SEAL: Final = ChecksummedFile("spec-decode-exporter reference", version=1, noun="a reference")
LARGEST: Final = 16 * 2**20
"""The most bytes of a reference."""
MOST_VALUES: Final = 200_000
"""The most values of a reference: some 1,000 engines."""


class ReferenceFileError(Exception):
    """A reference file cannot be read or written. The text names the file, says why, and what to do."""


def check_free(path: Path, *, overwrite: bool) -> None:
    """Find out before anything is measured whether a file can be written.

    Raises:
        ReferenceFileError: It cannot.
    """
    try:
        if path.exists() and not (overwrite and path.is_file()):
            kind = (
                "is there already; name another, or add --force" if path.is_file() else "is not a plain file"
            )
            raise ReferenceFileError(f"{path} {kind}")
        with tempfile.TemporaryFile(dir=path.parent):
            pass  # that it can be made is all there is to know
    except OSError as error:
        raise ReferenceFileError(f"{path} cannot be written: {error.strerror or error}") from None


def write(path: Path, document: ReferenceDocument, *, overwrite: bool) -> None:
    """Write a reference, in one step: no reader ever sees a part of it.

    Raises:
        ReferenceFileError: It cannot be written, or is there already and ``overwrite`` is not set.
    """
    content = _SEAL.written(document.model_dump(mode="json"), indent=1)
    _check_size(path, content)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        beside = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _put(beside, path, overwrite=overwrite)
        finally:
            with suppress(FileNotFoundError):
                beside.unlink()
    except FileExistsError:
        raise ReferenceFileError(f"{path} is there already; name another, or add --force") from None
    except OSError as error:
        raise ReferenceFileError(f"{path} cannot be written: {error.strerror or error}") from None


def read(path: Path) -> ReferenceDocument:
    """Return the reference in a file.

    Raises:
        ReferenceFileError: It cannot be read, or holds something else or less.
    """
    try:
        return ReferenceDocument.model_validate_json(
            json.dumps(_SEAL.read(read_bounded(path, LARGEST), MOST_VALUES))
        )
    except OSError as error:
        raise ReferenceFileError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ReferenceFileError(f"{path} is not a usable reference: {place}: {first['msg']}") from None
    except UnusableError as error:
        raise ReferenceFileError(f"{path} is not a usable reference: {error}; save a new one") from None


def _check_size(path: Path, content: bytes) -> None:
    """Refuse to write what cannot be read again."""
    try:
        check_values(content, MOST_VALUES)
    except TooManyValuesError as error:
        raise ReferenceFileError(f"{path} cannot be written: {error}; measure fewer targets") from None
    if len(content) > LARGEST:
        raise ReferenceFileError(
            f"{path} cannot be written: it is larger than {size_text(LARGEST)}; measure fewer targets"
        )


def _put(beside: Path, path: Path, *, overwrite: bool) -> None:
    """Give a file its name; the umask decides who may read it, as for any other file."""
    mask = os.umask(0)
    os.umask(mask)
    beside.chmod(0o666 & ~mask)
    if overwrite:
        beside.replace(path)
        return
    try:
        # Unlike a rename, a link never takes the place of another file.
        path.hardlink_to(beside)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if path.exists():
            raise FileExistsError from None
        beside.replace(path)
