"""Discovery of vLLM servers: configured ones, lists, DNS names and pods."""
