"""DistributedDataParallel for torch modules: torch's arguments and meanings."""
