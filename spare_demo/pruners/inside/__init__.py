"""Methods inside the language model, one file each; their contract is `base.py`."""
