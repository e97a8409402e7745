"""`Tensor`: its state, what changes it in place or converts it, and what backward asks of it."""
