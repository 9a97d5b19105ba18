"""The drawn world: scenes, questions with exact answers, and the training of the built-in model."""
