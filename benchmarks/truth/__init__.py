"""Model of a GPU server with speculative decoding, and of its traffic: the truth for the verdicts.

It is independent of the exporter's own table of costs: it reads nothing from it, and is not fitted to it.
"""
