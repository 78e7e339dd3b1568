"""`tadam check` on photos whose faults are known: each fault is found, and little else."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from photos import write_photos
from tadam import FewShotClassifier
from tadam.classify.check import Check, check_photos
from tadam.classify.duplicates import copies_among, duplicate_groups, fingerprints, gradient_bits
from tadam.classify.learning_curve import CurvePoint, learning_curve, trend
from tadam.classify.support import labelled
from tadam.nn.backbones.pixels import RawPixels


def checked(
    folder: Path, test: list[Path] | None = None, problems: list[str] | None = None
) -> Check:
    images, labels = labelled(folder)
    classifier = FewShotClassifier(RawPixels(image_size=16))
    return check_photos(classifier, images, labels, test or [], problems=problems)


COLOURS = {"box": (40, 160, 60), "disc": (200, 40, 40), "wedge": (50, 70, 210)}
RARE = (230, 210, 20)


def scene(subject: str, seed: int) -> Image.Image:
    """Clouds that differ from photo to photo, in the colour of the subject."""
    dice = np.random.default_rng([seed, *subject.encode()])
    clouds = Image.fromarray(dice.integers(0, 256, (7, 7), np.uint8)).resize((64, 48), 3)
    return Image.blend(
        clouds.convert("RGB"), Image.new("RGB", (64, 48), COLOURS.get(subject, RARE)), 0.6
    )


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    for subject in COLOURS:
        (tmp_path / "clean" / subject).mkdir(parents=True)
        for i in range(8):
            scene(subject, i).save(tmp_path / "clean" / subject / f"{i}.png")
    return tmp_path / "clean"


def test_clean_photos_have_nothing_wrong(clean: Path) -> None:
    result = checked(clean)
    assert result.accuracy == 1.0
    assert [(c.name, c.photos, c.accuracy, c.mistaken_for) for c in result.classes] == [
        ("box", 8, 1.0, None),
        ("disc", 8, 1.0, None),
        ("wedge", 8, 1.0, None),
    ]
    assert [result.confused, result.mislabelled, result.copies, result.few] == [[]] * 4


def test_every_fault_is_found(clean: Path, tmp_path: Path) -> None:
    scene("wedge", 77).save(clean / "disc" / "wrong.png")
    dice = np.random.default_rng(0)
    noise = dice.integers(0, 256, (40, 40, 3), np.uint8)
    Image.fromarray(noise).save(clean / "box" / "alien.png")
    shutil.copy(clean / "box" / "0.png", clean / "disc" / "stray.png")
    (clean / "rare").mkdir()
    scene("rare", 50).save(clean / "rare" / "only.png")
    (clean / "wedge" / "broken.png").write_text("x")
    again = tmp_path / "test.png"
    scene("wedge", 3).resize((32, 24)).save(again)  # wedge/3.png, scaled
    problems: list[str] = []
    result = checked(clean, [again], problems)

    worst = [Path(m.path).name for m in result.mislabelled[:2]]
    assert set(worst) == {"wrong.png", "stray.png"}
    assert {m.looks_like for m in result.mislabelled[:2]} == {"wedge", "box"}
    assert "alien.png" in [Path(o.path).name for o in result.odd]
    assert result.few == ["rare"]
    (rare,) = (c for c in result.classes if c.name == "rare")
    assert (rare.photos, rare.accuracy) == (1, None)
    across = {c.across: c for c in result.copies}
    assert {Path(p).name for p in across["classes"].paths} == {"0.png", "stray.png"}
    assert across["classes"].exact
    assert {Path(p).name for p in across["training and test"].paths} == {"3.png", "test.png"}
    assert not across["training and test"].exact
    assert problems == result.skipped
    assert "broken.png" in problems[0]
    # confusion counted by hand: the two wrong photos, and nothing else in these pairs
    pairs = {frozenset(c.classes): c.photos for c in result.confused}
    assert pairs[frozenset({"disc", "wedge"})] >= 1
    assert pairs[frozenset({"disc", "box"})] >= 1
    worst_class = result.classes[0]
    assert worst_class.name == "disc"
    assert worst_class.accuracy is not None
    assert worst_class.accuracy <= 8 / 10  # at most: wrong and stray are not discs


def test_one_photo_of_each_class_is_no_error(tmp_path: Path) -> None:
    result = checked(write_photos(tmp_path / "one", each=1))
    assert result.accuracy is None
    assert result.few == ["box", "disc", "wedge"]
    assert result.curve == []
    assert result.doubled is None
    assert [result.odd, result.mislabelled] == [[], []]


def test_copies_are_grouped_and_other_photos_are_not(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    scenes = [
        Image.fromarray(dice.integers(0, 256, (9, 9, 3), np.uint8)).resize((160, 120), 3)
        for _ in range(12)
    ]
    copies = [
        scenes[0].resize((80, 60)),
        ImageEnhance.Brightness(scenes[0]).enhance(1.2),
        scenes[1].transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    ]
    files = []
    for number, image in enumerate([*scenes, *copies]):
        files.append(tmp_path / f"{number}.jpg")
        image.save(files[-1], quality=70 if number >= 12 else 95)
    prints = [p for p in fingerprints(files) if p]
    z = np.stack([np.asarray(i.resize((8, 8)), np.float32).ravel() for i in [*scenes, *copies]])
    z[14] = z[1]  # as a network that averages over the mirror image would have it
    assert duplicate_groups(prints, z) == [[0, 12, 13], [1, 14]]


def test_gradient_bits_are_those_of_a_picture_worked_out_by_hand() -> None:
    brighter = np.tile(np.linspace(0, 255, 90).astype(np.uint8)[None, :, None], (80, 1, 3))
    bits = np.unpackbits(gradient_bits(brighter))
    assert bits[:64].all()  # to the right
    assert not bits[64:].any()  # and not down
    assert not np.unpackbits(gradient_bits(brighter[:, ::-1])).any()


def test_copies_among_counts_photos_that_were_there_before() -> None:
    z = np.random.default_rng(0).normal(size=(6, 50)).astype(np.float32)
    again = np.concatenate([z, z[2:4] * (1 + 1e-5), z[:1] + 0.1])
    assert copies_among(again, 6) == 2
    assert copies_among(z, 6) == 0


def test_the_curve_has_the_accuracy_of_classifiers_with_fewer_photos(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    images = [np.full((4, 4, 3), v, np.uint8) for v in dice.integers(0, 256, 40)]
    labels = dice.integers(0, 2, 40).tolist()  # nothing to learn: half are right, whatever is done
    points = learning_curve(FewShotClassifier(RawPixels(image_size=4)).fit(images, labels))
    sizes = [p.photos for p in points]
    assert sizes == sorted(set(sizes))
    assert sizes[0] == 1
    assert all(abs(p.accuracy - 0.5) < 4 * p.error + 0.1 for p in points)


def test_the_trend_goes_on_along_a_power_law() -> None:
    exact = [CurvePoint(m, 1 - 0.4 * m**-0.5, 1e-6) for m in (1, 2, 4, 7)]
    found = trend(exact)
    assert found is not None
    assert found.photos == 16
    assert found.accuracy == pytest.approx(1 - 0.4 * 16**-0.5, abs=1e-4)
    assert found.low <= found.accuracy <= found.high
    loose = trend([CurvePoint(p.photos, p.accuracy, 0.03) for p in exact])
    assert loose is not None
    assert loose.high - loose.low > 0.02
    worse = trend([CurvePoint(m, 0.5 - 0.01 * m, 0.01) for m in (1, 2, 4)])
    assert worse is not None
    assert worse.accuracy <= 0.5  # more photos do no harm, but a trend downwards is no promise
    assert trend(exact[:2]) is None
    flawless = trend([CurvePoint(m, 1.0, 0.02) for m in (1, 2, 4)])
    assert flawless is not None
    assert 0.95 < flawless.low <= flawless.high <= 1
