"""Those who mark: what is assigned to whom, comments that they share, second marks."""
