"""A mixture of experts: each token goes to two of four, and a second loss keeps them all busy."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Expert(nn.Module):
    """SwiGLU."""

    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Router(nn.Module):
    def __init__(self, dim, n_experts, top_k):
        super().__init__()
        self.gate = nn.Linear(dim, n_experts, bias=False)
        self.n_experts, self.top_k = n_experts, top_k

    def forward(self, x):
        probs = F.softmax(self.gate(x), dim=-1)
        weights, chosen = torch.topk(probs, self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        share = F.one_hot(chosen, self.n_experts).float().sum(dim=1).mean(dim=0)
        balance = self.n_experts * (share * probs.mean(dim=0)).sum() / self.top_k
        return weights, chosen, balance


class ByIndex(nn.Module):
    """Each expert picks its tokens, and adds to their rows."""

    def __init__(self, dim=8, hidden=16, n_experts=4, top_k=2):
        super().__init__()
        self.router = Router(dim, n_experts, top_k)
        self.experts = nn.ModuleList([Expert(dim, hidden) for _ in range(n_experts)])

    def forward(self, x):
        flat = x.view(-1, x.shape[-1])
        weights, chosen, balance = self.router(flat)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == i)
            out.index_add_(0, token, expert(flat[token]) * weights[token, slot, None])
        return out.view_as(x), balance


class ByMask(ByIndex):
    """The same with a mask for each expert, written into the rows that it picks."""

    def forward(self, x):
        flat = x.view(-1, x.shape[-1])
        weights, chosen, balance = self.router(flat)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            mine = (chosen == i).any(dim=-1)
            weight = torch.where(chosen == i, weights, 0.0).sum(dim=-1)
            out[mine] += weight[mine].unsqueeze(-1) * expert(flat[mine])
        return out.view_as(x), balance


class ByCapacity(ByIndex):
    """The same as two products with a table token by expert by place; no expert overflows."""

    def forward(self, x):
        flat = x.view(-1, x.shape[-1])
        weights, chosen, balance = self.router(flat)
        hot = F.one_hot(chosen, len(self.experts))
        first = hot.flatten(0, 1)
        place = ((first.cumsum(dim=0) - 1) * first).view_as(hot).sum(dim=-1)
        capacity = int(hot.sum(dim=(0, 1)).max())
        table = hot.float().unsqueeze(-1) * F.one_hot(place, capacity).float().unsqueeze(2)
        combine = torch.einsum("tk,tkec->tec", weights, table)
        inputs = torch.einsum("tec,td->ecd", table.sum(dim=1), flat)
        outputs = torch.stack([expert(inputs[i]) for i, expert in enumerate(self.experts)])
        return torch.einsum("tec,ecd->td", combine, outputs).view_as(x), balance


class Model(nn.Module):
    def __init__(self, mixture, dim=8, classes=5):
        super().__init__()
        self.embed = nn.Embedding(11, dim)
        self.norm = nn.RMSNorm(dim)
        self.mixture = mixture
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        h = self.embed(x)
        mixed, balance = self.mixture(self.norm(h))
        return self.head(h + mixed), balance


def begin(kind):
    return Model({"index": ByIndex, "mask": ByMask, "capacity": ByCapacity}[kind]())


def batch(step):
    x = (torch.arange(48).view(6, 8) * (step + 3)) % 11
    return x, (x * x + torch.arange(8)) % 5


def train(model, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        x, y = batch(step)
        logits, balance = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten()) + 0.01 * balance
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    for kind in ("index", "mask", "capacity"):
        print(kind, train(begin(kind), 400)[::40])
