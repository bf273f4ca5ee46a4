"""A Prometheus exporter that says what vLLM's speculative-decoding counters mean now."""

__version__ = "0.1.0"
