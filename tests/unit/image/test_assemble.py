from __future__ import annotations

import _ctypes
import os
import sys
from pathlib import Path

import pytest

from image import assemble

EXTENSION = Path(_ctypes.__file__)


@pytest.fixture
def tree(tmp_path):
    """A tree with a link to an extension module's file beside the file itself, and something that is no program."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "notes.so").write_text("no program")
    (tmp_path / "tree" / "module.so").write_bytes(EXTENSION.read_bytes())
    (tmp_path / "tree" / "link.so").symlink_to("module.so")
    return tmp_path / "tree"


def test_libraries_of_an_extension_are_found(tree):
    names = {path.name for path in assemble.needed_libraries([tree])}
    assert "libc.so.6" in names
    assert any(name.startswith("libffi.so") for name in names)


def test_the_library_that_ends_threads_is_copied_though_no_file_names_it(tree):
    assert "libgcc_s.so.1" in {path.name for path in assemble.needed_libraries([tree])}


def test_libraries_inside_a_tree_are_not_copied_again(tree, monkeypatch):
    monkeypatch.setattr(assemble, "loaded_by", lambda file: iter([tree / "own.so", Path("/lib/other.so")]))
    assert list(assemble.needed_libraries([tree])) == [Path("/lib/other.so")]


def test_a_missing_library_stops_the_build(tmp_path):
    copy = tmp_path / "module.so"
    copy.write_bytes(EXTENSION.read_bytes().replace(b"libffi.so.", b"absent.so."))
    with pytest.raises(FileNotFoundError, match="absent"):
        list(assemble.loaded_by(copy))


def test_directories_are_links_where_they_are_here(tmp_path):
    assemble.link_directories(tmp_path)
    for name in ("bin", "lib", "lib64"):
        assert (tmp_path / name).is_symlink() == Path("/", name).is_symlink()
    assert (tmp_path / "lib").resolve().is_relative_to(tmp_path)


def test_the_interpreter_is_copied_without_developer_files(tmp_path):
    assemble.copy_interpreter(tmp_path)
    prefix = tmp_path / Path(sys.base_prefix).relative_to("/")
    assert (prefix / "bin" / "python3").resolve().is_file()
    files = {path.name for path in prefix.rglob("*")}
    assert files >= {"asyncio", "ssl.py", "encodings"}
    assert not files & {"idlelib", "ensurepip", "site-packages", "sqlite3", "__pycache__", "test"}


def test_a_file_that_is_linked_to_is_copied_under_the_name_of_the_link(tmp_path):
    (tmp_path / "library.so.1.2").write_text("code")
    (tmp_path / "library.so.1").symlink_to("library.so.1.2")
    assemble.copy_file(tmp_path / "library.so.1", tmp_path / "root")
    copied = tmp_path / "root" / (tmp_path / "library.so.1").relative_to("/")
    assert not copied.is_symlink()
    assert copied.read_text() == "code"


def test_accounts_and_the_state_directory_are_by_number(tmp_path, monkeypatch):
    owners = {}
    monkeypatch.setattr(os, "chown", lambda path, user, group: owners.update({path: (user, group)}))
    assemble.write_files(tmp_path)
    state = tmp_path / assemble.STATE_DIRECTORY
    assert owners == {state: (65532, 0)}
    assert state.stat().st_mode & 0o777 == 0o775
    assert ":65532:65532:" in (tmp_path / "etc/passwd").read_text()


def test_packages_are_read_from_what_dpkg_finds():
    found = "libssl3:amd64: /usr/lib/libssl.so.3\nca-certificates, openssl: /etc/ssl\n"
    diverted = "diversion by libc6 from: /lib64/ld.so\ndiversion by libc6 to: /lib64/ld.so.usr-is-merged\n"
    assert assemble._packages(found + diverted) == {"libssl3", "ca-certificates", "openssl"}


def test_a_packages_status_is_recorded_under_its_name(tmp_path, monkeypatch):
    def query(option, *words):
        if option == "--search":
            return "".join(f"libc6:amd64: {word}\n" for word in words if word == "/lib/libc.so.6")
        return f"Package: {words[0]}\n"

    monkeypatch.setattr(assemble, "_dpkg_query", query)
    assemble.record_packages(tmp_path, [Path("/usr/lib/libc.so.6")])
    (recorded,) = (tmp_path / "var/lib/dpkg/status.d").iterdir()
    assert recorded.name == "libc6"
    assert recorded.read_text() == "Package: libc6\n"
