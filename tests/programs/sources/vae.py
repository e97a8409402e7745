"""A variational autoencoder of small pictures of bars."""

import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F

SIZE = 8


def pictures():
    """All pictures of one row and one column that are bright, once as they are and once dimmed."""
    drawn = torch.zeros(SIZE * SIZE, SIZE, SIZE)
    for i in range(SIZE):
        drawn[i * SIZE : (i + 1) * SIZE, i, :] = 1.0
        drawn[i::SIZE, :, i] = 1.0
    return torch.cat([drawn, drawn * 0.8 + 0.1]).unsqueeze(1)


class VAE(nn.Module):
    def __init__(self, hidden=32, latent=4):
        super().__init__()
        self.fc1 = nn.Linear(SIZE * SIZE, hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, SIZE * SIZE)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, noise):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std) if noise is None else noise
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x, noise=None):
        mu, logvar = self.encode(x.view(-1, SIZE * SIZE))
        return self.decode(self.reparameterize(mu, logvar, noise)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, SIZE * SIZE), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def train(model, steps, noises=None):
    """Train; `noises` gives each step's draw, which PyTorch makes from a stream of its own."""
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    dataset = torch.utils.data.TensorDataset(pictures())
    loader = torch.utils.data.DataLoader(dataset, batch_size=32, shuffle=False)
    losses = []
    model.train()
    while len(losses) < steps:
        for (data,) in loader:
            noise = None if noises is None else torch.from_numpy(noises[len(losses) % len(noises)])
            optimizer.zero_grad()
            recon_batch, mu, logvar = model(data, noise)
            loss = loss_function(recon_batch, data, mu, logvar)
            loss.backward()
            optimizer.step()
            losses.append(loss.item() / len(data))
    return losses[:steps]


def reconstructed(model):
    model.eval()
    with torch.no_grad():
        mu, _ = model.encode(pictures().flatten(1))
        return model.decode(mu)


if __name__ == "__main__":
    model = VAE()
    print(train(model, 2000)[::200])
    print((reconstructed(model)[3].view(SIZE, SIZE) > 0.5).int())
