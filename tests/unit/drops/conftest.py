"""Feeding of drop detectors, and a restart of the exporter."""

from pydantic import TypeAdapter

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.detector import Detector, DetectorState
from spec_decode_exporter.drops.drops import Drops, DropState

STATES = {each: TypeAdapter(each) for each in (DetectorState, DropState)}


def fed(detector, increments):
    """Feed increments; return the drops that begin or end, each with the number of increments so far."""
    found = ((place, detector.observe(each)) for place, each in enumerate(increments, 1))
    return [(place, drop) for place, drop in found if drop]


def restarted(detector):
    """Return the same detectors in another process: their state was saved as JSON."""
    state = STATES[type(detector.state)]
    is_one = isinstance(detector, Detector)
    other = Detector(detector.settings, DropPolicy()) if is_one else Drops(DropPolicy())
    other.restore(state.validate_json(state.dump_json(detector.state, exclude_defaults=True)))
    return other


def thresholds(detector, state=None):
    """Return the thresholds of a detector's sums: a restart halves sums that exceed them."""
    state = state or detector.state
    for cusum in state.cusums:
        cusum.sum = 1e20
    detector.restore(detector.state)
    found = [2 * cusum.sum for cusum in state.cusums]
    for cusum in state.cusums:
        cusum.reset()
    return found
