"""Labs of other graders, and labs for other places."""
