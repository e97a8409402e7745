"""Ways to carry arrays between ranks, behind one seam."""
