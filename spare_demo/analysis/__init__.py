"""What a result means: why a token was kept, how an answer shifts, what it costs."""
