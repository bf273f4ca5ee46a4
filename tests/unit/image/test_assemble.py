import _ctypes
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
