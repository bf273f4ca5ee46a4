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
DEV_MODE = {"VLLM_SERVER_DEV_MODE": "1"}  # environment for ``/server_info``


def models() -> Path:
    """Return the folder with the models, absolute."""
    return Path(os.environ["VLLM_MODELS"])


def draft_model(tokens: int, name: str = "draft") -> Sequence[str]:
    """Speculate with a draft model."""
    settings = {"method": "draft_model", "model": str(models() / name), "num_speculative_tokens": tokens}
    return (SPECULATION, json.dumps(settings))


def ngram(tokens: int) -> Sequence[str]:
    """Speculate by looking up what followed the last tokens earlier in the same text."""
    lookup = {"prompt_lookup_max": 4, "prompt_lookup_min": 1}
    return (SPECULATION, json.dumps({"method": "ngram", "num_speculative_tokens": tokens, **lookup}))


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
        str(models() / model),
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
