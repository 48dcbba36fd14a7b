"""Forward and backward pass of a multilayer perceptron over blocks of samples, by the compiled code of tile_code.py."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from condyle.methods.learn.network import Network
from condyle.methods.learn.tile_body import BLOCK
from condyle.methods.learn.tile_code import OUTPUTS, functions
from condyle.tape.backends.cpu import address

ROOM = 4  # further features that a product may read, and further rows that it may write
ENTRIES = 12  # of a row of a table of products


class PackedLayers:
    """The layers of a network as the code reads them, copied from a vector of parameters; neurons are padded with zeros.

    `count`: numbers of a padded gradient: for each layer (inputs + ROOM, padded outputs), then (padded outputs,).
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        sizes = network.sizes
        self.padded = tuple(-(-n // OUTPUTS) * OUTPUTS for n in sizes)
        self.weights = [np.zeros((m, self.padded[k + 1]), np.float32) for k, m in enumerate(sizes[:-1])]
        self.biases = [np.zeros(n, np.float32) for n in self.padded[1:]]
        self.transposed = [np.zeros((n, self.padded[k]), np.float32) for k, n in enumerate(sizes[1:])]
        self.zeros = np.zeros(max(self.padded), np.float32)
        shapes = [(m + ROOM, n) for m, n in zip(sizes[:-1], self.padded[1:], strict=True)]
        self.starts = np.cumsum([0] + [part for m, n in shapes for part in (m * n, n)]).tolist()
        self.count = int(self.starts[-1])

    def load(self, flat: np.ndarray) -> None:
        """None; the layers are those of a vector of parameters."""
        for k, (Wt, b) in enumerate(self.network.views(flat)):
            m, n = Wt.shape
            self.weights[k][:, :n], self.biases[k][:n], self.transposed[k][:, :m] = Wt, b, Wt.T

    def unpad(self, padded: np.ndarray, flat: np.ndarray) -> None:
        """None; `flat` is a padded gradient as a vector like the parameters."""
        for k, (Wt, b) in enumerate(self.network.views(flat)):
            start, middle, end = self.starts[2 * k : 2 * k + 3]
            Wt[:] = padded[start:middle].reshape(-1, self.padded[k + 1])[: Wt.shape[0], : Wt.shape[1]]
            b[:] = padded[middle:end][: len(b)]


class BlockWorkspace:
    """Arrays (blocks, features, 32) for the outputs of the layers and their gradients; `x`: (blocks, features, 32), the inputs.

    One feature more than there are neurons: a block is no power of two long, so that blocks do not share a set of the cache.
    The gradient by the outputs is written over the outputs, before `backward`.
    """

    def __init__(self, layers: PackedLayers, x: np.ndarray) -> None:
        self.layers = p = layers
        sizes, padded, code = p.network.sizes, p.padded, functions()
        self.outputs = [np.zeros((len(x), n + 1, BLOCK), np.float32) for n in padded[1:]]
        deltas = [np.zeros((len(x), n + 1, BLOCK), np.float32) for n in padded[1:-1]]
        self._kept = [x, *deltas]
        ys, ds, act = [x, *self.outputs], [*deltas, self.outputs[-1]], p.network.activation
        last = len(sizes) - 2
        forward: list[list[int]] = []
        backward: list[list[int]] = []
        gradients: list[tuple[int, int]] = []
        for k, (below, y) in enumerate(pairwise(ys)):
            name = f"affine_{'identity' if k == last else act}"
            places = [address(a) for a in (y, below, p.weights[k], p.biases[k], y)]
            strides = [padded[k + 1], padded[k + 1], below.shape[1], y.shape[1]]
            forward.append([code.products[name], *places, 0, sizes[k], *strides])
        for k in range(last, -1, -1):
            below, d, n = ys[k], ds[k], padded[k + 1]
            gradients += [(len(backward), p.starts[2 * k]), (len(backward) + 1, p.starts[2 * k + 1])]
            products = [code.products["outer"], 0, address(d), address(below), 0, 0]
            backward.append([*products, 0, sizes[k], n, n, d.shape[1], below.shape[1]])
            backward.append([code.products["sums"], 0, address(d), 0, 0, 0, 0, n, d.shape[1], 0, 0, 0])
            if k > 0:
                to, w = ds[k - 1], p.transposed[k]
                places = [address(a) for a in (to, d, w, p.zeros, below)]
                strides = [padded[k], padded[k], d.shape[1], to.shape[1]]
                backward.append([code.products[f"affine_d_{act}"], *places, 0, sizes[k + 1], *strides])
        self._forward, self._backward = np.array(forward, np.int64), np.array(backward, np.int64)
        self._rows, self._offsets = (np.array(each, np.int64) for each in zip(*gradients, strict=True))
        self._run = code.run

    def select(self, index: np.ndarray) -> None:
        """None; the numbers of the samples do not matter to a perceptron."""

    def forward(self, blocks: int) -> np.ndarray:
        """Outputs (blocks, padded outputs + 1, 32), all blocks of this workspace."""
        self._forward[:, 6] = blocks
        self._run(address(self._forward), len(self._forward))
        return self.outputs[-1]

    def backward(self, blocks: int, gradient: np.ndarray) -> None:
        """None; `gradient` is the padded gradient of a loss, whose gradient by the outputs is in the place of the outputs."""
        self._backward[:, 6] = blocks
        self._backward[self._rows, 1] = address(gradient) + 4 * self._offsets
        self._run(address(self._backward), len(self._backward))


def gather(rows: np.ndarray, numbers: np.ndarray, out: np.ndarray) -> None:
    """None; out (blocks, columns, 32) has the rows with these numbers; columns are a multiple of 16, numbers of 32."""
    functions().gather(address(out), address(rows), address(numbers), len(numbers), rows.shape[1])
