"""Gather the files that a Python program needs from the image that this runs in: a root without a shell.

``python3 assemble.py ROOT TREE...`` fills ROOT with the interpreter, the shared libraries that it and the
extension modules under each TREE load, the certificates, and what a resolver and a scanner look for.
The Dockerfile runs it, as root, with nothing but the standard library.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

USER: Final = 65532
STATE_DIRECTORY: Final = "var/lib/spec-decode-exporter"
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")

_UNUSED_MODULES: Final = (
    *("test", "tests", "idlelib", "idle_test", "tkinter", "turtledemo", "turtle.py", "lib2to3", "pydoc_data"),
    *("ensurepip", "venv", "distutils", "site-packages", "dist-packages", "config-*", "__pycache__"),
    *("sqlite3", "curses", "dbm"),
)
"""Of the standard library: what only developers use, and the front ends of the modules below."""

_UNUSED_EXTENSIONS: Final = (
    *("_test*", "_ctypes_test*", "_xxtestfuzz*", "_xxsubinterpreters*", "_xxinterp*", "xx*"),
    *(
        "_sqlite3*",
        "_curses*",
        "readline*",
        "_tkinter*",
        "_dbm*",
        "_gdbm*",
        "nis*",
        "_crypt*",
        "ossaudiodev*",
    ),
)
"""Of its extension modules: those that would bring a library with them which nothing else needs."""

_LOADED_LATER: Final = ("libgcc_s.so.1",)
"""Libraries that no file names and glibc opens when a thread ends."""

_LINKED_DIRECTORIES: Final = ("bin", "lib", "lib64", "sbin")

_PATH_IN_LDD: Final = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)

_FILES: Final = {
    "etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nnonroot:x:{USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def main(words: Sequence[str]) -> None:
    """Fill the root that the first word names, for the programs under the others."""
    root, *trees = map(Path, words)
    link_directories(root)
    copy_interpreter(root)
    libraries = list(needed_libraries([root, *trees]))
    for library in libraries:
        copy_file(library, root)
    write_files(root)
    index_libraries(root, libraries)
    copy_certificates(root)
    record_packages(root, [*libraries, CERTIFICATES])


def link_directories(root: Path) -> None:
    """Make /lib and its like the links that they are in the image we run in."""
    for name in _LINKED_DIRECTORIES:
        original = Path("/", name)
        if original.is_symlink():
            target = original.readlink()
            (root / str(target).lstrip("/")).mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(target)


def copy_interpreter(root: Path) -> None:
    """Copy the interpreter and the standard library, less what a server never imports."""
    ignore = shutil.ignore_patterns(*_UNUSED_MODULES, *_UNUSED_EXTENSIONS)
    standard_library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(standard_library, root / standard_library.relative_to("/"), symlinks=True, ignore=ignore)
    program = Path(sys.base_prefix, "bin", f"python{sysconfig.get_python_version()}")
    copy_file(program, root)
    for name in ("python3", "python"):
        (root / program.relative_to("/")).with_name(name).symlink_to(program.name)


def needed_libraries(trees: Iterable[Path]) -> Iterator[Path]:
    """Return every shared library outside ``trees`` that a program or library inside them loads."""
    own = tuple(trees)
    found = {path for tree in own for file in _binaries(tree) for path in loaded_by(file)}
    outside = {path for path in found if not any(path.is_relative_to(tree) for tree in own)}
    beside = {path.with_name(name) for path in outside for name in _LOADED_LATER}
    yield from sorted(outside | {path for path in beside if path.exists()})


def loaded_by(file: Path) -> Iterator[Path]:
    """Return the libraries that the dynamic linker loads for ``file``.

    Raises:
        FileNotFoundError: One of them is not there.
    """
    answer = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False)  # noqa: S603, S607
    if "not found" in answer.stdout:
        raise FileNotFoundError(f"{file} needs what is not here:\n{answer.stdout}")
    yield from map(Path, _PATH_IN_LDD.findall(answer.stdout))


def _binaries(tree: Path) -> Iterator[Path]:
    for path in sorted(tree.rglob("*")):
        if path.is_file() and not path.is_symlink() and _begin(path) == b"\x7fELF":
            yield path


def _begin(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(4)


def copy_file(file: Path, root: Path) -> None:
    """Copy what ``file`` names, under the name it is asked for by."""
    place = root / file.relative_to("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, place)


def index_libraries(root: Path, libraries: Iterable[Path]) -> None:
    """Have the dynamic linker know the directories that the libraries are in."""
    directories = sorted({str(library.parent) for library in libraries})
    (root / "etc/ld.so.conf").write_text(
        "".join(f"{directory}\n" for directory in directories), encoding="ascii"
    )
    subprocess.run(["ldconfig", "-r", str(root)], check=True)  # noqa: S603, S607
    # What ldconfig remembers for its next run holds the times of this one.
    shutil.rmtree(root / "var/cache", ignore_errors=True)


def write_files(root: Path) -> None:
    """Write the accounts and the resolver's order, and make the one directory that may be written to."""
    for name, text in _FILES.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="ascii")
    state = root / STATE_DIRECTORY
    state.mkdir(parents=True)
    # An arbitrary user, as OpenShift gives one, has the group 0.
    os.chown(state, USER, 0)
    state.chmod(0o775)


def copy_certificates(root: Path) -> None:
    """Copy the bundle of certificates, and have OpenSSL find it where it looks."""
    copy_file(CERTIFICATES, root)
    expected = Path(ssl.get_default_verify_paths().openssl_cafile)
    if expected != CERTIFICATES:
        place = root / expected.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(CERTIFICATES)


def record_packages(root: Path, files: Sequence[Path]) -> None:
    """Write which packages the files came from, in the place where scanners look for it in such images."""
    directory = root / "var/lib/dpkg/status.d"
    directory.mkdir(parents=True)
    names = {str(name) for file in files for name in (file, file.resolve(), _before_the_merge(file))}
    for package in sorted(_packages(_dpkg_query("--search", *sorted(names)))):
        (directory / package).write_text(_dpkg_query("--status", package), encoding="utf-8")


def _before_the_merge(file: Path) -> Path:
    """Return the name by which a package may still know a file that is now under /usr."""
    resolved = file.resolve()
    return Path("/", resolved.relative_to("/usr")) if resolved.is_relative_to("/usr") else resolved


def _packages(found: str) -> set[str]:
    """Return the names in what ``dpkg-query --search`` prints: ``name:architecture, name: path``."""
    owners = [line.split(": /", 1)[0] for line in found.splitlines() if not line.startswith("diversion ")]
    return {name.split(":", 1)[0] for owner in owners for name in owner.split(", ")}


def _dpkg_query(*words: str) -> str:
    if shutil.which("dpkg-query") is None:
        return ""
    return subprocess.run(["dpkg-query", *words], capture_output=True, text=True, check=False).stdout  # noqa: S603, S607


if __name__ == "__main__":
    main(sys.argv[1:])
