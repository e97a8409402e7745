"""Do the checks of a lab catch wrong answers? Mutants and trivial answers."""
