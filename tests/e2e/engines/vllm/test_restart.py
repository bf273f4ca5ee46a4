from clients import Load, drive
from compare import check_counters, check_vllm, check_windows
from vllm_server import QUIET, draft_model, vllm
from watch import row, watch

from tests.e2e.conftest import eventually, free_port


def test_windows_begin_again_after_a_kill_and_a_restart_with_another_number_of_tokens(remark):
    port = free_port()
    with (
        vllm("restart-k3", *draft_model(3), *QUIET, port=port) as server,
        watch("restart", server.url) as watching,
    ):
        before = drive(server.url, Load(temperature=0, seconds=12))
        killed = watching.settled()
        check_counters(killed, before)
        check_windows(killed, before)
        remark(row("before the kill, K = 3", killed, before))

        server.kill()
        eventually(lambda: not watching.up(), what="a failed poll of the killed server")
        with vllm("restart-k5", *draft_model(5), *QUIET, port=port):
            eventually(watching.up, what="a successful poll of the new server")
            after = drive(server.url, Load(temperature=0, seconds=12))
            page = watching.settled()
            check_vllm(server.url, after)
            check_windows(page, after, killed)
            check_counters(page, before + after)
            remark(row("after the restart, K = 5", page, after))
            assert page.sum("spec_decode_engine_resets_total", cause="restart") == 1
            assert page.sum("spec_decode_engine_resets_total", cause="decrease") == 0
            assert page.find("spec_decode_exporter_target_info", page="filtered")
