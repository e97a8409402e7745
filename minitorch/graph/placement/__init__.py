"""Nodes assigned to devices, the graph cut where an edge crosses, and the parts run on ranks."""
