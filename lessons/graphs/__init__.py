"""What labs on graphs take: nodes, programs, tokens, and pictures of them."""
