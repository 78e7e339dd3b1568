"""Which networks are run image by image, each on one thread, and by what.

On a CPU, images side by side beat threads that share an image: nobody waits for anybody, and a busy
neighbour costs its share of the cores and no more. A frozen network runs in onnxruntime where that
is installed, about twice as fast as in PyTorch.
"""

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from tadam.nn.backbones.efficientnet_lite import EfficientNetLite
from tadam.nn.folded import ForOneTask
from tadam.nn.foreign import ForeignEncoder

#: Set to 0, it keeps frozen networks in PyTorch.
RUNTIME_VARIABLE = "TADAM_ONNXRUNTIME"

#: Network -> what it was like (mirrored, versions of its weights), and what runs it.
_runners: "WeakKeyDictionary[nn.Module, tuple[list[int], Callable[[Tensor], Tensor]]]" = (
    WeakKeyDictionary()
)


def runner(network: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """What runs the network on one thread, (n, C, H, W) -> (n, D), in several threads at once.

    None for a network that wants batches: any that can be trained, and all of them on a GPU.
    """
    foreign = network.backbone if isinstance(network, ForOneTask) else None
    if isinstance(foreign, ForeignEncoder) and foreign.one_by_one:
        foreign.open()  # once, before the threads start
        return network
    if not isinstance(network, EfficientNetLite) or network.pixel_mean.device.type != "cpu":
        return None
    if not has_onnxruntime():
        return network
    versions = [int(network.mirrored), *(buffer._version for buffer in network.buffers())]
    found = _runners.get(network)
    if found is None or found[0] != versions:
        found = _runners[network] = (versions, _in_onnxruntime(network))
    return found[1]


def has_onnxruntime() -> bool:
    """Whether frozen networks run in onnxruntime."""
    wanted = os.environ.get(RUNTIME_VARIABLE) != "0"
    return wanted and all(find_spec(module) for module in ("onnx", "onnxruntime"))


def one_thread_session(content: bytes) -> Any:
    """An `onnxruntime.InferenceSession` that works on the thread that calls it, and on no other."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # its warnings are about its own optimisations
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _in_onnxruntime(network: EfficientNetLite) -> Callable[[Tensor], Tensor]:
    from tadam.nn.onnx_graph import EMBEDDINGS, IMAGES, efficientnet_graph

    run = one_thread_session(efficientnet_graph(network).SerializeToString()).run
    mirrored = network.mirrored

    def embed(x: Tensor) -> Tensor:
        z = run([EMBEDDINGS], {IMAGES: x.contiguous().numpy()})[0]
        if mirrored:
            z = (z + run([EMBEDDINGS], {IMAGES: x.flip(-1).contiguous().numpy()})[0]) / 2
        return torch.from_numpy(z)

    return embed
