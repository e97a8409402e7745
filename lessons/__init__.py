"""What the labs' notebooks take that needs no reading: clocks, figures, small systems to work on.

Labs import from the modules by name. Nothing in them answers a question of a lab: where a piece
needs what learners write, it takes that as an argument. May import minitorch and ddp_lab; neither
imports this, and autograder knows no more of it than that it goes into the sandbox.
"""
