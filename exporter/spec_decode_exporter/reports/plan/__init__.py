"""Which draft, and how much memory: what a pair of models takes of some GPUs, before anything runs.

Pure arithmetic but for ``checkpoint``, which reads local files. docs/plan.md says what each figure rests on.
"""
