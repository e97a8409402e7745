"""Parameter servers: some ranks keep the parameters, the others pull them and push gradients."""
