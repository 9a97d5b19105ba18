"""The recipe of the built-in model's weights; `python -m spare_demo.scenes.train` runs it."""
