"""Stand-in for a kubelet: files that are replaced at once, and a process.

It is a stand-in: no cluster has nodes here. The program is the installed one and not the image.
"""

from __future__ import annotations

import os
import subprocess
from itertools import count


class Projected:
    """A folder as a ConfigMap or a token is mounted: each file a link, through one link that gets another aim."""

    def __init__(self, folder, **files):
        self.folder, self._numbers = folder, count()
        folder.mkdir(parents=True)
        self.put(**files)

    def put(self, **files):
        """Replace all files at once. Underscores of a name stand for dots."""
        there = self.folder / f"..{next(self._numbers)}"
        there.mkdir()
        for name, text in files.items():
            (there / name.replace("_", ".")).write_text(text)
            link = self.folder / name.replace("_", ".")
            if not link.is_symlink():
                link.symlink_to(f"..data/{link.name}")
        (self.folder / "..data_tmp").symlink_to(there.name)
        (self.folder / "..data_tmp").replace(self.folder / "..data")


def container_class(e2e):
    """Return the class of a container's process, on the class of e2e's processes."""

    class Container(e2e.Running):
        """The program with a container's arguments and variables; ``mounts`` say where its folders are here."""

        def __init__(self, folder, container, mounts):
            self.port = e2e.free_port()
            self.url = f"http://127.0.0.1:{self.port}"
            listen = f"--web.listen-address=127.0.0.1:{self.port}"
            words = [word for word in container["args"] if not word.startswith("--web.listen-address")]
            for there, here in mounts.items():
                words = [word.replace(there, str(here)) for word in words]
            self.name, self.log_path = container["name"], folder / f"{container['name']}.log"
            environ = {one["name"]: one["value"] for one in container.get("env", ())}
            with self.log_path.open("wb") as log:
                self.process = subprocess.Popen(
                    [e2e.PROGRAM, *words, listen],
                    stdout=log,
                    stderr=log,
                    cwd=folder,
                    env={**os.environ, **environ},
                )

        def metrics(self):
            status, _, page = e2e.fetch(f"{self.url}/metrics")
            assert status == 200
            return page

    return Container
