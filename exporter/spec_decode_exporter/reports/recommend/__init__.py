"""Settings as the flags of servers: vLLM, SGLang, TensorRT-LLM."""
