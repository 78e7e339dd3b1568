"""The public names of `tadam`, each as mkdocstrings renders it from its docstring."""

import inspect

import tadam

#: In the order of a reader: the classifier first, then what trains and measures, then the parts.
_SECTIONS = {
    "Classify": ("FewShotClassifier", "export"),
    "Train and evaluate": ("train", "TrainingResult", "Reporter", "evaluate", "Evaluation"),
    "Recipes and models": ("Config", "load_recipe", "load_model"),
    "Data": ("ImageStore", "EpisodeSampler"),
    "Parts to build on": ("Method", "Tadam", "Backbone"),
    "Errors": ("UserError", "RunFailed"),
}
#: What a class has from one that is not public itself is its own to a reader.
_INHERITED = {"FewShotClassifier": "    options:\n      inherited_members: true\n"}


def python_reference() -> str:
    """A section for each group of names, an entry for each name."""
    listed = {name for names in _SECTIONS.values() for name in names}
    left = set(tadam.__all__) - {"__version__"} - listed
    sections = {**_SECTIONS, **({"Others": tuple(sorted(left))} if left else {})}
    lines = []
    for title, names in sections.items():
        lines.append(f"## {title}\n")
        for name in names:
            home = inspect.getmodule(getattr(tadam, name))
            assert home is not None
            lines.append(f"::: {home.__name__}.{name}\n{_INHERITED.get(name, '')}")
    return "\n".join(lines)
