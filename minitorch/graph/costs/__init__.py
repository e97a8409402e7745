"""What operators cost here: measured, and predicted."""
