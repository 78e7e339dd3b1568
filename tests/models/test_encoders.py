"""Encoders that others made: ONNX files, and models of `transformers`, tiny and random, offline."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from command_line import CommandLine, assert_one_sentence
from photos import write_photos
from tadam.classify.classifier import FewShotClassifier
from tadam.classify.export import session
from tadam.errors import UserError
from tadam.models.encoders import open_encoder
from tadam.nn.backbones.onnx_encoder import as_vectors, output_name
from toy_backbones import blobs

onnx = pytest.importorskip("onnx", reason="needs the extra imagenet")
pytest.importorskip("onnxruntime", reason="needs the extra imagenet")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

WEIGHTS = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)


def write_onnx(
    file: Path,
    shape: tuple[Any, ...] = ("n", 3, 24, 24),
    kind: int = TensorProto.FLOAT,
    output: str = "vector",
    about: dict[str, str] | None = None,
) -> Path:
    """An encoder that returns the channels' means times `WEIGHTS`, in one of several forms."""
    last = shape[3] == 3
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT)]
    nodes.append(
        helper.make_node("ReduceMean", ["f"], ["m"], axes=[1, 2] if last else [2, 3], keepdims=0)
    )
    nodes.append(helper.make_node("MatMul", ["m", "w"], ["v"]))
    axes = {"vector": [], "map": [2, 3], "tokens": [1]}[output]
    constants = [numpy_helper.from_array(WEIGHTS, "w")]
    if axes:
        constants.append(numpy_helper.from_array(np.array(axes, np.int64), "axes"))
        nodes.append(helper.make_node("Unsqueeze", ["v", "axes"], ["z"]))
    else:
        nodes.append(helper.make_node("Identity", ["v"], ["z"]))
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("x", kind, list(shape))],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, about or {})
    onnx.save(model, file)
    return file


NORMAL = {"mean": "[0.5, 0.4, 0.3]", "std": "[0.2, 0.3, 0.4]"}


def expected(images: np.ndarray) -> np.ndarray:
    """What the encoder gives for images of one colour each, (N, H, W, 3), normalised by NORMAL."""
    x = images[:, 0, 0].astype(np.float64) / 255
    result: np.ndarray = (x - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4] @ WEIGHTS
    return result


@pytest.mark.parametrize(
    ("shape", "output"),
    [
        (("n", 3, 24, 24), "vector"),
        (("n", 24, 24, 3), "vector"),
        ((1, 3, 24, 24), "map"),
        ((4, 3, 24, 24), "tokens"),
        (("n", 3, "h", "w"), "vector"),
    ],
)
def test_an_onnx_file_embeds_whatever_its_layout_batch_and_output(
    tmp_path: Path, shape: tuple[Any, ...], output: str
) -> None:
    file = write_onnx(
        tmp_path / "e.onnx", shape, output=output, about={**NORMAL, "image_size": "24"}
    )
    colours = np.random.default_rng(1).integers(0, 256, (6, 1, 1, 3), dtype=np.uint8)
    images = np.broadcast_to(colours, (6, 30, 40, 3)).copy()
    classifier = FewShotClassifier(file).fit(images, ["a", "b"] * 3)
    np.testing.assert_allclose(classifier.support_embeddings_, expected(images), atol=1e-4)
    # The classifier's file holds the encoder, and needs no other.
    probabilities = classifier.predict_proba(images)
    classifier.save(tmp_path / "c.tadam")
    file.unlink()
    loaded = FewShotClassifier.load(tmp_path / "c.tadam")
    np.testing.assert_allclose(loaded.predict_proba(images), probabilities, atol=1e-6)


class TestExport:
    """A classifier on an ONNX encoder becomes one ONNX file, answers unchanged."""

    def images(self) -> np.ndarray:
        return np.random.default_rng(1).integers(0, 256, (6, 30, 40, 3), dtype=np.uint8)

    def fitted(self, file: Path) -> FewShotClassifier:
        colours = np.random.default_rng(2).integers(0, 256, (6, 1, 1, 3), dtype=np.uint8)
        support = np.broadcast_to(colours, (6, 30, 40, 3)).copy()
        return FewShotClassifier(file).fit(support, ["a", "b", "c"] * 2)

    @pytest.mark.parametrize(
        ("shape", "kind", "output"),
        [
            (("n", 24, 24, 3), TensorProto.UINT8, "tokens"),
            (("n", 3, "height", "width"), TensorProto.FLOAT16, "map"),
        ],
    )
    def test_it_answers_as_the_classifier_does(
        self, tmp_path: Path, shape: tuple[Any, ...], kind: int, output: str
    ) -> None:
        pytest.importorskip("onnxscript", reason="needs the extra export")
        about = {} if kind == TensorProto.UINT8 else NORMAL
        file = write_onnx(tmp_path / "e.onnx", shape, kind, output, {**about, "image_size": "24"})
        classifier = self.fitted(file)
        file.unlink()
        result = classifier.export(tmp_path / "c.onnx")
        assert result.difference < 1e-4
        assert sorted(tmp_path.iterdir()) == [tmp_path / "c.onnx"]
        runtime = session(tmp_path / "c.onnx")
        for images in (self.images(), self.images()[:1, :20]):
            found, strangeness = runtime.run(None, {"images": images})
            np.testing.assert_allclose(found, classifier.predict_proba(images), atol=1e-4)
            assert strangeness.shape == (len(images),)
        metadata = runtime.get_modelmeta().custom_metadata_map
        assert json.loads(metadata["classes"]) == ["a", "b", "c"]
        assert "mean" not in metadata
        assert runtime.get_inputs()[0].shape[:3] == ["images", "height", "width"]

    def test_names_versions_branches_and_other_outputs_do_not_matter(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxscript", reason="needs the extra export")
        classifier = self.fitted(write_branching(tmp_path / "e.onnx", opset=21))
        classifier.export(tmp_path / "c.onnx")
        assert [v.name for v in onnx.load(tmp_path / "c.onnx").graph.output] == [
            "probabilities",
            "strangeness",
        ]
        (found,) = session(tmp_path / "c.onnx").run(["probabilities"], {"images": self.images()})
        np.testing.assert_allclose(found, classifier.predict_proba(self.images()), atol=1e-4)
        assert found.max() - found.min() > 0.1

    def test_what_cannot_be_exported_says_why(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxscript", reason="needs the extra export")
        fixed = write_onnx(tmp_path / "fixed.onnx", (4, 3, 24, 24), about=NORMAL)
        with pytest.raises(UserError, match="takes exactly 4 images at a time"):
            self.fitted(fixed).export(tmp_path / "c.onnx")
        secretly = write_branching(tmp_path / "one.onnx", opset=17, fixed=True)
        with pytest.raises(UserError, match=r"cannot embed images .* check `image_size`"):
            self.fitted(secretly)
        twice = open_encoder(write_onnx(tmp_path / "e.onnx", about=NORMAL))
        twice.mirrored = True
        with pytest.raises(UserError, match="mirror images"):
            FewShotClassifier(twice).fit(self.images(), list("ab") * 3).export(tmp_path / "c.onnx")
        assert not (tmp_path / "c.onnx").exists()


def write_branching(file: Path, opset: int, fixed: bool = False) -> Path:
    """An encoder with names that we use too, whose `If` refers to a constant outside of it.

    Args:
        file: Where to.
        opset: Version of its operators.
        fixed: Whether it takes one image at a time, though its input does not say so.
    """
    value = helper.make_tensor_value_info
    branch = [
        helper.make_graph(
            [helper.make_node("MatMul", ["strangeness", "w"], [name])],
            name,
            [],
            [value(name, TensorProto.FLOAT, None)],
        )
        for name in ("yes", "no")
    ]
    nodes = [
        helper.make_node("GlobalAveragePool", ["images"], ["pooled"]),
        helper.make_node("Reshape", ["pooled", "shape"], ["strangeness"]),
        helper.make_node(
            "If", ["always"], ["probabilities"], then_branch=branch[0], else_branch=branch[1]
        ),
        helper.make_node("Shape", ["probabilities"], ["other"]),
    ]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [value("images", TensorProto.FLOAT, ["height", 3, 24, 24])],
        [
            value("other", TensorProto.INT64, [2]),
            value("probabilities", TensorProto.FLOAT, ["n", 5]),
        ],
        [
            numpy_helper.from_array(WEIGHTS, "w"),
            numpy_helper.from_array(np.array([1 if fixed else -1, 3]), "shape"),
            numpy_helper.from_array(np.array(True), "always"),
        ],
    )
    imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8 if opset < 21 else 10)
    helper.set_model_props(model, NORMAL)
    onnx.save(model, file)
    return file


def test_bytes_go_in_as_they_are(tmp_path: Path) -> None:
    file = write_onnx(tmp_path / "e.onnx", kind=TensorProto.UINT8)
    images = np.full((2, 24, 24, 3), [[[[10, 20, 200]]]], dtype=np.uint8)
    encoder = open_encoder(file)
    x = encoder.preprocess(torch.from_numpy(images).permute(0, 3, 1, 2))
    np.testing.assert_allclose(encoder(x), np.array([[10, 20, 200]] * 2) @ WEIGHTS, rtol=1e-4)


def test_normalisation_and_size_can_be_given_and_it_can_be_copied(tmp_path: Path) -> None:
    file = write_onnx(tmp_path / "e.onnx", ("n", 3, "h", "w"))
    encoder = open_encoder(file, 32, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    images = np.full((1, 40, 40, 3), [10, 20, 200], dtype=np.uint8)
    x = encoder.preprocess(torch.from_numpy(images).permute(0, 3, 1, 2))
    assert x.shape == (1, 3, 32, 32)
    for one in (encoder, copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        np.testing.assert_allclose(one(x), expected(images), rtol=1e-4)
    assert not any(p.requires_grad for p in encoder.parameters())


def test_an_onnx_file_that_will_not_do_is_refused_in_one_sentence(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({}, {}, "give `mean` and `std`"),
        ({"about": {"mean": "[1]", "std": "x"}}, {}, r"`mean` must be 3 numbers"),
        ({"about": NORMAL}, {"image_size": 32}, "24 pixels only"),
        ({"about": NORMAL}, {"image_size": 4}, "from 16 to 1024"),
        ({"about": NORMAL}, {"std": (1, 1, 0)}, "`std` must be above 0"),
        ({"about": NORMAL, "shape": ("n", 3, "h", "w")}, {}, "say which with `image_size`"),
        ({"about": NORMAL, "shape": ("n", 3, 24, 32)}, {}, "must be square"),
        ({"about": NORMAL, "shape": ("n", 5, 24, 24)}, {}, "5 channels"),
        ({"about": NORMAL, "shape": (3, 24, 24)}, {}, "not just images"),
        ({"about": NORMAL, "kind": TensorProto.DOUBLE}, {}, "32-bit floats"),
    ]
    for i, (made, given, words) in enumerate(cases):
        file = tmp_path / f"{i}.onnx"
        if made.get("shape") in ((3, 24, 24), ("n", 5, 24, 24)):
            graph = helper.make_graph(
                [helper.make_node("Identity", ["x"], ["z"])],
                "no encoder",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(made["shape"]))],
                [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
            )
            opset = [helper.make_opsetid("", 17)]
            onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), file)
        else:
            write_onnx(file, **made)
        with pytest.raises(UserError, match=words):
            open_encoder(file, **given)
    (tmp_path / "no.onnx").write_bytes(b"no graph")
    with pytest.raises(UserError, match="not an ONNX file that onnxruntime can run"):
        open_encoder(tmp_path / "no.onnx")
    with pytest.raises(UserError, match="No such file"):
        open_encoder(tmp_path / "missing.onnx")


def test_weights_in_another_file_are_not_followed(tmp_path: Path) -> None:
    model = onnx.load(write_onnx(tmp_path / "e.onnx", about=NORMAL))
    onnx.save(model, tmp_path / "e.onnx", save_as_external_data=True, size_threshold=0)
    with pytest.raises(UserError, match="keeps its weights in another file"):
        open_encoder(tmp_path / "e.onnx")


def test_which_output_is_the_embedding() -> None:
    assert output_name([("last", ["n", 5, 8]), ("other", ["n", 8])]) == "other"
    assert output_name([("other", ["n", 8]), ("image_embeds", ["n", 4])]) == "image_embeds"
    assert output_name([("only", ["n", 8, 1, 1])]) == "only"
    tokens = np.arange(2 * 17 * 3, dtype=np.float32).reshape(2, 17, 3)  # a class token and 4 x 4
    assert (as_vectors(tokens) == tokens[:, 0]).all()
    assert (as_vectors(tokens[:, 1:]) == tokens[:, 1:].mean(axis=1)).all()
    with pytest.raises(ValueError, match="int64"):
        as_vectors(np.zeros((2, 3), np.int64))


def test_the_command_line_takes_an_onnx_file(tmp_path: Path, tadam: CommandLine) -> None:
    folder, file = write_photos(tmp_path / "photos"), write_onnx(tmp_path / "e.onnx")
    command = ("fit", folder, "-o", tmp_path / "c.tadam", "--model", file)
    assert_one_sentence(tadam(*command), "give --mean and --std", "are 0.485,0.456,0.406 and")
    result = tadam(*command, "--mean", "0.5,0.5,0.5", "--std", "0.2,0.2,0.2")
    assert result.code == 0, result.err
    assert tadam("predict", tmp_path / "c.tadam", folder).code == 0
    assert_one_sentence(tadam(*command, "--mean", "x", "--force"), "--mean must be numbers")
    wrong = tadam("fit", folder, "-o", tmp_path / "d.tadam", "--model", "fc100", "--mean", "1,1,1")
    assert_one_sentence(wrong, "are for an ONNX file or hf:NAME")


# Models of transformers, as save_pretrained writes them

VISION = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": 32,
    "patch_size": 8,
}
TEXT = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 50,
    "max_position_embeddings": 8,
}


def tiny(kind: str) -> Any:
    t = pytest.importorskip("transformers", reason="needs the extra hf")
    torch.manual_seed(0)
    if kind == "dinov2":
        own = {k: VISION[k] for k in VISION if k != "intermediate_size"}
        return t.Dinov2Model(t.Dinov2Config(**own))
    if kind == "vit":
        return t.ViTForImageClassification(t.ViTConfig(**VISION))
    if kind == "convnext":
        sizes = {"hidden_sizes": [8, 8, 12, 16], "depths": [1, 1, 1, 1], "image_size": 32}
        return t.ConvNextModel(t.ConvNextConfig(**sizes))
    if kind == "siglip":
        return t.SiglipModel(t.SiglipConfig(vision_config=VISION, text_config=TEXT))
    both = {
        "vision_config": {**VISION, "projection_dim": 12},
        "text_config": {**TEXT, "projection_dim": 12},
    }
    return t.CLIPModel(t.CLIPConfig(**both, projection_dim=12))


def reference(kind: str, model: Any, x: torch.Tensor) -> torch.Tensor:
    """The embedding by the model's own methods."""
    if kind == "vit":
        found = model.vit(pixel_values=x).last_hidden_state[:, 0]
    elif kind == "clip":
        found = model.visual_projection(model.vision_model(pixel_values=x).pooler_output)
    elif kind == "siglip":
        found = model.vision_model(pixel_values=x).pooler_output
    else:
        found = model(pixel_values=x).pooler_output
    result: torch.Tensor = found
    return result


def write_hf(folder: Path, kind: str) -> Any:
    model = tiny(kind).eval()
    model.save_pretrained(folder)
    about = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(about))
    return model


@pytest.mark.parametrize("kind", ["dinov2", "vit", "clip", "siglip", "convnext"])
def test_a_model_of_transformers_embeds_as_it_would_by_itself(tmp_path: Path, kind: str) -> None:
    model = write_hf(tmp_path / kind, kind)
    images, labels = blobs(2, 3, side=32)
    classifier = FewShotClassifier(f"hf:{tmp_path / kind}").fit(images, labels)
    x = (torch.from_numpy(images).permute(0, 3, 1, 2) / 255 - 0.5) / 0.25
    with torch.no_grad():
        z = reference(kind, model, x)
    assert z.std() > 1e-4
    np.testing.assert_allclose(classifier.support_embeddings_, z, rtol=1e-3, atol=1e-5)
    # The classifier's file knows where the weights are, and which; it does not hold them.
    probabilities = classifier.predict_proba(images)
    classifier.save(tmp_path / "c.tadam")
    loaded = FewShotClassifier.load(tmp_path / "c.tadam")
    np.testing.assert_allclose(loaded.predict_proba(images), probabilities, atol=1e-6)
    if kind in ("dinov2", "vit"):
        pytest.importorskip("onnxscript", reason="needs the extra export")
        loaded.export(tmp_path / "c.onnx")
        exported = session(tmp_path / "c.onnx").run(["probabilities"], {"images": images})[0]
        np.testing.assert_allclose(exported, probabilities, atol=1e-4)
        assert np.ptp(probabilities) > 0.05


def test_other_weights_missing_files_and_unsafe_ones_are_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "m"
    write_hf(folder, "dinov2")
    images, labels = blobs(2, 3, side=32)
    FewShotClassifier(f"hf:{folder}").fit(images, labels).save(tmp_path / "c.tadam")
    torch.manual_seed(1)
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:-4] + b"\0\0\0\1")
    with pytest.raises(UserError, match="has other weights than when the classifier was fitted"):
        FewShotClassifier.load(tmp_path / "c.tadam").predict(images)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"no model\.safetensors, and other formats can run code"):
        open_encoder(f"hf:{folder}")
    (folder / "model.safetensors").write_bytes(weights[:100])
    with pytest.raises(UserError, match="cannot be read"):
        open_encoder(f"hf:{folder}")
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(UserError, match="does not say how its pixels are normalised"):
        open_encoder(f"hf:{folder}")
    (folder / "config.json").unlink()
    for name, words in [(folder, "no config.json"), (tmp_path / "nowhere", "does not exist")]:
        with pytest.raises(UserError, match=words):
            open_encoder(f"hf:{name}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"the hub cannot be reached.*give its folder as hf:FOLDER"):
        open_encoder("hf:nobody/nothing-of-that-name")
