"""Benchmarks: ``python -m benchmarks`` runs all, ``python -m benchmarks.NAME`` one.

docs/maintainers/benchmarks.md lists them with their results.
"""
