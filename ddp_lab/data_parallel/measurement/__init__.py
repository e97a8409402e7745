"""Where a step's time goes, what a link costs, and which size of buckets is best."""
