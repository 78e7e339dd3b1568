"""The examples in the docstrings of public names give what they say."""

import doctest
import sys

import tadam

#: Public names whose docstrings have examples today; one that loses them is noticed.
WITH_EXAMPLES = {"Config", "EpisodeSampler", "FewShotClassifier", "ImageStore", "load_recipe"}


def test_examples_in_docstrings_of_public_names_run() -> None:
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    found = set()
    for name in set(tadam.__all__) - {"__version__"}:
        thing = getattr(tadam, name)
        module = sys.modules[thing.__module__]
        for example in finder.find(thing, name, module=module, globs=dict(vars(module))):
            if example.examples:
                found.add(name)
                runner.run(example)
    assert found >= WITH_EXAMPLES
    assert runner.summarize(verbose=False).failed == 0
