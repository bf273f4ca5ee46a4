"""A real vLLM on the CPU that serves the tiny models and counts its drafts in every response."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from clients import MODEL
from process import HOST, Server, serve

from tests.e2e.conftest import free_port

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
FLAGS = (
    *("--served-model-name", MODEL, "--dtype", "bfloat16", "--enforce-eager"),
    *("--max-model-len", "1024", "--max-num-seqs", "16"),
)
TIMES = ("--enable-per-request-metrics",)
"""The truth about times in every response. The Rust front end of 0.32 does not start with it."""
COUNTS = ("--per-request-spec-decode-metrics", "summary")
"""The truth about drafts in every response. Without speculation vLLM does not start with it."""
SPECULATION = "--speculative-config"
QUIET = ("--disable-access-log-for-endpoints", "/metrics,/metrics/")
"""Options that exclude the exporter's polls from vLLM's access log. Paths are compared whole: both are needed."""
NGRAM = (
    SPECULATION,
    '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4, "prompt_lookup_min": 1}',
)
"""Speculate by looking up what followed the last tokens earlier in the same text."""
DEV_MODE = {"VLLM_SERVER_DEV_MODE": "1"}  # environment for ``/server_info``
RELEASES = Path(os.environ.get("VLLM_RELEASES", ".e2e/releases")).absolute()
"""What ``run`` makes of CUDA wheels, for other versions beside the CPU package."""


def draft_model(tokens: int, name: str = "draft", **more: object) -> Sequence[str]:
    """Speculate with a draft model."""
    path = f"{os.environ['VLLM_MODELS']}/{name}"
    settings = {"method": "draft_model", "model": path, "num_speculative_tokens": tokens, **more}
    return (SPECULATION, json.dumps(settings))


@contextlib.contextmanager
def vllm(
    name: str,
    *flags: str,
    model: str = "target",
    port: int | None = None,
    more_environment: Mapping[str, str] | None = None,
    per_request: bool = True,
) -> Iterator[Server]:
    """Run vLLM until the block ends; the block begins when it is healthy.

    With ``per_request`` responses have their own times, and counts if the server speculates.
    """
    port = port or free_port()
    environment = {**ENVIRONMENT, **(more_environment or {})}
    program = Path(os.environ["VLLM_VENV"], "bin", "vllm")
    command = [
        str(program),
        "serve",
        f"{os.environ['VLLM_MODELS']}/{model}",
        "--host",
        HOST,
        "--port",
        str(port),
        *FLAGS,
        *(TIMES if per_request else ()),
        *(COUNTS if per_request and SPECULATION in flags else ()),
        *flags,
    ]
    with serve(command, name=name, port=port, health="/health", environment=environment) as server:
        yield server
