"""What each person adds to a lab's numbers, kept up by whatever changes a grade."""
