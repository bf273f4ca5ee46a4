"""Tests of models that need numpy are collected where group bench is installed, as in CI."""

from importlib.util import find_spec

NEED_NUMPY = ("test_end_to_end.py", "test_verdict_truth.py", "truth/test_cells.py")
collect_ignore = [] if find_spec("numpy") else [*NEED_NUMPY]
