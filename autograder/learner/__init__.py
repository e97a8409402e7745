"""In the notebook: check, hint, panel, progress, submit, reset."""
