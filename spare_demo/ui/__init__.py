"""The page: Gradio only. Layout, events and words; no tensor arithmetic."""

from spare_demo.ui.gradio_compat.importing import without_type_files

with without_type_files():
    from spare_demo.ui.page import build, launch_options
    from spare_demo.ui.serve import serve

__all__ = ["build", "launch_options", "serve"]
