import json
import os
import re
import signal
from pathlib import Path

from clients import Truth
from process import serve
from watch import row, watch

from tests.e2e.conftest import eventually, free_port

PROGRAM = Path(__file__).with_name("lmdeploy_page.py")
K = 4  # as the program has it


def test_the_page_of_lmdeploys_own_classes_gives_what_its_steps_were(remark):
    port = free_port()
    command = [f"{os.environ['VLLM_VENV']}/bin/python", str(PROGRAM), os.environ["LMDEPLOY"], str(port)]
    with (
        serve(command, name="lmdeploy", port=port, health="/metrics") as server,
        watch("lmdeploy", server.url) as watching,
    ):
        os.kill(server.process.pid, signal.SIGUSR1)
        printed = eventually(
            lambda: re.search(r"^truth (.*)\n", server.log, re.MULTILINE),
            what=f"the end of all requests; see {server.log_path}",
        )
        counts = json.loads(printed[1])
        # Each request has its first token, each draft one beside the accepted ones.
        tokens = sum(counts.values())
        truth = Truth(**counts, draft_tokens=K * counts["drafts"], generation_tokens=tokens)
        page = watching.settled()
        for name in ("drafts", "draft_tokens", "accepted_tokens", "generation_tokens"):
            assert page.sum(f"spec_decode_{name}_total") == getattr(truth, name)
        assert sum(page.positions("spec_decode_position_accepted_tokens_total")) == truth.accepted_tokens
        assert page.sum("spec_decode_first_tokens_total") == truth.requests
        assert page.sum("spec_decode_decode_steps_total") == truth.drafts
        remark(row("LMDeploy's own classes", page, truth))
        assert watching.complaints(filtered=False) == []
