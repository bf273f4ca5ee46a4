import json
import os
import re
import signal
from pathlib import Path

from clients import Truth
from process import serve
from watch import watch

from tests.e2e.conftest import eventually, free_port

PROGRAM = Path(__file__).with_name("lmdeploy_page.py")
K = 4  # as the program has it


def printed_truth(log):
    """Return what the program says at its end, or None."""
    found = re.search(r"^truth (.*)$", log, re.MULTILINE)
    return found and json.loads(found[1])


def test_the_page_of_lmdeploys_own_classes_gives_what_its_steps_were(record):
    port = free_port()
    command = [f"{os.environ['VLLM_VENV']}/bin/python", str(PROGRAM), os.environ["LMDEPLOY"], str(port)]
    with (
        serve(command, name="lmdeploy", port=port, health="/metrics") as server,
        watch("lmdeploy", server.url) as watching,
    ):
        os.kill(server.process.pid, signal.SIGUSR1)
        eventually(
            lambda: printed_truth(server.log) is not None,
            what=f"the end of all requests; see {server.log_path}",
        )
        counts = printed_truth(server.log)
        tokens = sum(
            counts.values()
        )  # each request has its first token, each draft one beside the accepted ones
        truth = Truth(**counts, draft_tokens=K * counts["drafts"], generation_tokens=tokens)
        page = watching.settled()
        for name in ("drafts", "draft_tokens", "accepted_tokens", "generation_tokens"):
            assert page.sum(f"spec_decode_{name}_total") == getattr(truth, name)
        assert sum(page.positions("spec_decode_position_accepted_tokens_total")) == truth.accepted_tokens
        assert page.sum("spec_decode_first_tokens_total") == truth.requests
        assert page.sum("spec_decode_decode_steps_total") == truth.drafts
        record("LMDeploy's own classes", page, truth)
        assert watching.complaints(filtered=False) == []
