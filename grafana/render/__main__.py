"""Run the fleet for a while, then draw the dashboards: ``python -m grafana.render --minutes 17``."""

from __future__ import annotations

import argparse
import io
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from grafana.__main__ import FOLDER
from grafana.pictures import fingerprint, picture_of, stamped
from grafana.render.stack import ROOT, Stack, stack

HERE = Path(__file__).parent
SHOWN = "chat-2"
"""The engine in the picture of the engine's dashboard."""


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m grafana.render", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=17, help="how long the fleet runs, and what is shown"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images", help="where the pictures go")
    return parser.parse_args(given)


def _in_renderer(*command: str) -> None:
    subprocess.run(command, cwd=HERE, check=True)  # noqa: S603


def build() -> None:
    """Install the renderer's packages, where they are not, and bundle its page."""
    if not (HERE / "node_modules").is_dir():
        _in_renderer("npm", "install")
    _in_renderer("node", "build.mjs")


def draw(running: Stack, minutes: float, out: Path) -> None:
    """Draw every dashboard as it would be seen now, and say in each picture what it shows."""
    until = int(time.time() * 1000)
    since = until - int(minutes * 60_000)
    one = {"instance": running.exporter, "target": SHOWN, "engine": "0"}
    chosen = json.dumps({"spec-decode-engine": one})
    _in_renderer("node", "draw.mjs", running.prometheus, str(out.resolve()), str(since), str(until), chosen)
    for path in FOLDER.glob("*.json"):
        board = json.loads(path.read_text(encoding="utf-8"))
        picture = out / picture_of(board["uid"])
        picture.write_bytes(stamped(_reduced(picture), fingerprint(board)))


def _reduced(picture: Path) -> bytes:
    """Return the picture in 256 colours: flat areas and few lines need no more, and it is half as large."""
    from PIL import Image

    reduced = io.BytesIO()
    # Colours have meanings, so that of few pixels counts too: the usual median cut makes orange words yellow.
    widest, plain = Image.Quantize.MAXCOVERAGE, Image.Dither.NONE
    with Image.open(picture) as image:
        image.convert("RGB").quantize(256, widest, kmeans=1, dither=plain).save(reduced, "PNG", optimize=True)
    return reduced.getvalue()


def main(given: Sequence[str] | None = None) -> None:
    """Run, wait and draw; a signal to end ends the fleet too."""
    arguments = _arguments(given)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    build()
    with tempfile.TemporaryDirectory() as folder, stack(Path(folder)) as running:
        time.sleep(arguments.minutes * 60)
        draw(running, arguments.minutes, arguments.out)


if __name__ == "__main__":
    main()
