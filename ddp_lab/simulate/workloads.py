"""Models as data parallelism sees them: for each layer the bytes of its gradient and its work.

Layers stand in the order in which backward finishes them, the last one first. Convolutions are
written out from the papers' tables for pictures of 224 by 224; batch normalisation and biases,
which have less than 1 % of the parameters, are left out. Backward is shared among the layers in
proportion to their multiplications.

May import: the standard library.
Sources: He et al., Deep Residual Learning, CVPR 2016, table 1; Simonyan & Zisserman, Very Deep
Convolutional Networks, ICLR 2015, table 1 D; Devlin et al., BERT, NAACL 2019, section 3; Szegedy et
al., Rethinking the Inception Architecture, CVPR 2016.
"""

from collections.abc import Iterable
from dataclasses import dataclass

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Layer:
    """One layer: numbers in its gradient, and multiplications for one example, of forward."""

    params: float
    work: float


@dataclass(frozen=True)
class Workload:
    """A model; `layers` in order of readiness."""

    name: str
    layers: tuple[Layer, ...]

    @property
    def n_bytes(self) -> list[float]:
        """Bytes of each layer's gradient, as float32."""
        return [FLOAT_BYTES * layer.params for layer in self.layers]

    def shares(self) -> list[float]:
        """Return each layer's share of the work."""
        total = sum(layer.work for layer in self.layers)
        return [layer.work / total for layer in self.layers]


def resnet(name: str, blocks: Iterable[int]) -> Workload:
    """Return a residual network of bottleneck blocks, so many in each of its four stages."""
    layers = [_conv(3, 64, 7, 112)]
    channels = 64
    for stage, count in enumerate(blocks):
        width, side = 64 << stage, 56 >> stage
        for block in range(count):
            layers += [_conv(channels, width, 1, side), _conv(width, width, 3, side)]
            layers.append(_conv(width, 4 * width, 1, side))
            if block == 0:
                layers.append(_conv(channels, 4 * width, 1, side))
            channels = 4 * width
    return _backward(name, [*layers, _dense(channels, 1000)])


def vgg16() -> Workload:
    """Return VGG-16: nine tenths of its parameters lie in three dense layers at the end."""
    layers, channels, side = [], 3, 224
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers.append(_conv(channels, width, 3, side))
            channels = width
        side //= 2
    dense = [_dense(512 * 7 * 7, 4096), _dense(4096, 4096), _dense(4096, 1000)]
    return _backward("VGG-16", [*layers, *dense])


def bert_large() -> Workload:
    """Return BERT-Large: 24 blocks of width 1,024, and the embedding, which is ready last."""
    block = [Layer(1024 * 1024, 1.0)] * 4 + [Layer(4 * 1024 * 1024, 4.0)] * 2
    embedding = Layer((30_522 + 512 + 2) * 1024, 0.0)
    return _backward("BERT-Large", [embedding, *(block * 24), Layer(1024 * 1024, 1.0)])


def inception_v3() -> Workload:
    """Return Inception V3 as 94 equal layers: 23.8 million parameters, evenly spread.

    Its layers are in truth larger towards the end, so that more could be hidden than here.
    """
    return Workload("Inception V3", (Layer(23.8e6 / 94, 1.0),) * 94)


def _conv(inputs: int, outputs: int, kernel: int, side: int) -> Layer:
    params = inputs * outputs * kernel * kernel
    return Layer(params, params * side * side)


def _dense(inputs: int, outputs: int) -> Layer:
    return Layer(inputs * outputs, inputs * outputs)


def _backward(name: str, forward: list[Layer]) -> Workload:
    return Workload(name, tuple(reversed(forward)))


RESNET_50 = resnet("ResNet-50", (3, 4, 6, 3))
RESNET_101 = resnet("ResNet-101", (3, 4, 23, 3))
VGG_16 = vgg16()
BERT_LARGE = bert_large()
INCEPTION_V3 = inception_v3()
