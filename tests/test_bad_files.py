"""Whatever file turns up among the photos, it is classified or ends in a sentence: no crash."""

import os
from pathlib import Path

import numpy as np
import pytest

from bad_files import CORPUS
from tadam import FewShotClassifier, UserError
from toy_backbones import Colours, blobs

pytestmark = [
    pytest.mark.filterwarnings("error"),
    pytest.mark.filterwarnings("ignore::UserWarning:PIL"),  # pytest undoes decode's own filter
    pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning"),
    pytest.mark.skipif(os.name == "nt", reason="the corpus has pipes and symbolic links"),
]


@pytest.fixture(scope="module")
def classifier() -> FewShotClassifier:
    return FewShotClassifier(Colours()).fit(*blobs(3, 4))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for name, (make, _) in CORPUS.items():
        make(folder / name)
    return folder


def sentence_about(classifier: FewShotClassifier, path: Path) -> str | None:
    """How a file is refused; None if it is classified."""
    try:
        row = classifier.predict_proba([path])
    except UserError as error:
        return str(error)
    assert np.isfinite(row).all()
    assert row.sum() == pytest.approx(1, abs=1e-5)
    return None


def test_a_file_is_classified_or_ends_in_a_sentence(
    corpus: Path, classifier: FewShotClassifier
) -> None:
    for name in CORPUS:
        readable = CORPUS[name][1]
        sentence = sentence_about(classifier, corpus / name)
        assert readable in (None, sentence is None), sentence
        if sentence is not None:
            assert str(corpus / name) in sentence
            assert "\n" not in sentence
            assert len(sentence) < 300


def test_the_corpus_is_large_enough() -> None:
    assert sum(expected is False for _, expected in CORPUS.values()) >= 20


def test_all_of_them_at_once_leave_the_good_ones(
    corpus: Path, classifier: FewShotClassifier
) -> None:
    problems: list[str] = []
    paths = [corpus / name for name in CORPUS]
    predictions = classifier.classify(paths, problems=problems, thumbnails=True)
    assert len(predictions) + len(problems) == len(CORPUS)
    read = {Path(p.path).name for p in predictions if p.path}
    assert {name for name, (_, ok) in CORPUS.items() if ok} <= read
    assert not {name for name, (_, ok) in CORPUS.items() if ok is False} & read
    assert all(p.thumbnail for p in predictions)
