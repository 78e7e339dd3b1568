"""Lists of images and labels: columns by name, places by line, mistakes in one sentence."""

from pathlib import Path

import pytest

from tadam.data.label_list import listed_files
from tadam.errors import UserError


def write(folder: Path, name: str, text: str) -> Path:
    (folder / "img").mkdir(exist_ok=True)
    for file in ("a.jpg", "b.jpg", "c d.jpg"):
        (folder / "img" / file).touch()
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", "path,label\nimg/a.jpg,rose\nimg/b.jpg,lily\n"),
        ("x.csv", "\ufeffid;Class;File\r\n1;rose;img/a.jpg\r\n\r\n2; lily ;img/b.jpg\r\n"),
        ("x.TSV", "label\timage\nrose\timg/a.jpg\nlily\timg/b.jpg\nrose\timg/a.jpg"),
        ("x.csv", 'label,filename\n"rose","img/a.jpg"\nlily,"img/b.jpg"'),
        (
            "x.jsonl",
            '{"path": "img/a.jpg", "label": "rose"}\n\n{"file_name":"img/b.jpg","class":"lily"}',
        ),
    ],
)
def test_every_usual_list_says_the_same(tmp_path: Path, name: str, text: str) -> None:
    found = listed_files(write(tmp_path, name, text))
    assert found == [(tmp_path / "img" / "a.jpg", "rose"), (tmp_path / "img" / "b.jpg", "lily")]


def test_absolute_paths_and_numbers_are_taken_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "img" / "c d.jpg"
    path = write(tmp_path, "x.ndjson", f'{{"path": "{file.as_posix()}", "label": 7}}')
    assert listed_files(path) == [(file, "7")]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("x.csv", "", "no column 'path': name the columns"),
        ("x.csv", "img/a.jpg,rose\n", "no column 'path'"),
        ("x.csv", "path,kind\nimg/a.jpg,rose\n", "no column 'label'"),
        ("x.csv", "path,label\n", "lists no images"),
        ("x.csv", "path,label\nimg/a.jpg,rose\nimg/b.jpg\n", "line 3, has no label"),
        ("x.csv", "path,label\n,rose\n", "line 2, has no path"),
        (
            "x.csv",
            "path,label\nimg/a.jpg,x\nimg/a.jpg,y\n",
            "line 3, gives img/a.jpg the label 'y'",
        ),
        ("x.csv", "path,label\nno/a.jpg,x\n", "none of the 1 files"),
        ("x.csv", f"path,label\n{'x' * 200_000},y\n", "is not CSV"),
        ("x.jsonl", "{", "line 1, is not JSON"),
        ("x.jsonl", "[" * 100_000, "line 1, is not JSON"),
        ("x.jsonl", "[1]", "line 1, is no object"),
        ("x.jsonl", '{"path": "img/a.jpg", "label": true}', "line 1, has no label"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    with pytest.raises(UserError) as error:
        listed_files(write(tmp_path, name, text))
    assert words in str(error.value)
    assert str(tmp_path / name) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_list_that_is_not_text_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"path,label\n\xff\xfe,x\n")
    with pytest.raises(UserError, match="is not UTF-8 text"):
        listed_files(tmp_path / "x.csv")
