"""Acceptance rates of a reference file, for the configuration key ``reference.file``."""

from __future__ import annotations

from pathlib import Path

from spec_decode_exporter.reports.reference_file import ReferenceFileError, read


def read_rates(path: Path, model_name: str | None) -> dict[int | None, float]:
    """Return the acceptance rates of one model by number of draft tokens.

    Raises:
        ValueError: The file cannot be read, or does not hold exactly one such model.
    """
    try:
        models = [model for model in read(path).models if model.acceptance_ratio is not None]
    except ReferenceFileError as error:
        raise ValueError(f"cannot be used: {error}") from None
    names = ", ".join(sorted({model.model_name for model in models}))
    chosen = [model for model in models if model_name in (None, model.model_name)]
    if not chosen:
        problem = f"holds no acceptance of {model_name}" if model_name else "holds no acceptance"
        raise ValueError(problem + (f"; there is {names}" if names else ""))
    if len({model.model_name for model in chosen}) > 1:
        raise ValueError(f"holds several models; select one by `model_name`: {names}")
    return {
        model.measurement.tokens: model.acceptance_ratio
        for model in chosen
        if model.acceptance_ratio is not None
    }
