"""The middleware is one file for any Python of vLLM."""

from __future__ import annotations

import ast
import subprocess
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


def test_a_python_without_packages_loads_the_file():
    code = "import importlib; print(importlib.import_module('spec_decode_requests').Middleware)"
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path.insert(0, {str(FILE.parent)!r}); {code}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "<class 'spec_decode_requests.Middleware'>\n"
