"""Modules: layers, losses, containers, and how their parameters start."""

from minitorch.exports import public_names
from minitorch.nn import functional as functional
from minitorch.nn import init as init
from minitorch.nn import utils as utils
from minitorch.nn.attention import MultiheadAttention as MultiheadAttention
from minitorch.nn.containers import ModuleDict as ModuleDict
from minitorch.nn.containers import ModuleList as ModuleList
from minitorch.nn.containers import ParameterDict as ParameterDict
from minitorch.nn.containers import ParameterList as ParameterList
from minitorch.nn.containers import Sequential as Sequential
from minitorch.nn.conv import Conv1d as Conv1d
from minitorch.nn.conv import Conv2d as Conv2d
from minitorch.nn.conv import ConvTranspose2d as ConvTranspose2d
from minitorch.nn.function_modules import *  # noqa: F403  (its __all__)
from minitorch.nn.linear import Embedding as Embedding
from minitorch.nn.linear import Identity as Identity
from minitorch.nn.linear import Linear as Linear
from minitorch.nn.module import Module as Module
from minitorch.nn.normalization import BatchNorm1d as BatchNorm1d
from minitorch.nn.normalization import BatchNorm2d as BatchNorm2d
from minitorch.nn.normalization import GroupNorm as GroupNorm
from minitorch.nn.normalization import InstanceNorm1d as InstanceNorm1d
from minitorch.nn.normalization import InstanceNorm2d as InstanceNorm2d
from minitorch.nn.normalization import LayerNorm as LayerNorm
from minitorch.nn.normalization import RMSNorm as RMSNorm
from minitorch.nn.parameter import Parameter as Parameter
from minitorch.nn.recurrent import GRU as GRU
from minitorch.nn.recurrent import LSTM as LSTM
from minitorch.nn.recurrent import RNN as RNN
from minitorch.nn.recurrent import GRUCell as GRUCell
from minitorch.nn.recurrent import LSTMCell as LSTMCell
from minitorch.nn.recurrent import RNNCell as RNNCell
from minitorch.nn.transformer import Transformer as Transformer
from minitorch.nn.transformer import TransformerDecoder as TransformerDecoder
from minitorch.nn.transformer import TransformerDecoderLayer as TransformerDecoderLayer
from minitorch.nn.transformer import TransformerEncoder as TransformerEncoder
from minitorch.nn.transformer import TransformerEncoderLayer as TransformerEncoderLayer

__all__ = public_names(globals(), ["functional", "init", "utils"])
