"""What operators cost here: predicted, measured, explained."""
