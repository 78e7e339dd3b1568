"""The paper's numbers: samples of the file, copied by hand from the paper's tables."""

import pytest

from tadam.reproduce.experiments import DATASETS, Cell, Request
from tadam.reproduce.published import numbers, published, seen, snell


def test_samples_by_hand() -> None:
    for experiment, dataset, cell, accuracy, interval in [
        ("table2", "mini_imagenet", Cell("euclidean", train_way=5), 67.7, 0.2),
        ("table2", "mini_imagenet", Cell("cosine", train_way=20), 53.9, 0.6),
        ("table2", "mini_imagenet", Cell("cosine-scaled", train_way=5), 68.2, 0.8),
        ("table2", "fc100", Cell("euclidean", train_way=5), 51.1, 0.2),
        ("table2", "fc100", Cell("euclidean", train_way=20), 50.3, 0.3),
        ("table2", "fc100", Cell("cosine", train_way=5), 40.9, 0.6),
        ("table2", "fc100", Cell("cosine", train_way=20), 37.1, 1.9),
        ("table2", "fc100", Cell("cosine-scaled", train_way=20), 49.6, 0.5),
        ("table3", "mini_imagenet", Cell("plain", 1), 56.5, 0.4),
        ("table3", "mini_imagenet", Cell("alpha", 5), 75.7, 0.2),
        ("table3", "mini_imagenet", Cell("alpha-tc", 1), 54.4, 0.3),
        ("table3", "mini_imagenet", Cell("tadam", 10), 80.8, 0.3),
        ("table3", "fc100", Cell("plain", 5), 53.3, 0.5),
        ("table3", "fc100", Cell("alpha", 10), 59.8, 0.3),
        ("table3", "fc100", Cell("alpha-at", 5), 54.7, 0.5),
        ("table3", "fc100", Cell("alpha-tc", 5), 54.0, 0.7),
        ("table3", "fc100", Cell("tadam", 1), 40.1, 0.4),
        ("table3", "fc100", Cell("tadam", 5), 56.1, 0.4),
    ]:
        assert published(experiment, dataset, cell) == pytest.approx(
            (accuracy / 100, interval / 100)
        )


def test_every_row_of_both_tables_has_a_number_and_nothing_else_does() -> None:
    count = 0
    for dataset in DATASETS:
        for request in (
            Request("table2", dataset, train_ways=(5, 20)),
            Request("table3", dataset, "paper"),
        ):
            cells = request.cells()
            count += len(cells)
            assert all(published(request.experiment, dataset, cell) for cell in cells)
    assert count == 2 * (3 * 2 + 5 * 3)
    stored = [
        values
        for table in ("table2", "table3")
        for rows in numbers()[table].values()
        for values in rows.values()
    ]
    assert sum(map(len, stored)) == count
    assert published("table3", "shapes", Cell("tadam")) is None
    assert published("omniglot", "omniglot_rotated", Cell("1shot", 1)) is None


def test_prototypical_networks_stand_beside_our_omniglot() -> None:
    assert [snell("1shot"), snell("5shot")] == ["98.8", "99.7"]
    assert "60 classes" in seen("omniglot")


def test_what_the_paper_reports_for_its_figures() -> None:
    assert "layers 3, 6, 9 and 12" in seen("figure3")
    assert "inverted U" in seen("figure4")


def test_samples_of_table_1_by_hand() -> None:
    for row, one, five in [
        ("meta_lstm", 43.4, 60.6),  # the paper's Table 1
        ("matching_fce", 46.6, 60.0),
        ("maml", 48.7, 63.1),
        ("relation", 50.4, 65.3),
        ("snail", 55.7, 68.9),
        ("adaresnet", 56.9, 71.9),
        ("matching", 41.2, 56.2),  # Vinyals et al., Table 2: cosine, not fine-tuned
        ("maml_first_order", 48.07, 63.15),  # Finn et al., Table 1
    ]:
        for shot, accuracy in ((1, one), (5, five)):
            found = published("table1", "mini_imagenet", Cell(row, shot))
            assert found is not None
            assert found[0] == pytest.approx(accuracy / 100)
    assert published("table1", "mini_imagenet", Cell("maml", 10)) is None
