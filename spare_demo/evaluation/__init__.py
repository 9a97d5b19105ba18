"""Methods × budgets × questions: measuring, its results on disk, and what is made of them."""
