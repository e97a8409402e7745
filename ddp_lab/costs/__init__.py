"""What collectives cost: closed forms, and their constants fitted to this machine."""
