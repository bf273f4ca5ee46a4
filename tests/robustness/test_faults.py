"""Every fault of a server has its reason, and costs little processor time."""

import contextlib
import socket
import time

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.config.schema import Config
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.monitor.target_monitor import Shared, TargetMonitor
from tests.robustness.faults import FAULTS, READ, serving

POLLS = 2  # of each server: the second finds what the first has left
MAX_SECONDS = 2.0  # processor time of a poll: a page at every limit takes a tenth of it
PATIENCE = "30s"  # timeout of a poll; for faults that only a timeout ends, it is short


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_of_a_server_has_its_reason(name):
    fault, begin = FAULTS[name], time.thread_time()
    patience = "200ms" if fault.outcome == "timeout" else PATIENCE
    config = Config.model_validate({"poll": {"timeout": patience, "filter": "off"}})
    reasons, messages = set(), []
    async with contextlib.AsyncExitStack() as stack:
        if fault.respond is None:
            bound = stack.enter_context(socket.socket())  # it does not listen
            bound.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{bound.getsockname()[1]}/metrics"
        else:
            url = (await stack.enter_async_context(serving(fault.respond))).url()
        logs = stack.enter_context(capture_logs())
        monitor = TargetMonitor(Target(url, "t"), config, Shared(Clock()))
        poller = monitor.poller()
        for _ in range(POLLS):
            await poller.poll()
            record = monitor.status().record
            reasons.add(record.error or READ)
            messages.append(record.message)
        await monitor.close()
    assert reasons <= set(fault.outcome.split())
    assert fault.reason in f"{messages} {logs}"
    assert time.thread_time() - begin < POLLS * MAX_SECONDS
