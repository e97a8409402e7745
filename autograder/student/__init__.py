"""What a check sees of the learner: the protocol, and the student of the notebook."""
