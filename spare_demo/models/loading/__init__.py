"""Which models there are, and how each gets from disk or hub into memory."""
