"""Six models that read a name letter by letter: bigram, MLP, CNN, RNN, GRU, transformer."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import Dataset
from torch.utils.data.dataloader import DataLoader

NAMES = """ada alan alonzo barbara bjarne brian claude dennis donald edsger emmy fran grace guido
haskell ida jean john joan kathleen ken leslie linus margaret marvin mary niklaus noam radia robin
shafi silvio stephen tim tony vint yukihiro"""


class CharDataset(Dataset):
    """Names as rows of letters: 0 begins and ends one, -1 is what the loss leaves out."""

    def __init__(self, words):
        self.words = words
        self.chars = sorted(set("".join(words)))
        self.max_word_length = max(len(word) for word in words)
        self.stoi = {ch: i + 1 for i, ch in enumerate(self.chars)}
        self.itos = {i: ch for ch, i in self.stoi.items()}

    def __len__(self):
        return len(self.words)

    def get_vocab_size(self):
        return len(self.chars) + 1

    def get_output_length(self):
        return self.max_word_length + 1

    def decode(self, row):
        return "".join(self.itos[i] for i in row)

    def __getitem__(self, idx):
        ix = torch.tensor([self.stoi[ch] for ch in self.words[idx]], dtype=torch.long)
        x = torch.zeros(self.max_word_length + 1, dtype=torch.long)
        y = torch.zeros(self.max_word_length + 1, dtype=torch.long)
        x[1 : 1 + len(ix)] = ix
        y[: len(ix)] = ix
        y[len(ix) + 1 :] = -1
        return x, y


@dataclass
class ModelConfig:
    block_size: int
    vocab_size: int
    n_layer: int = 2
    n_embd: int = 16
    n_embd2: int = 24
    n_head: int = 4


class CharModel(nn.Module):
    """What the six share: logits of the next letter at each place, and the loss."""

    def __init__(self, config):
        super().__init__()
        self.block_size = config.block_size
        self.vocab_size = config.vocab_size

    def get_block_size(self):
        return self.block_size

    def forward(self, idx, targets=None):
        logits = self.logits(idx)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
        return logits, loss


class Bigram(CharModel):
    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Parameter(torch.zeros((config.vocab_size, config.vocab_size)))

    def get_block_size(self):
        return 1

    def logits(self, idx):
        return self.table[idx]


class MLP(CharModel):
    """Every place sees the block_size letters before it, each shifted in from the left."""

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size + 1, config.n_embd)  # one more: before the name
        self.mlp = nn.Sequential(
            nn.Linear(self.block_size * config.n_embd, config.n_embd2),
            nn.Tanh(),
            nn.Linear(config.n_embd2, self.vocab_size),
        )

    def logits(self, idx):
        embs = []
        for _ in range(self.block_size):
            embs.append(self.wte(idx))
            idx = torch.roll(idx, 1, 1)
            idx[:, 0] = self.vocab_size
        return self.mlp(torch.cat(embs, -1))


class CausalConv(nn.Module):
    """A dilated convolution that looks back only."""

    def __init__(self, n, dilation):
        super().__init__()
        self.pad = dilation
        self.conv = nn.Conv1d(n, 2 * n, kernel_size=2, dilation=dilation, bias=False)
        self.norm = nn.BatchNorm1d(2 * n)

    def forward(self, x):
        y = self.norm(self.conv(F.pad(x, (self.pad, 0))))
        value, gate = y.chunk(2, dim=1)
        return x + torch.tanh(value) * torch.sigmoid(gate)


class CNN(CharModel):
    """A small WaveNet: gated convolutions whose reach doubles."""

    def __init__(self, config):
        super().__init__(config)
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.convs = nn.Sequential(*[CausalConv(config.n_embd, 2**i) for i in range(3)])
        self.head = nn.Conv1d(config.n_embd, config.vocab_size, kernel_size=1)

    def logits(self, idx):
        return self.head(self.convs(self.wte(idx).transpose(1, 2))).transpose(1, 2).contiguous()


class RNNCell(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.xh_to_h = nn.Linear(config.n_embd + config.n_embd2, config.n_embd2)

    def forward(self, xt, hprev):
        return F.tanh(self.xh_to_h(torch.cat([xt, hprev], dim=1)))


class GRUCell(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.xh_to_z = nn.Linear(config.n_embd + config.n_embd2, config.n_embd2)
        self.xh_to_r = nn.Linear(config.n_embd + config.n_embd2, config.n_embd2)
        self.xh_to_hbar = nn.Linear(config.n_embd + config.n_embd2, config.n_embd2)

    def forward(self, xt, hprev):
        xh = torch.cat([xt, hprev], dim=1)
        r = F.sigmoid(self.xh_to_r(xh))
        hbar = F.tanh(self.xh_to_hbar(torch.cat([xt, r * hprev], dim=1)))
        z = F.sigmoid(self.xh_to_z(xh))
        return (1 - z) * hprev + z * hbar


class RNN(CharModel):
    def __init__(self, config, cell_type=RNNCell):
        super().__init__(config)
        self.start = nn.Parameter(torch.zeros(1, config.n_embd2))
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.cell = cell_type(config)
        self.lm_head = nn.Linear(config.n_embd2, self.vocab_size)

    def logits(self, idx):
        b, t = idx.size()
        emb = self.wte(idx)
        hprev = self.start.expand((b, -1))
        hiddens = []
        for i in range(t):
            hprev = self.cell(emb[:, i, :], hprev)
            hiddens.append(hprev)
        return self.lm_head(torch.stack(hiddens, 1))


def GRU(config):
    return RNN(config, GRUCell)


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        size = config.block_size
        self.register_buffer("bias", torch.tril(torch.ones(size, size)).view(1, 1, size, size))
        self.n_head, self.n_embd = config.n_head, config.n_embd

    def forward(self, x):
        B, T, C = x.size()
        heads = [
            h.view(B, T, self.n_head, -1).transpose(1, 2)
            for h in self.c_attn(x).split(self.n_embd, dim=2)
        ]
        q, k, v = heads
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = F.softmax(att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf")), dim=-1)
        return self.c_proj((att @ v).transpose(1, 2).contiguous().view(B, T, C))


class NewGELU(nn.Module):
    def forward(self, x):
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = nn.ModuleDict(
            {
                "c_fc": nn.Linear(config.n_embd, 4 * config.n_embd),
                "c_proj": nn.Linear(4 * config.n_embd, config.n_embd),
                "act": NewGELU(),
            }
        )

    def forward(self, x):
        m = self.mlp
        x = x + self.attn(self.ln_1(x))
        return x + m.c_proj(m.act(m.c_fc(self.ln_2(x))))


class Transformer(CharModel):
    def __init__(self, config):
        super().__init__(config)
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab_size, config.n_embd),
                "wpe": nn.Embedding(config.block_size, config.n_embd),
                "h": nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                "ln_f": nn.LayerNorm(config.n_embd),
            }
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def logits(self, idx):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device).unsqueeze(0)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


MODELS = {m.__name__: m for m in (Bigram, MLP, CNN, RNN, GRU, Transformer)}


def begin(name):
    data = CharDataset(NAMES.split())
    return MODELS[name](ModelConfig(data.get_output_length(), data.get_vocab_size()))


def train(model, steps, lr=5e-4):
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=lr, weight_decay=0.01, betas=(0.9, 0.99), eps=1e-8
    )
    loader = DataLoader(CharDataset(NAMES.split()), batch_size=16, shuffle=False, num_workers=0)
    losses = []
    while len(losses) < steps:
        for X, Y in loader:
            _, loss = model(X, Y)
            model.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses[:steps]


@torch.inference_mode()
def evaluate(model):
    model.eval()
    loader = DataLoader(CharDataset(NAMES.split()), shuffle=False, batch_size=10)
    losses = [model(X, Y)[1].item() for X, Y in loader]
    model.train()
    return torch.tensor(losses).mean().item()


@torch.no_grad()
def generate(model, first, length):
    """The likeliest names that begin with the letters `first`."""
    model.eval()
    data = CharDataset(NAMES.split())
    idx = torch.zeros(len(first), 2, dtype=torch.long)
    idx[:, 1] = torch.tensor([data.stoi[ch] for ch in first])
    for _ in range(length):
        size = model.get_block_size()
        idx_cond = idx if idx.size(1) <= size else idx[:, -size:]
        logits, _ = model(idx_cond)
        _, idx_next = torch.topk(F.softmax(logits[:, -1, :], dim=-1), k=1, dim=-1)
        idx = torch.cat((idx, idx_next), dim=1)
    names = []
    for row in idx[:, 1:].tolist():
        names.append(data.decode(row[: row.index(0)] if 0 in row else row))
    return names


if __name__ == "__main__":
    for name in MODELS:
        model = begin(name)
        print(name, train(model, 600, 5e-3)[::100], evaluate(model), generate(model, "abjm", 8))
