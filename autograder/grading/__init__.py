"""A submission to a report: intake, slicing, checks, many at a time."""
