"""The middleware is one file for any Python of vLLM."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from spec_decode_exporter.vllm_middleware import spec_decode_requests as inside

FILE = Path(inside.__file__)


def test_the_syntax_is_that_of_python_3_9():
    ast.parse(FILE.read_text(), feature_version=(3, 9))


def test_the_file_imports_only_the_standard_library():
    tree = ast.parse(FILE.read_text())
    imported = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    imported += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names
