"""From a term to the next: its plan, how dates move, what an import changes."""
