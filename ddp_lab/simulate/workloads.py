"""Models as a list of layers, for `training`: flops, bytes of parameters and of activations.

Convolutions are written out from the papers' tables for pictures of 224 by 224 (299 for Inception);
batch normalisation and biases, which have less than 1 % of the parameters, are left out. A
multiplication with its addition is two flops. Numbers are float32 unless said.

May import: layers.
Sources: He et al., Deep Residual Learning, CVPR 2016, table 1; Simonyan & Zisserman, Very Deep
Convolutional Networks, ICLR 2015, table 1; Devlin et al.,
BERT, NAACL 2019, section 3; Szegedy et al., Rethinking the Inception Architecture, CVPR 2016;
Brown et al., GPT-3, NeurIPS 2020, table 2.1; Narayanan et al., SC 2021, section 5.1 for the flops
of a transformer.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from ddp_lab.simulate.layers import LayerCost

FLOAT_BYTES = 4
Workload: TypeAlias = tuple[LayerCost, ...]


def resnet(blocks: Iterable[int]) -> Workload:
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
    return (*layers, _dense(channels, 1000))


def vgg(counts: Sequence[int], classes: int = 1000) -> Workload:
    """Return a VGG net, so many convolutions in each of its five stages.

    With 16 layers and 1,000 classes nine tenths of its parameters lie in three dense layers.
    """
    layers, channels, side = [], 3, 224
    for width, count in zip((64, 128, 256, 512, 512), counts, strict=True):
        for _ in range(count):
            layers.append(_conv(channels, width, 3, side))
            channels = width
        side //= 2
    return (*layers, _dense(512 * 7 * 7, 4096), _dense(4096, 4096), _dense(4096, classes))


def inception_v3() -> Workload:
    """Return Inception V3 as 94 equal layers: 23.8 million parameters, 5.7 billion products.

    Its layers are in truth larger towards the end, so that more could be hidden than here.
    """
    return (LayerCost(2 * 5.7e9 / 94, FLOAT_BYTES * 23.8e6 / 94, FLOAT_BYTES * 2e5),) * 94


def transformer(
    layers: int,
    width: int,
    tokens: int,
    vocabulary: int,
    number_bytes: int = FLOAT_BYTES,
    recompute: bool = False,
) -> Workload:
    """Return the embedding, then for each layer its attention and its two-layer net, then the head.

    Args:
        layers: pairs of attention (4 matrices of width by width) and net (8 of them).
        width: of the hidden state.
        tokens: length of a sample.
        vocabulary: rows of the embedding; the head uses it again.
        number_bytes: of a parameter or activation.
        recompute: forward is done again before backward, so that only outputs are kept.
    """
    again = 4 / 3 if recompute else 1.0
    square = width * width
    output = number_bytes * tokens * width
    attention = 2 * tokens * 4 * square + 4 * tokens * tokens * width
    net = 2 * tokens * 8 * square
    pair = [
        LayerCost(again * attention, number_bytes * 4 * square, output),
        LayerCost(again * net, number_bytes * 8 * square, output),
    ]
    embedding = LayerCost(0.0, number_bytes * (vocabulary + tokens) * width, output)
    head = LayerCost(2 * tokens * vocabulary * width, 0.0, output)
    return (embedding, *(pair * layers), head)


def _conv(inputs: int, outputs: int, kernel: int, side: int) -> LayerCost:
    params = inputs * outputs * kernel * kernel
    area = side * side
    return LayerCost(2 * params * area, FLOAT_BYTES * params, FLOAT_BYTES * outputs * area)


def _dense(inputs: int, outputs: int) -> LayerCost:
    params = inputs * outputs
    return LayerCost(2 * params, FLOAT_BYTES * params, FLOAT_BYTES * outputs)


RESNET_50 = resnet((3, 4, 6, 3))
RESNET_101 = resnet((3, 4, 23, 3))
VGG_16 = vgg((2, 2, 3, 3, 3))
VGG_19_22K = vgg((2, 2, 4, 4, 4), classes=21_841)
INCEPTION_V3 = inception_v3()
BERT_LARGE = transformer(24, 1024, 512, 30_522)
GPT3 = transformer(96, 12_288, 2048, 51_200, number_bytes=2, recompute=True)
