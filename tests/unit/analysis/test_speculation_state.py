"""State of speculation."""

import pytest

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Drafting
from spec_decode_exporter.analysis.verdict import State
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from tests.fakes.evaluations import knowledge
from tests.fakes.windows import window

SILENT = {"decode_steps": 500, "generation_tokens": 510, "first_tokens": 10}
SCHEDULE = BatchSchedule((1, 3), (4, 0))
NOTHING = {"decode_steps": 0, "generation_tokens": 0, "first_tokens": 0}


def found(counts=None, recent=None, **known):
    """The state of an engine that drafted before, of which everything but what is given is ordinary."""
    longest = window(**{"drafts": 0, "length": 300.0, "seconds": 300.0, **(counts or {})})
    newest = None if recent is None else window(**{"drafts": 0, "length": 120.0, "seconds": 120.0, **recent})
    return Evaluation([longest], knowledge(**{"method": "eagle3", **known}, recent=newest)).state


@pytest.mark.parametrize(
    ("counts", "known", "state"),
    [
        ({"drafts": 1}, {}, State.ACTIVE),
        ({"drafts": 1, **SILENT}, {}, State.ACTIVE),
        ({"drafts": None, **SILENT}, {"drafting": Drafting.OFF}, State.DISABLED),
        (SILENT, {"drafting": Drafting.OFF, "has_drafted": False}, State.DISABLED),
        ({}, {"drafting": Drafting.UNDECIDED}, State.UNKNOWN),
        ({"decode_steps": 5}, {"drafting": Drafting.UNDECIDED}, State.UNKNOWN),
        # Without any increment
        ({"seconds": 0.0, "gauges": (16.0, 0.0, 0.0)}, {}, State.UNKNOWN),
        ({"seconds": 0.0}, {"drafting": Drafting.OFF}, State.DISABLED),
        ({}, {}, State.IDLE),
        ({"gauges": (0.0, 3.0, 0.5), **NOTHING}, {}, State.IDLE),
        # Requests run
        ({"gauges": (0.1, 0.0, 0.0)}, {}, State.ACTIVE),
        ({"decode_steps": 1}, {}, State.ACTIVE),
        # A stall needs more steps than min_drafts; unknown ones are the tokens after the first
        ({**NOTHING, "decode_steps": 100}, {}, State.ACTIVE),
        ({**NOTHING, "decode_steps": 101}, {}, State.STALLED),
        ({"generation_tokens": 110, "first_tokens": 10}, {}, State.ACTIVE),
        ({"generation_tokens": 111, "first_tokens": 10}, {}, State.STALLED),
        ({"generation_tokens": 101}, {}, State.STALLED),
        (SILENT, {}, State.STALLED),
        (SILENT, {"method": ""}, State.STALLED),
        (SILENT, {"has_drafted": False}, State.ACTIVE),
        # A schedule without drafts at this load
        (SILENT | {"gauges": (2.0, 0.0, 0.0)}, {"schedule": SCHEDULE}, State.STALLED),
        (SILENT | {"gauges": (2.1, 0.0, 0.0)}, {"schedule": SCHEDULE}, State.ACTIVE),
        # Only a whole window can be stalled
        (SILENT | {"seconds": 255.0}, {}, State.STALLED),
        (SILENT | {"seconds": 254.0}, {}, State.ACTIVE),
    ],
)
def test_is_that_of_the_longest_window(counts, known, state):
    assert found(counts, **known) is state


@pytest.mark.parametrize(
    ("recent", "state"),
    [
        (SILENT, State.STALLED),
        ({"drafts": 1, **SILENT}, State.ACTIVE),
        ({"decode_steps": 100}, State.ACTIVE),
        ({"seconds": 101.0, **SILENT}, State.ACTIVE),  # not a whole window
        ({"length": 300.0, **SILENT}, State.ACTIVE),  # not shorter than the longest
    ],
)
def test_one_that_stopped_drafting_within_the_longest_window_is_stalled(recent, state):
    assert found({"drafts": 900, "decode_steps": 1500}, recent) is state


@pytest.mark.parametrize("method", ["ngram", "[ngram]", "ngram_gpu", "N-gram", "suffix", "suffix_decoding"])
def test_one_that_searches_in_vain_is_not(method):
    assert found(SILENT, method=method) is State.ACTIVE
