from clients import Load, drive, driving
from counted import check_counters, check_steps, complete
from llamacpp_server import accepting, llamacpp, ngram, requests
from watch import state, watch

from tests.e2e.conftest import CEILING, eventually

MILLION = 1_000_000
LONGEST = 64
SLOTS = 8


def test_counters_that_the_server_rounds_break_no_check_and_restart_no_engine(record):
    # Drafts that cost no draft model, each accepted whole: the shortest way to a million.
    fast = ngram(1, LONGEST) | accepting(*[1.0] * LONGEST)
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
        truth = complete(sent.result(), server.url)
        page = watching.settled()
        assert watching.complaints(filtered=False) == []
        check_counters(page, truth)
        record("llama.cpp, beyond a million", page, truth)


def test_steps_without_a_draft_count_as_such_where_no_text_repeats_at_first(record):
    with llamacpp("llamacpp-ngram", ngram(3, 12)) as server, watch("llamacpp-ngram", server.url) as watching:
        truth = complete(drive(server.url, Load(temperature=0, seconds=8, api=requests(300))), server.url)
        page = watching.settled()
        check_counters(page, truth)
        record("llama.cpp, n-gram", page, truth)
        assert 0 < truth.drafts < truth.generation_tokens - truth.accepted_tokens
        check_steps(page, truth)
        assert state(page) == "active"


def test_a_server_that_decodes_for_30_seconds_without_a_draft_is_off(record):
    with llamacpp("llamacpp-off", {"type": "none"}) as server, watch("llamacpp-off", server.url) as watching:
        with driving(server.url, Load(temperature=0, seconds=CEILING, at_once=1, api=requests(100))) as sent:
            eventually(
                lambda: state(watching.page()) == "disabled",
                what=f"the end of any doubt; see {watching.server.log_path}",
            )
        truth = complete(sent.result(), server.url)
        page = watching.settled()
        check_counters(page, truth)
        record("llama.cpp, no drafts", page, truth)
        assert state(page) == "disabled"
