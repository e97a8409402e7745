"""All dates of a term; from a term to the next: its plan, how dates move, what imports change."""
