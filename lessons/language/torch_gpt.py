"""The GPT of lab 18 in PyTorch, function by function, on the weights that it is given."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def torch_loss_and_gradients(
    weights: Mapping[str, NDArray[Any]], x: NDArray[Any], y: NDArray[Any], heads: int
) -> tuple[float, dict[str, NDArray[Any]]]:
    """Return the loss of a batch and the gradient of each weight, as PyTorch computes them.

    Args:
        weights: by the names that the notebook's model gives them.
    """
    import torch
    import torch.nn.functional as F

    w = {name: torch.tensor(array, requires_grad=True) for name, array in weights.items()}

    def linear(name: str, h: Any) -> Any:
        return F.linear(h, w[f"{name}.weight"], w[f"{name}.bias"])

    def norm(name: str, h: Any) -> Any:
        return F.layer_norm(h, h.shape[-1:], w[f"{name}.gain"], w[f"{name}.bias"])

    def attention(name: str, h: Any) -> Any:
        rows, tokens, width = h.shape
        qkv = linear(f"{name}.qkv", h).reshape(rows, tokens, 3, heads, width // heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return linear(f"{name}.out", mixed.transpose(1, 2).reshape(rows, tokens, width))

    h = w["tokens"][torch.tensor(x)] + w["places"][: x.shape[1]]
    layers = 1 + max(int(name.split(".")[1]) for name in w if name.startswith("blocks."))
    for block in (f"blocks.{at}" for at in range(layers)):
        h = h + attention(f"{block}.attention", norm(f"{block}.before", h))
        up = linear(f"{block}.up", norm(f"{block}.between", h))
        h = h + linear(f"{block}.down", F.relu(up))
    logits = linear("head", norm("norm", h))
    loss = F.cross_entropy(logits.flatten(0, 1), torch.tensor(y).flatten())
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), {name: np.array(p.grad) for name, p in w.items()}
