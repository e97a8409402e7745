"""Small systems that labs work on, and their pictures: what a notebook uses and does not teach.

Labs import from the modules by name. Nothing in them answers a question of a lab: where a piece
needs what learners write, it takes that as an argument.
"""
