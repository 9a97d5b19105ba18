"""One question to one answer set: the request, the run and its result."""
