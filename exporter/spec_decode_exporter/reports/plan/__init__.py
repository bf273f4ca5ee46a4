"""Plan a deployment before it runs: GPU memory of the models, expected speed-up, number of draft tokens.

All modules compute, but for ``checkpoint`` and ``observed_models``, which read local files.
docs/guide/plan.md explains each figure.
"""
