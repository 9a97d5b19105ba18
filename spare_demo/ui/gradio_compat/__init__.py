"""Every touch of Gradio's inside, each with its reason. Nothing else on the page needs one.

When Gradio is updated, these files are what to read and to try. An issue of Gradio's is named where
one was found.
"""
