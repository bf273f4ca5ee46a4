"""Model of a GPU server with speculative decoding, and its traffic: the truth that verdicts are compared with.

Independent of the exporter's own table of costs: nothing in here is read from it, and nothing is fitted to it.
"""
