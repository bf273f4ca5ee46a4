"""Serve the page of LMDeploy's own metrics classes; run with the Python of vLLM's environment, which has their packages.

    lmdeploy_page.py FOLDER PORT

The classes get what LMDeploy's engine hands them of each step of a request, here drawn by chance. That begins with the
signal USR1, so that a reader sees all counters at 0 before; the sums are printed at the end.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
import types
from pathlib import Path

K = 4
REQUESTS = 30
STEPS = range(5, 40)
AT_ONCE = 3
RATE = 0.7  # probability that a draft token is accepted if those before it are


async def worker(number: int, truth: dict[str, int]) -> None:
    """Report requests step by step: the first token of each, and drafts of which some tokens are accepted."""
    from lmdeploy.messages import EngineEvent, EngineOutput, EventType, RequestMetrics, ResponseType
    from lmdeploy.metrics.metrics_processor import metrics_processor
    from lmdeploy.metrics.stats import IterationStats, RequestStats, SpeculativeDecodingStats

    chance = random.Random(number)
    for _ in range(REQUESTS // AT_ONCE):
        stats = RequestStats(prompt_tokens=chance.randint(5, 50))
        events = [EngineEvent.new_event(EventType.QUEUED), EngineEvent.new_event(EventType.SCHEDULED)]
        steps = chance.choice(STEPS)
        for step in range(steps + 1):
            await asyncio.sleep(0.01)
            accepted = 0
            while step and accepted < K and chance.random() < RATE:
                accepted += 1
            drafted = {"num_draft_tokens": K, "num_accepted_tokens": accepted} if step else None
            iteration = IterationStats()
            now = iteration.iteration_timestamp
            metrics = RequestMetrics(
                token_timestamp=now, engine_events=[] if step else events, spec_info=drafted
            )
            status = ResponseType.FINISH if step == steps else ResponseType.SUCCESS
            output = EngineOutput(status, [1] * (1 + accepted), req_metrics=metrics)
            metrics_processor.queue_update((output, stats, iteration, SpeculativeDecodingStats(K)))
            truth["accepted_tokens"] += accepted
        truth["drafts"] += steps
        truth["requests"] += 1


async def main(port: int) -> None:
    """Wait for the signal, then run some requests at a time, and print the sums."""
    from lmdeploy.metrics.loggers import PrometheusStatLogger
    from lmdeploy.metrics.metrics_processor import metrics_processor
    from prometheus_client import start_http_server

    begin = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, begin.set)
    metrics_processor.stat_loggers = [PrometheusStatLogger("tiny", max_model_len=1024)]
    metrics_processor.start_metrics_handler(enable_metrics=True)
    start_http_server(port, "127.0.0.1")
    await begin.wait()
    truth = {"requests": 0, "drafts": 0, "accepted_tokens": 0}
    await asyncio.gather(*(worker(number, truth) for number in range(AT_ONCE)))
    await metrics_processor.metrics_queue.join()
    print(f"truth {json.dumps(truth)}", flush=True)  # noqa: T201
    await asyncio.Event().wait()


if __name__ == "__main__":
    # The package becomes importable without its first module, which imports the whole engine.
    for name in ("lmdeploy", "lmdeploy.pytorch"):
        package = types.ModuleType(name)
        package.__path__ = [str(Path(sys.argv[1], *name.split(".")))]
        sys.modules[name] = package
    asyncio.run(main(int(sys.argv[2])))
