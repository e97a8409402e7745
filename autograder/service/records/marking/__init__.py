"""What staff do about grades: mark answers, grade a lab again, answer requests."""
