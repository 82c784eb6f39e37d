"""A stand-in for torch with one GPU of 1 GiB, on which tensors are only counted."""

import math

from . import cuda

__version__ = "2.99.0+standin"
long = "torch.int64"
bfloat16 = "torch.bfloat16"


class version:
    cuda = "99.9"
    hip = None


class no_grad:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


class Tensor:
    def __init__(self, shape, dtype="torch.float32", device="cuda"):
        self.shape, self.dtype = tuple(shape), dtype
        self.size = 8 if dtype == long else 2 if dtype == bfloat16 else 4
        self.bytes = self.numel() * self.size
        cuda.allocate(self.bytes)

    def __del__(self):
        cuda.release(self.bytes)

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return self.size


def zeros(count, device):
    return Tensor((count,))


def ones(shape, dtype, device):
    return Tensor(shape, dtype)


def ones_like(other):
    return Tensor(other.shape, other.dtype)
