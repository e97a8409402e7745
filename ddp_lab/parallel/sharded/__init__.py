"""ZeRO: the optimizer's state, gradients and parameters, a share on each rank."""
