"""Measure servers for a limited time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.errors import ExporterError
from spec_decode_exporter.reports.observe.session import Observation, ObservedFleet
from spec_decode_exporter.reports.reference.measuring import measured
from spec_decode_exporter.reports.reference_document import ReferenceDocument

CHECKED_AFTER: Final = 10.0
"""Seconds after which a missing server ends the measurement early."""


class NotMeasuredError(ExporterError):
    """A server did not answer, or shows no engine. The text has the reason for each server."""


async def take(config: Config, seconds: float, clock: Clock) -> ReferenceDocument:
    """Measure the targets of ``config``, made by ``observed_config``, for ``seconds``.

    Raises:
        NotMeasuredError: A target cannot be measured: without it, the model's figures would differ.
    """
    observation = Observation(config, clock)
    try:
        await observation.poll(_wait(observation, seconds, clock))
        observed = observation.observed()
    finally:
        await observation.close()
    _check(observed)
    return measured(observed)


async def _wait(observation: Observation, seconds: float, clock: Clock) -> None:
    begin = clock.monotonic()
    await clock.sleep_until(begin + min(CHECKED_AFTER, seconds))
    _check(observation.observed())
    await clock.sleep_until(begin + seconds)


def _check(observed: ObservedFleet) -> None:
    missing = list(_missing(observed))
    if missing:
        raise NotMeasuredError("; ".join(missing))


def _missing(observed: ObservedFleet) -> Iterator[str]:
    for target in observed.targets:
        if not target.up:
            yield f"{target.target} does not answer: {target.error or 'no answer came in time'}"
        elif not target.engines:
            yield f"{target.target} shows no engine: is {target.address} the metrics page of a server?"
