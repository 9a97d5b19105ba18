"""How a model answers: prompt, prefill, decoding, alone or several together."""
