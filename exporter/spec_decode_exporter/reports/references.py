"""Reference files: a measurement of servers before a change, written atomically, with a checksum."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from spec_decode_exporter.analysis.figure_table import COMPARED
from spec_decode_exporter.core.files import read_bounded, size_text
from spec_decode_exporter.core.numbers import TooManyValuesError, check_values, decode
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.figures.estimate import MAX_COSINES, Estimate
from spec_decode_exporter.figures.quantile import LATENCY_QUANTILES, Edges, Quantile, edges
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets

_FORMAT: Final = "spec-decode-exporter reference"
_VERSION: Final = 1
_TAKEN: Final = "is there already; name another, or remove it"
MAX_BYTES: Final = 16 * 2**20
"""Maximum size of a reference, in bytes."""
MAX_VALUES: Final = 200_000
"""Maximum number of JSON values of a reference: about 1,000 engines."""
_KEYS: Final = frozenset(figure.key for figure in COMPARED)


class ReferenceFileError(ExporterError):
    """A reference file cannot be read or written. The text has the file, the reason and the remedy."""


def _is_measured(key: str) -> str:
    """Check that the key names a figure that references measure."""
    if key not in _KEYS:
        raise ValueError(f"is none of the figures that references measure: {', '.join(sorted(_KEYS))}")
    return key


Text = Annotated[str, Field(max_length=4096)]
Count = Annotated[int, Field(ge=0)]
FigureKey = Annotated[str, AfterValidator(_is_measured)]
"""Key of a measured figure."""


class MeasurementPart(BaseModel):
    """Base of a measurement's parts: frozen, complete, with finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MeasuredFigure(MeasurementPart):
    """Value of a figure, with bounds unless too few requests passed through the window."""

    value: float
    lower: float | None = None
    upper: float | None = None
    standard_error: Annotated[float, Field(ge=0)] | None = None
    """Null for a quantile too."""
    degrees: Annotated[int, Field(ge=1, le=MAX_COSINES)] | None = None
    """The degrees of freedom of the error."""

    @classmethod
    def of(cls, value: float, bounds: Estimate | None) -> Self:
        """Return a value, with its bounds if they are known."""
        if bounds is None:
            return cls(value=value)
        lower, upper = min(value, bounds.lower), max(value, bounds.upper)
        return cls(
            value=value,
            lower=lower,
            upper=upper,
            standard_error=bounds.standard_error,
            degrees=bounds.degrees,
        )

    def divided(self, number: int) -> MeasuredFigure:
        """Return the figure of one engine, if this is the sum of ``number`` engines."""
        known = self.model_dump(exclude={"degrees"}, exclude_none=True)
        return MeasuredFigure(**{name: part / number for name, part in known.items()}, degrees=self.degrees)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if (self.lower is None) != (self.upper is None):
            raise ValueError("has one bound and not the other")
        if self.lower is not None and self.upper is not None and not self.lower <= self.value <= self.upper:
            raise ValueError("has bounds that do not contain it")
        if (self.standard_error is None) != (self.degrees is None):
            raise ValueError("has an error without degrees of freedom, or these without an error")
        return self


class MeasuredHistogram(MeasurementPart):
    """One of the server's own histograms, and its quantiles in seconds."""

    bounds: tuple[float, ...]
    """The upper bounds of the buckets, without the infinite bound of the last."""
    counts: tuple[Count, ...]
    """Number of observations up to each bound, and of all observations."""
    p50: MeasuredFigure | None
    p95: MeasuredFigure | None
    p99: MeasuredFigure | None

    @model_validator(mode="after")
    def _cumulative(self) -> Self:
        if len(self.counts) != len(self.bounds) + 1 or list(self.counts) != sorted(self.counts):
            raise ValueError("has counts that are not those of its bounds")
        return self

    @property
    def quantiles(self) -> dict[Quantile, MeasuredFigure | None]:
        """The quantiles that references have."""
        return {quantile: getattr(self, quantile.name) for quantile in LATENCY_QUANTILES}

    def edges(self, quantile: Quantile) -> Edges | None:
        """Return the edges of the bucket of a quantile; None for an empty histogram."""
        return edges(quantile.share, Buckets((*self.bounds, inf), self.counts))


class Measurement(MeasurementPart):
    """Measurement of one engine, or of several as one."""

    seconds: Annotated[float, Field(ge=0)]
    """Covered time in seconds."""
    polls: Count
    counts: Mapping[str, Count]
    """Increase of each counter; a counter that the engine does not have is absent."""
    position_accepted_tokens: tuple[Count, ...]
    """Accepted draft tokens at each of the K draft positions."""
    quantities: Mapping[FigureKey, MeasuredFigure]
    """The figures that have a value, by key."""
    position_acceptance_ratio: tuple[MeasuredFigure | None, ...]
    position_conditional_acceptance_ratio: tuple[MeasuredFigure | None, ...]
    latency_seconds: Mapping[Latency, MeasuredHistogram]

    @property
    def tokens(self) -> int:
        """K, the number of draft positions."""
        return len(self.position_accepted_tokens)

    @model_validator(mode="after")
    def _of_all_positions(self) -> Self:
        each = self.position_acceptance_ratio, self.position_conditional_acceptance_ratio
        if any(len(ratios) != self.tokens for ratios in each):
            raise ValueError("has more ratios of positions than positions, or fewer")
        return self


class Measured(MeasurementPart):
    """Measured engine or model. A text is empty if it is unknown, or if the engines of a model differ."""

    model_name: Text
    method: Text
    """vLLM's name of the method."""
    draft_model: Text
    server_version: Text
    measurement: Measurement

    @property
    def acceptance(self) -> MeasuredFigure | None:
        """Acceptance rate; None if nothing was drafted."""
        return self.measurement.quantities.get("draft_acceptance_ratio")


class MeasuredEngine(Measured):
    """One engine of one server."""

    target: Text
    engine: Text
    restarts: Count
    """Number of counter resets during the measurement."""
    broken_checks: tuple[Text, ...]
    """Integrity checks of its counters that failed."""


class MeasuredModel(Measured):
    """Merged engines that serve a model with the same number of draft tokens."""

    engines: Annotated[int, Field(ge=1)]


class ReferenceDocument(MeasurementPart):
    """A measurement of servers: its time, length, engines and models."""

    ended: AwareDatetime
    seconds: Annotated[float, Field(gt=0)]
    """Length of the measurement."""
    exporter_version: Text
    engines: tuple[MeasuredEngine, ...]
    models: tuple[MeasuredModel, ...]
    """Models in the order of their first engines."""


def check_free(path: Path) -> None:
    """Check before the measurement that a file can be written, or raise ReferenceFileError."""
    try:
        if path.exists():
            raise ReferenceFileError(f"{path} {_TAKEN if path.is_file() else 'is not a plain file'}")
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
    try:
        _check_size(content)
        with tempfile.NamedTemporaryFile(prefix=".spec-decode-", dir=path.parent, delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                _put(Path(file.name), path)
            finally:
                Path(file.name).unlink(missing_ok=True)
    except TooManyValuesError as error:
        raise ReferenceFileError(f"{path} cannot be written: {error}; measure fewer targets") from None
    except FileExistsError:
        raise ReferenceFileError(f"{path} {_TAKEN}") from None
    except OSError as error:
        raise ReferenceFileError(f"{path} cannot be written: {error.strerror or error}") from None


def _check_size(content: bytes) -> None:
    """Reject content that ``read`` would reject, by TooManyValuesError."""
    check_values(content, MAX_VALUES)
    if len(content) > MAX_BYTES:
        raise TooManyValuesError(f"it is larger than {size_text(MAX_BYTES)}")


def _put(temporary: Path, path: Path) -> None:
    """Move a file to its name, with the permissions that the umask allows."""
    mask = os.umask(0)
    os.umask(mask)
    temporary.chmod(0o666 & ~mask)
    try:
        path.hardlink_to(temporary)  # unlike a rename, a link never replaces another file
    except OSError:
        if path.exists():
            raise FileExistsError from None
        temporary.replace(path)  # on a file system without links


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


def read_rates(path: Path, model_name: str | None) -> dict[int | None, float]:
    """Return the acceptance rates of one model by number of draft tokens, for the key ``reference.file``.

    Raises:
        ValueError: The file cannot be read, or does not hold exactly one such model.
    """
    try:
        models = read(path).models
    except ReferenceFileError as error:
        raise ValueError(f"cannot be used: {error}") from None
    found = [
        (model.model_name, model.measurement.tokens, model.acceptance.value)
        for model in models
        if model.acceptance is not None
    ]
    names = ", ".join(sorted({name for name, *_ in found}))
    chosen = [each for each in found if model_name in (None, each[0])]
    if not chosen:
        problem = f"holds no acceptance of {model_name}" if model_name else "holds no acceptance"
        raise ValueError(problem + (f"; there is {names}" if names else ""))
    if len({name for name, *_ in chosen}) > 1:
        raise ValueError(f"holds several models; select one by `model_name`: {names}")
    return {tokens: rate for _, tokens, rate in chosen}


def sealed(data: Mapping[str, Any], version: int = _VERSION) -> bytes:
    """Return the content of a file: format, version, checksum and data."""
    head = {"format": _FORMAT, "version": version, "checksum": _checksum(data)}
    return f"{json.dumps({**head, 'data': data}, indent=1, allow_nan=False)}\n".encode()


def _unsealed(content: bytes) -> Mapping[str, Any]:
    """Return the data of a file, or raise ValueError if it is not complete, or has too many values."""
    try:
        document = decode(content, MAX_VALUES)
    except TooManyValuesError:
        raise
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError("it is not a reference of this exporter")
    if document.get("version") != _VERSION:
        raise ValueError(f"it has version {document.get('version')!r:.40}; this exporter reads {_VERSION}")
    data = document.get("data")
    if not isinstance(data, dict) or document.get("checksum") != _checksum(data):
        raise ValueError("it was changed or damaged: its checksum does not match")
    return data


def _checksum(data: Mapping[str, Any]) -> str:
    """Return a hash of the data in JSON that stays the same when it is read and written again."""
    return sha256(json.dumps(data, allow_nan=False, separators=(",", ":")).encode()).hexdigest()
