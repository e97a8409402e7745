"""Communication hooks: what to send in place of the plain all-reduce of a bucket."""
