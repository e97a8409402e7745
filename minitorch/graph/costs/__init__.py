"""What operators cost here: measured, predicted."""
