"""Where a step's time goes, and how long backward works on each gradient."""
