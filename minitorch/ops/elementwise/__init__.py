"""Each element alone: rows of arithmetic with their derivatives, and what is made of them."""
