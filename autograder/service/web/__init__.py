"""The course over HTTP."""
