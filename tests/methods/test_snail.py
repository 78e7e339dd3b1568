"""SNAIL: causal by construction, its blocks against NumPy, its shared pass against sequences."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from tadam.errors import UserError
from tadam.methods.base import Tasks
from tadam.methods.snail import Snail, image_places
from tadam.methods.snail_blocks import AttentionBlock, DenseBlock, Sequences, TCBlock
from tadam.nn.backbones.conv4 import Conv4

Floats = npt.NDArray[np.float64]


def small_snail(way: int = 3, steps: int = 7) -> Snail:
    torch.manual_seed(0)
    return (
        Snail(Conv4(1, 4, "flat", "relu", 16), way, steps, embedding=5, filters=4).double().eval()
    )


def episode(tasks: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Three classes of three, two and one shots; four queries."""
    dice = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (tasks, 10, 1, 16, 16), generator=dice)
    return images[:, :6], torch.tensor([[2, 0, 1, 0, 1, 0]] * tasks), images[:, 6:]


def sequence(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


def convolved(block: DenseBlock, x: Floats) -> Floats:
    """A dense block on one sequence, (S, C), step by step."""
    now, bias, before = (p.detach().numpy() for p in block.parameters())
    rows = []
    for s, step in enumerate(x):
        both = now @ step + bias
        if s >= block.dilation:
            both = both + before @ x[s - block.dilation]
        half = len(both) // 2
        rows.append(np.concatenate([step, np.tanh(both[:half]) * sigmoid(both[half:])]))
    return np.stack(rows)


def attended(block: AttentionBlock, x: Floats) -> Floats:
    """An attention block on one sequence, (S, C), step by step."""
    asked, keys, values = (
        x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        for layer in (block.query, block.key, block.value)
    )
    rows = []
    for s, step in enumerate(x):
        scores = np.exp(keys[: s + 1] @ asked[s] / np.sqrt(keys.shape[1]))
        rows.append(np.concatenate([step, scores / scores.sum() @ values[: s + 1]]))
    return np.stack(rows)


@pytest.mark.parametrize("dilation", [1, 2, 4, 8])
def test_a_dense_block_is_a_causal_convolution(dilation: int) -> None:
    torch.manual_seed(0)
    block = DenseBlock(3, dilation, 2).double()
    support, query = sequence(1, 4, 3), sequence(1, 2, 3)
    found = block(support, query)
    for q in range(2):
        whole = torch.cat([support[0], query[0, q : q + 1]]).numpy()
        expected = convolved(block, whole)
        np.testing.assert_allclose(found[0][0].detach(), expected[:4])
        np.testing.assert_allclose(found[1][0, q].detach(), expected[4])


def test_an_attention_block_reads_from_itself_and_the_past() -> None:
    torch.manual_seed(0)
    block = AttentionBlock(3, 5, 2).double()
    support, query = sequence(1, 4, 3), sequence(1, 2, 3)
    found = block(support, query)
    for q in range(2):
        whole = torch.cat([support[0], query[0, q : q + 1]]).numpy()
        expected = attended(block, whole)
        np.testing.assert_allclose(found[0][0].detach(), expected[:4])
        np.testing.assert_allclose(found[1][0, q].detach(), expected[4])


@pytest.mark.parametrize("block", [TCBlock(3, 6, 2), AttentionBlock(3, 4, 2)])
def test_changing_the_future_changes_nothing_before_it(block: Sequences) -> None:
    block = block.double()
    support, query = sequence(2, 5, 3), sequence(2, 1, 3)
    before = block(support, query)
    for step in range(5):
        changed = support.clone()
        changed[:, step] += 1
        after = block(changed, query)
        assert torch.equal(after[0][:, :step], before[0][:, :step])
        assert not torch.allclose(after[0][:, step:], before[0][:, step:])
    after = block(support, query + 1)
    assert torch.equal(after[0], before[0])  # no labelled image sees a query


def test_the_last_step_of_a_convolution_block_sees_the_first() -> None:
    block = TCBlock(3, 9, 2).double()
    assert [b.dilation for b in block.blocks] == [1, 2, 4, 8]  # ceil(log2(9)) of them
    support, query = sequence(1, 8, 3), sequence(1, 1, 3)
    changed = support.clone()
    changed[:, 0] += 1
    assert not torch.allclose(block(changed, query)[1], block(support, query)[1])


def test_the_blocks_are_the_papers() -> None:
    model = Snail(Conv4(1, 64, "flat", "relu", 28), way=5, steps=26)
    attention = [b for b in model.blocks if isinstance(b, AttentionBlock)]
    sizes = [(b.key.out_features, b.value.out_features) for b in attention]
    assert sizes == [(64, 32), (256, 128), (512, 256)]
    assert [len(b.blocks) for b in model.blocks if isinstance(b, TCBlock)] == [5, 5]
    assert model.output.in_features == 64 + 5 + 32 + 5 * 128 + 128 + 5 * 128 + 256


def test_an_answer_is_the_last_step_of_the_papers_sequence() -> None:
    model = small_snail()
    support, labels, query = episode()
    found = model(support, labels, query, 3).detach()
    with torch.no_grad():
        z = model.embed(torch.cat([support, query], dim=1).flatten(0, 1)).view(2, 10, -1).numpy()
    places = image_places(support.flatten(0, 1)).view(2, 6).numpy()
    for t in range(2):
        order = places[t].argsort()
        pairs = np.concatenate([z[t, :6], np.eye(3)[labels[t]]], axis=1)[order]
        for q in range(4):
            x = np.concatenate([pairs, [[*z[t, 6 + q], 0, 0, 0]]])
            for block in model.blocks:
                if isinstance(block, AttentionBlock):
                    x = attended(block, x)
                    continue
                assert isinstance(block, TCBlock)
                for dense in block.blocks:
                    assert isinstance(dense, DenseBlock)
                    x = convolved(dense, x)
            expected = model.output(torch.from_numpy(x[-1])).detach()
            np.testing.assert_allclose(found[t, q], expected, rtol=1e-9)


def test_the_order_of_the_support_set_does_not_matter_and_neither_do_other_queries() -> None:
    model, (support, labels, query) = small_snail(), episode()
    expected = model(support, labels, query, 3)
    order = torch.tensor([4, 0, 5, 3, 1, 2])
    torch.testing.assert_close(model(support[:, order], labels[:, order], query, 3), expected)
    torch.testing.assert_close(model(support, labels, query[:, :1], 3), expected[:, :1])
    assert not model.sees_queries_together


def test_predictions_follow_the_labels_if_the_weights_of_the_labels_do() -> None:
    model, (support, labels, query) = small_snail(), episode()
    expected = model(support, labels, query, 3)
    new = torch.tensor([1, 2, 0])  # the new label of each class
    old = new.argsort()
    with torch.no_grad():
        for module in model.blocks.modules():
            if isinstance(module, nn.Linear):  # labels are inputs 5 to 7 of every layer
                module.weight[:, 5:8] = module.weight[:, 5:8][:, old]
        model.output.weight[:, 5:8] = model.output.weight[:, 5:8][:, old]
        model.output.weight.copy_(model.output.weight[old])
        model.output.bias.copy_(model.output.bias[old])
    torch.testing.assert_close(model(support, new[labels], query, 3), expected[..., old])


def test_places_are_whole_numbers_and_the_same_for_bytes_and_floats() -> None:
    images = torch.randint(0, 256, (300, 1, 9, 9), generator=torch.Generator().manual_seed(0))
    places = image_places(images.byte())
    assert torch.equal(places, image_places(images.float()))
    assert torch.equal(places, places.round())
    assert len(places.unique()) == 300
    assert places.max() < 2**24


def test_evaluation_answers_from_embeddings_as_forward_does() -> None:
    model, (support, labels, query) = small_snail().float(), episode()
    images = torch.cat([support, query], dim=1)
    once = model.embed_once(images.flatten(0, 1))
    assert once is not None
    known = once.view(2, 10, -1)
    tasks = Tasks(labels, 3, (known[:, :6], known[:, 6:]), lambda: images)
    torch.testing.assert_close(model.answer(tasks), model(support, labels, query, 3))


def test_more_shots_are_answered_and_other_numbers_of_classes_refused() -> None:
    model, (support, labels, query) = small_snail(), episode()
    twice = torch.cat([support, query[:, :3]], dim=1)
    more = torch.cat([labels, labels[:, :3]], dim=1)
    assert model(twice, more, query, 3).shape == (2, 4, 3)
    with pytest.raises(UserError, match=r"trained for tasks of 3 classes .* tasks of 2"):
        model(support, labels % 2, query, 2)


def test_gradients_reach_every_parameter() -> None:
    model, (support, labels, query) = small_snail().train(), episode()
    model(support, labels, query, 3).square().sum().backward()
    assert all(p.grad is not None and p.grad.norm() > 0 for p in model.parameters())
