"""A recurrent language model of words: LSTM, GRU or RNN, tied weights, truncated gradients."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = """a cat sat on a mat . a dog sat on a log . the cat saw the dog and the dog saw the cat .
the mat lay by the log and the log lay by the mat . the dog ran and the cat ran . on the mat a cat
lay and on the log a dog lay . and a cat and a dog sat by the log and saw the mat . """


class Corpus:
    def __init__(self, text):
        words = text.split()
        self.idx2word = sorted(set(words))
        self.word2idx = {word: i for i, word in enumerate(self.idx2word)}
        self.ids = torch.tensor([self.word2idx[word] for word in words]).type(torch.int64)

    def __len__(self):
        return len(self.idx2word)


class RNNModel(nn.Module):
    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, dropout=0.0, tie_weights=False):
        super().__init__()
        self.ntoken = ntoken
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        if rnn_type in ["LSTM", "GRU"]:
            self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout)
        else:
            nonlinearity = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[rnn_type]
            self.rnn = nn.RNN(ninp, nhid, nlayers, nonlinearity=nonlinearity, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            if nhid != ninp:
                raise ValueError("tied weights need nhid equal to ninp")
            self.decoder.weight = self.encoder.weight
        self.rnn_type, self.nhid, self.nlayers = rnn_type, nhid, nlayers
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        if self.rnn_type == "LSTM":
            return (
                weight.new_zeros(self.nlayers, bsz, self.nhid),
                weight.new_zeros(self.nlayers, bsz, self.nhid),
            )
        return weight.new_zeros(self.nlayers, bsz, self.nhid)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def repackage_hidden(h):
    """The same numbers without their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


def begin(rnn_type):
    corpus = Corpus(TEXT)
    return RNNModel(rnn_type, len(corpus), 16, 16, 2, tie_weights=True)


def train(model, steps, lr=0.5, bptt=6, bsz=4):
    source = batchify(Corpus(TEXT).ids, bsz)
    criterion = nn.NLLLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.5, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps, eta_min=0.05)
    losses = []
    model.train()
    while len(losses) < steps:
        hidden = model.init_hidden(bsz)
        for i in range(0, source.size(0) - 1, bptt):
            data, targets = get_batch(source, i, bptt)
            model.zero_grad()
            hidden = repackage_hidden(hidden)
            output, hidden = model(data, hidden)
            loss = criterion(output, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
    return losses[:steps]


def perplexity(model):
    model.eval()
    source = batchify(Corpus(TEXT).ids, 1)
    hidden = model.init_hidden(1)
    with torch.no_grad():
        output, _ = model(source[:-1], hidden)
        return math.exp(F.nll_loss(output, source[1:].view(-1)))


def generate(model, word, length):
    model.eval()
    corpus = Corpus(TEXT)
    hidden = model.init_hidden(1)
    input = torch.full((1, 1), corpus.word2idx[word], dtype=torch.long)
    words = [word]
    with torch.no_grad():
        for _ in range(length):
            output, hidden = model(input, hidden)
            word_idx = torch.argmax(output[-1].squeeze().div(0.8).exp().cpu())
            input.fill_(word_idx)
            words.append(corpus.idx2word[word_idx])
    return " ".join(words)


if __name__ == "__main__":
    for kind in ("LSTM", "GRU", "RNN_TANH", "RNN_RELU"):
        model = begin(kind)
        train(model, 600, lr=5.0)
        print(kind, perplexity(model), generate(model, "the", 12))
