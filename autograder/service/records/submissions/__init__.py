"""What was handed in, what could not be, and who grades it now."""
