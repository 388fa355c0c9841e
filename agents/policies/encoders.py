"""Convolutions for one picture among the features of an observation.

- `nature`: 32 kernels of 8x8 with stride 4, 64 of 4x4 with stride 2, 64 of 3x3 (Mnih et al. 2015,
  doi:10.1038/nature14236). Pictures of at least 36 x 36.
- `impala`: stages of 16, 32 and 32 channels, each a 3x3 convolution, a 3x3 max pooling with stride 2, and two residual
  blocks of two 3x3 convolutions (Espeholt et al. 2018, arXiv:1802.01561, figure 3). Always ReLU.
- `small`: 32, 64 and 64 kernels of 3x3, padded, for boards and views; the second has stride 2 in pictures longer than
  10, the third in pictures longer than 20.
- `none`: the picture is numbers like the others, without convolutions: for small boards a fraction of the work.

`auto` is nature where it fits, else small. `by_size`, which the run files of imported games have, is none below
16 x 16, else as auto.

Their output is flattened and joined by the other features; the layers behind are those of `ActorCritic`. So the first
of those is the linear layer that the papers put behind the convolutions, `hidden` wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparring.agents.policies.actor_critic import ACTIVATIONS

BY_SIZE, AUTO, SMALL, NATURE, IMPALA, FLAT = "by_size", "auto", "small", "nature", "impala", "none"
SMALL_SIDE = 16
"""Shortest side of a picture from which `by_size` takes convolutions. On a CPU those of an 8 x 8 board cost eighteen
times as much, and the same time without them plays better (docs/results/imported_games.md)."""
NATURE_SIDE = 36
"""Shortest side of a picture that leaves one pixel behind the kernels of `nature`."""
IMPALA_CHANNELS = (16, 32, 32)


class Picture(NamedTuple):
    """Where the picture is among the features: its first column and its size."""

    start: int
    height: int
    width: int
    channels: int
    channels_first: int
    """1 if the columns are ordered [channels, height, width], 0 if [height, width, channels]."""

    @property
    def stop(self) -> int:
        """First column behind it."""
        return self.start + self.height * self.width * self.channels


class Convolution(NamedTuple):
    """Sizes of one convolution with square kernels."""

    inputs: int
    outputs: int
    side: int
    stride: int = 1
    padding: int = 0

    def after(self, length: int) -> int:
        """Return the length of a picture's side behind it."""
        return (length + 2 * self.padding - self.side) // self.stride + 1


class BlankConv2d(nn.Conv2d):
    """Convolution with uninitialized weights; torch's own layer draws them from the global generator."""

    def reset_parameters(self) -> None:
        """Do nothing."""


class ImpalaBlock(nn.Module):
    """x + Conv(ReLU(Conv(ReLU(x)))), 3x3 and padded."""

    def __init__(self, channels: int, generator: torch.Generator) -> None:
        super().__init__()
        same = Convolution(channels, channels, 3, padding=1)
        self.first, self.second = convolution(same, generator), convolution(same, generator)

    def forward(self, x: Tensor) -> Tensor:
        """[N, channels, h, w] to the same shape."""
        return x + self.second(F.relu(self.first(F.relu(x))))


class PictureEncoder(nn.Module):
    """Features with a picture [N, features] to [N, `encoded_size`]: what the convolutions see, then the others."""

    def __init__(self, picture: Picture, encoder: str, activation: str, generator: torch.Generator) -> None:
        super().__init__()
        self.picture = picture
        if encoder == IMPALA:
            self.layers = _impala(picture.channels, generator)
        else:
            pairs = ((convolution(row, generator), ACTIVATIONS[activation]()) for row in plain_layers(picture, encoder))
            self.layers = nn.Sequential(*(layer for pair in pairs for layer in pair))

    def forward(self, features: Tensor) -> Tensor:
        """Encode the picture's columns."""
        start, height, width, channels, first = self.picture
        pixels, stop = features[:, start : self.picture.stop], self.picture.stop
        if first:
            pixels = pixels.reshape(-1, channels, height, width)
        else:
            pixels = pixels.reshape(-1, height, width, channels).permute(0, 3, 1, 2)
        encoded = self.layers(pixels).flatten(1)
        if stop - start == features.shape[1]:
            return encoded
        return torch.cat([encoded, features[:, :start], features[:, stop:]], dim=1)


def chosen_encoder(encoder: str, picture: Picture) -> str:
    """Return the encoder that `by_size` or `auto` means for a picture; the others are themselves."""
    if encoder not in (BY_SIZE, AUTO):
        return encoder
    side = min(picture.height, picture.width)
    return NATURE if side >= NATURE_SIDE else FLAT if encoder == BY_SIZE and side < SMALL_SIDE else SMALL


def picture_text(picture: Sequence[int], encoder: str) -> str:
    """Return the size of a contract's picture and how a network reads it, for messages."""
    _, height, width, channels, _ = picture
    how = "as plain numbers" if encoder == FLAT else "by convolutions"
    return f"a picture of {height} x {width} x {channels}, {how} (network.encoder={encoder})"


def plain_layers(picture: Picture, encoder: str) -> list[Convolution]:
    """Return the convolutions of `nature` or `small`."""
    channels = picture.channels
    if encoder == NATURE:
        return [Convolution(channels, 32, 8, 4), Convolution(32, 64, 4, 2), Convolution(64, 64, 3)]
    side = max(picture.height, picture.width)
    second, third = Convolution(32, 64, 3, 1 + (side > 10), 1), Convolution(64, 64, 3, 1 + (side > 20), 1)
    return [Convolution(channels, 32, 3, 1, 1), second, third]


def encoded_size(features: int, picture: Picture, encoder: str) -> int:
    """Return the columns of a `PictureEncoder`'s output for that many `features`."""
    height, width, outputs = picture.height, picture.width, IMPALA_CHANNELS[-1]
    if encoder == IMPALA:
        for _ in IMPALA_CHANNELS:
            height, width = (height + 1) // 2, (width + 1) // 2
    else:
        for layer in plain_layers(picture, encoder):
            height, width, outputs = layer.after(height), layer.after(width), layer.outputs
    return outputs * height * width + features - (picture.stop - picture.start)


def encoder_weight_sizes(picture: Picture, encoder: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight of a `PictureEncoder`, without building it."""
    if encoder != IMPALA:
        for number, layer in enumerate(plain_layers(picture, encoder)):
            yield from _sizes(f"layers.{2 * number}", layer)
        return
    inputs = picture.channels
    for stage, outputs in enumerate(IMPALA_CHANNELS):
        yield from _sizes(f"layers.{stage}.0", Convolution(inputs, outputs, 3))
        for block in (2, 3):
            for part in ("first", "second"):
                yield from _sizes(f"layers.{stage}.{block}.{part}", Convolution(outputs, outputs, 3))
        inputs = outputs


def convolution(sizes: Convolution, generator: torch.Generator) -> nn.Conv2d:
    """Make a convolution with orthogonal weights of gain sqrt(2) and zero bias."""
    inputs, outputs, side, stride, padding = sizes
    layer = BlankConv2d(inputs, outputs, side, stride, padding)
    nn.init.orthogonal_(layer.weight, math.sqrt(2.0), generator=generator)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def _impala(channels: int, generator: torch.Generator) -> nn.Sequential:
    stages: list[nn.Module] = []
    for outputs in IMPALA_CHANNELS:
        first = convolution(Convolution(channels, outputs, 3, padding=1), generator)
        blocks = (ImpalaBlock(outputs, generator) for _ in range(2))
        stages.append(nn.Sequential(first, nn.MaxPool2d(3, stride=2, padding=1), *blocks))
        channels = outputs
    return nn.Sequential(*stages, nn.ReLU())


def _sizes(name: str, layer: Convolution) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (layer.outputs, layer.inputs, layer.side, layer.side)
    yield f"{name}.bias", (layer.outputs,)
