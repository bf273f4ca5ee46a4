"""Every parser with its whole corpus and some random inputs; ``make fuzz`` runs longer."""

import time

import pytest
from hypothesis import HealthCheck, given, settings

from tests.robustness.fuzz.chance import inputs
from tests.robustness.fuzz.harness import CORPUS, NAMES, harness
from tests.robustness.fuzz.parsers import HARNESSES

ENTRIES = [(name, path) for name in NAMES for path in sorted((CORPUS / name).iterdir())]
MAX_EXAMPLES = 15
MAX_SECONDS_EACH = 10


@pytest.mark.parametrize(
    ("name", "path"), [pytest.param(*entry, id=f"{entry[0]}-{entry[1].name}") for entry in ENTRIES]
)
def test_inputs_of_the_corpora_break_no_parser(name, path):
    attacked = harness(name)
    begun = time.process_time()
    attacked.attack(path.read_bytes())
    assert time.process_time() - begun < MAX_SECONDS_EACH


@pytest.mark.parametrize("name", NAMES)
def test_random_inputs_break_no_parser(name):
    attacked = harness(name)

    @settings(max_examples=MAX_EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(inputs(name, attacked))
    def check(data):
        attacked.attack(data)

    check()


def test_every_corpus_has_its_parser():
    assert set(HARNESSES) == set(NAMES)
    assert all(path.stat().st_size <= 2**16 for _, path in ENTRIES)
