"""A character GPT: tied weights, AdamW in groups, clipping, warm-up and a cosine, checkpoints."""

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F

TEXT = """The keeper of the lamp went up the stair, and up the stair again,
and counted every step aloud to hear his voice above the rain.
The ships went by, the ships went on, and no one saw the keeper's hand,
but every ship that saw the lamp came round the rocks and safe to land.
"""
LETTERS = sorted(set(TEXT))
CODE = {letter: i for i, letter in enumerate(LETTERS)}


def encode(text):
    return torch.tensor([CODE[letter] for letter in text], dtype=torch.long)


def decode(tokens):
    return "".join(LETTERS[i] for i in tokens.tolist())


@dataclass
class Config:
    block_size: int = 24
    vocab_size: int = len(LETTERS)
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 32
    dropout: float = 0.0
    bias: bool = False


class LayerNorm(nn.Module):
    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class CausalSelfAttention(nn.Module):
    def __init__(self, config, fused):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_dropout = nn.Dropout(config.dropout)
        self.n_head, self.n_embd, self.fused = config.n_head, config.n_embd, fused
        size = config.block_size
        mask = torch.tril(torch.ones(size, size)).view(1, 1, size, size)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
            y = self.attn_dropout(F.softmax(att, dim=-1)) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, config, fused):
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, bias=config.bias)
        self.attn = CausalSelfAttention(config, fused)
        self.ln_2 = LayerNorm(config.n_embd, bias=config.bias)
        self.mlp = MLP(config)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab_size, config.n_embd),
                "wpe": nn.Embedding(config.block_size, config.n_embd),
                "drop": nn.Dropout(config.dropout),
                "h": nn.ModuleList(
                    [Block(config, fused=i % 2 == 0) for i in range(config.n_layer)]
                ),
                "ln_f": LayerNorm(config.n_embd, bias=config.bias),
            }
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def get_num_params(self):
        return sum(p.numel() for p in self.parameters()) - self.transformer.wpe.weight.numel()

    def forward(self, idx, targets=None):
        _, t = idx.size()
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss

    def configure_optimizers(self, weight_decay, learning_rate, betas):
        params = {name: p for name, p in self.named_parameters() if p.requires_grad}
        groups = [
            {"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=betas)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        for _ in range(max_new_tokens):
            size = self.config.block_size
            idx_cond = idx if idx.size(1) <= size else idx[:, -size:]
            logits, _ = self(idx_cond)
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
            probs = F.softmax(logits, dim=-1)
            idx = torch.cat((idx, torch.argmax(probs, dim=-1, keepdim=True)), dim=1)
        return idx


def learning_rate(it, warmup=20, decay=80, highest=1e-2, lowest=1e-3):
    if it < warmup:
        return highest * (it + 1) / (warmup + 1)
    if it > decay:
        return lowest
    ratio = (it - warmup) / (decay - warmup)
    return lowest + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (highest - lowest)


def batch(it, config, size=4):
    data = encode(TEXT)
    starts = [(37 * (size * it + i)) % (len(data) - config.block_size) for i in range(size)]
    x = torch.stack([data[i : i + config.block_size] for i in starts])
    y = torch.stack([data[i + 1 : i + 1 + config.block_size] for i in starts])
    y[:, 0] = -1  # the first place has seen nothing
    return x, y


def begin():
    model = GPT(Config())
    return model, model.configure_optimizers(0.1, 3e-3, (0.9, 0.95))


def train(model, optimizer, first, last):
    model.train()
    losses = []
    for it in range(first, last):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(it)
        x, y = batch(it, model.config)
        _, loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


def save(path, model, optimizer, it):
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "model_args": asdict(model.config),
        "iter_num": it,
    }
    torch.save(checkpoint, path)


def resume(path):
    checkpoint = torch.load(path, map_location="cpu")
    model = GPT(Config(**checkpoint["model_args"]))
    model.load_state_dict(checkpoint["model"])
    optimizer = model.configure_optimizers(0.1, 3e-3, (0.9, 0.95))
    optimizer.load_state_dict(checkpoint["optimizer"])
    return model, optimizer, checkpoint["iter_num"]


def greedy(model, prompt, length, **how):
    model.eval()
    return decode(model.generate(encode(prompt)[None, ...], length, **how)[0])


if __name__ == "__main__":
    model, optimizer = begin()
    print(model.get_num_params(), train(model, optimizer, 0, 200)[::20])
    print(greedy(model, "The ", 200))
