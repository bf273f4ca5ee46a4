"""What runs inside vLLM, in its Python: neither it nor the exporter imports anything of the other."""
