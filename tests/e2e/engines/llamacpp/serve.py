"""Serve a model with llama.cpp's own server; run with xllamacpp on PYTHONPATH.

    serve.py PORT '{"model.path": …, "type": "draft-simple", "speculative.draft.n_max": 4}'

xllamacpp is llama-server as an extension module: the same HTTP server, whose flags are attributes.
"""

from __future__ import annotations

import json
import signal
import sys
from functools import reduce
from typing import Any

import xllamacpp

ALWAYS = {"endpoint_metrics": True, "cpuparams.n_threads": 1, "cpuparams_batch.n_threads": 1}
"""One thread: the exporter and the clients have the other core."""


def main(port: int, flags: dict[str, Any]) -> None:
    """Serve until a signal ends the process."""
    parameters = xllamacpp.CommonParams()
    kind = flags.pop("type").upper().replace("-", "_")
    parameters.speculative.types = [xllamacpp.common_speculative_type[f"COMMON_SPECULATIVE_TYPE_{kind}"]]
    for path, value in {**ALWAYS, "port": port, **flags}.items():
        *parents, name = path.split(".")
        setattr(reduce(getattr, parents, parameters), name, value)
    server = xllamacpp.Server(parameters)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    del server


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
