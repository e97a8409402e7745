"""Which buffer lives when and where: the memory plan."""
