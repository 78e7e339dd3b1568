"""The list of mutants cannot rot: every place is where it says, every test that it names exists."""

import ast
from pathlib import Path

from mutate import ROOT, mutants


def test_a_mutant_breaks_one_place_and_names_tests_that_exist() -> None:
    for mutant in mutants():
        source = (ROOT / mutant.file).read_text()
        broken = mutant.broken(source)
        assert broken != source
        ast.parse(broken)
        assert mutant.tests
        for test in mutant.tests:
            file, _, name = test.partition("::")
            assert not name or f"def {name.partition('[')[0]}(" in (ROOT / file).read_text(), test
            assert (ROOT / file).exists(), test


def test_there_are_about_twenty_in_most_packages() -> None:
    files = [Path(mutant.file) for mutant in mutants()]
    assert len(files) >= 20
    assert len({file.parts[2] for file in files}) >= 9
    assert len({mutant.name for mutant in mutants()}) == len(files)
