import pytest
from clients import Load, drive, driving
from counted import completed, settled_counters
from llamacpp_server import SYNTHETIC_RATES, draft_model, llamacpp, requests
from watch import LONG, row, state, watch

from tests.e2e.conftest import CEILING, eventually

RATES = (0.9, 0.7, 0.5, 0.3)
K = len(RATES)
ENOUGH = 30_000  # drafts after which chance moves the rarest rate by less than 1 %


def test_every_number_equals_what_the_responses_say(remark):
    with (
        llamacpp("llamacpp-draft", draft_model(K)) as server,
        watch("llamacpp-draft", server.url) as watching,
    ):
        sent = drive(server.url, Load(temperature=0, seconds=5, api=requests(200)))
        truth = completed(server, sent)
        page = settled_counters(watching, truth)
        remark(row("llama.cpp, draft model", page, truth))
        assert truth.acceptance > 0.5
        assert page.sum("spec_decode_configured_tokens") == K
        assert state(page) == "active"
        assert watching.complaints(filtered=False) == []


def test_acceptance_by_position_is_what_the_server_was_told_to_accept(remark):
    told = {**draft_model(K), SYNTHETIC_RATES: RATES}
    with llamacpp("llamacpp-rates", told) as server, watch("llamacpp-rates", server.url) as watching:
        with driving(server.url, Load(temperature=0, seconds=CEILING, api=requests(800))) as sent:
            eventually(
                lambda: watching.page().sum("spec_decode_drafts_total") > ENOUGH,
                what=f"{ENOUGH} drafts; see {server.log_path}",
            )
        truth = completed(server, sent.result())
        page = settled_counters(watching, truth)
        remark(row("llama.cpp, synthetic rates", page, truth))
        rates = page.positions("spec_decode_position_acceptance_ratio", window=LONG)
        assert rates == pytest.approx(RATES, rel=0.03)
        assert watching.complaints(filtered=False) == []
