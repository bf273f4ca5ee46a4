"""Discovery of vLLM servers: one module for each kind."""
