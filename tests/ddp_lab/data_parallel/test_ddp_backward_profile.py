"""How long backward works on each gradient."""

import torch
from torch import nn

from ddp_lab.data_parallel.measurement.backward_profile import profile_backward


def test_the_profile_has_every_gradient_in_order_of_readiness() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    profile = profile_backward(module, lambda m: m(torch.ones(3, 4)).sum(), iterations=3)
    assert {name[0] for name in profile.names[:2]} == {"1"}  # the last layer first
    assert sorted(profile.names) == ["0.bias", "0.weight", "1.bias", "1.weight"]
    assert sum(profile.n_bytes) == 4 * (4 * 8 + 8 + 8 * 2 + 2)
    assert profile.forward > 0 and all(seconds >= 0 for seconds in profile.backward)
    assert not any(p._post_accumulate_grad_hooks for p in module.parameters())
