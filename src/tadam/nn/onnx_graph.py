"""EfficientNet-Lite as an ONNX graph, put together layer by layer.

PyTorch's exporter would take seconds and more packages; the layers are few and known, so the graph
is there in milliseconds, whenever a program starts.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from torch import Tensor

from tadam.nn.backbones.efficientnet_lite import (
    EfficientNetLite,
    FrozenConv,
    InvertedBottleneck,
    same_padding,
)

IMAGES, EMBEDDINGS = "images", "embeddings"
#: Old enough for every onnxruntime that we allow.
_OPSET, _IR_VERSION = 17, 8


def efficientnet_graph(network: EfficientNetLite) -> ModelProto:
    """The graph of one pass: (N, 3, S, S), preprocessed, -> (N, D); `mirrored` is not in it."""
    graph = _Layers(network.image_size)
    x = graph.conv(IMAGES, network.stem, relu6=True)
    for block in network.blocks:
        assert isinstance(block, InvertedBottleneck)
        x = graph.bottleneck(x, block)
    if network.head is not None:
        x = graph.conv(x, network.head, relu6=True)
    pooled = graph.node("GlobalAveragePool", [x])
    if network.feature_mean is None:
        graph.node("Flatten", [pooled], EMBEDDINGS)
    else:
        flat = graph.node("Flatten", [pooled])
        graph.node("Sub", [flat, graph.constant("feature_mean", network.feature_mean)], EMBEDDINGS)
    size = network.image_size
    return helper.make_model(
        helper.make_graph(
            graph.nodes,
            "efficientnet_lite",
            [helper.make_tensor_value_info(IMAGES, TensorProto.FLOAT, ["count", 3, size, size])],
            [
                helper.make_tensor_value_info(
                    EMBEDDINGS, TensorProto.FLOAT, ["count", network.feature_size]
                )
            ],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
    )


@dataclass
class _Layers:
    """Nodes and constants so far, and the side of the image that the last node returns."""

    size: int
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def node(self, kind: str, inputs: list[str], name: str | None = None, **options: Any) -> str:
        """Adds a node; returns the name of its output."""
        name = name or f"{kind}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **options))
        return name

    def constant(self, name: str, value: Tensor | float) -> str:
        """Adds a constant; returns its name."""
        array = value.numpy() if isinstance(value, Tensor) else np.array(value, np.float32)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def conv(self, x: str, layer: FrozenConv, relu6: bool) -> str:
        """A convolution, with the bounds of ReLU6 if asked for."""
        place = len(self.nodes)
        kernel = layer.weight.shape[-1]
        before, after = same_padding(self.size, kernel, layer.stride)
        self.size = -(-self.size // layer.stride)
        x = self.node(
            "Conv",
            [
                x,
                self.constant(f"weight{place}", layer.weight),
                self.constant(f"bias{place}", layer.bias),
            ],
            kernel_shape=[kernel, kernel],
            strides=[layer.stride] * 2,
            pads=[before, before, after, after],
            group=layer.groups,
        )
        if not relu6:
            return x
        bounds = [self.constant(f"{bound}{place}", float(bound)) for bound in (0, 6)]
        return self.node("Clip", [x, *bounds])

    def bottleneck(self, x: str, block: InvertedBottleneck) -> str:
        """An inverted bottleneck."""
        out = x if block.expand is None else self.conv(x, block.expand, relu6=True)
        out = self.conv(out, block.depthwise, relu6=True)
        out = self.conv(out, block.project, relu6=False)
        return self.node("Add", [out, x]) if block.shortcut else out
