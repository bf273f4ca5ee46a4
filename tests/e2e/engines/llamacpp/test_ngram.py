import pytest
from clients import Load, drive, driving
from counted import completed, printed, settled_counters
from llamacpp_server import SYNTHETIC_RATES, llamacpp, ngram, requests
from watch import LONG, row, state, watch

from tests.e2e.conftest import CEILING, eventually

MILLION = 1_000_000
LONGEST = 64
SLOTS = 8
EXACT = 1e-9  # relative error of a division


def test_counters_that_the_server_rounds_break_no_check_and_restart_no_engine(remark):
    # Drafts that cost no draft model, each accepted whole: the shortest way to a million.
    fast = {**ngram(1, LONGEST), SYNTHETIC_RATES: [1.0] * LONGEST}
    with (
        llamacpp("llamacpp-million", fast, model="draft", slots=SLOTS) as server,
        watch("llamacpp-million", server.url) as watching,
    ):
        load = Load(temperature=0, seconds=CEILING, at_once=SLOTS, api=requests(350, prompt=150))
        with driving(server.url, load) as sent:
            eventually(
                lambda: watching.page().sum("spec_decode_accepted_tokens_total") > 1.2 * MILLION,
                what=f"a million accepted tokens and more; see {server.log_path}",
            )
        truth = completed(server, sent.result())
        page = settled_counters(watching, truth)
        assert watching.complaints(filtered=False) == []
        remark(row("llama.cpp, beyond a million", page, truth))


def test_steps_without_a_draft_count_as_such_where_no_text_repeats_at_first(remark):
    with llamacpp("llamacpp-ngram", ngram(3, 12)) as server, watch("llamacpp-ngram", server.url) as watching:
        sent = drive(server.url, Load(temperature=0, seconds=8, api=requests(300)))
        truth = completed(server, sent)
        page = settled_counters(watching, truth)
        remark(row("llama.cpp, n-gram", page, truth))
        # Each decode step gives one token that no draft had.
        steps = truth.generation_tokens - truth.accepted_tokens
        assert 0 < truth.drafts < steps
        assert page.sum("spec_decode_decode_steps_total") == printed(steps)
        coverage = page.sum("spec_decode_coverage_ratio", window=LONG)
        assert coverage == pytest.approx(truth.drafts / steps, rel=EXACT)
        tokens = page.sum("spec_decode_effective_tokens_per_step", window=LONG)
        assert tokens == pytest.approx(truth.generation_tokens / steps, rel=EXACT)
        assert state(page) == "active"


def test_a_server_that_decodes_for_30_seconds_without_a_draft_is_off(remark):
    with llamacpp("llamacpp-off", {"type": "none"}) as server, watch("llamacpp-off", server.url) as watching:
        with driving(server.url, Load(temperature=0, seconds=CEILING, at_once=1, api=requests(100))) as sent:
            eventually(
                lambda: state(watching.page()) == "disabled",
                what=f"the end of any doubt; see {watching.log_path}",
            )
        truth = completed(server, sent.result())
        page = settled_counters(watching, truth)
        remark(row("llama.cpp, no drafts", page, truth))
        assert state(page) == "disabled"
