"""Plan a deployment before it runs: GPU memory of the models, expected speed-up, number of draft tokens.

docs/guide/plan.md explains each figure.
"""
