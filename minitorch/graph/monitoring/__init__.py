"""Training that looks after itself: sessions with hooks, checkpoints, an orderly end."""
