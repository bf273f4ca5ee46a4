"""Settings of speculation as text, as the flag of vLLM, and as JSON."""
