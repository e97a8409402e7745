"""What labs on ranks take: clocks, slow wires, steps taken apart, and pictures of them."""
