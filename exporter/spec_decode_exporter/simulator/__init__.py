"""A stand-in vLLM for demos, fire drills and tests."""
