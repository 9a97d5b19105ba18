"""The page: Gradio only. Layout, events and words; no tensor arithmetic."""

from spare_demo.ui.page import build, launch_options

__all__ = ["build", "launch_options"]
