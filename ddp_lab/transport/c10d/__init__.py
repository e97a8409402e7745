"""Messages over a torch.distributed process group, and tensors of a device over one."""
