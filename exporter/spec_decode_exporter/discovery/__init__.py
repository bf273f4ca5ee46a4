"""Who to watch: one file for each way to find vLLM servers."""
