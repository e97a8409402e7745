"""Input pipelines: queues that runs fill and empty, the threads that fill them, datasets."""
