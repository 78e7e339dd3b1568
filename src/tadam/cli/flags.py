"""Errors of the library name an argument, `out`; here it becomes the flag that was typed, --out."""

import re

from tadam.system.files import DATA_VARIABLE

#: Arguments whose flag is not their own name.
FLAGS = {
    DATA_VARIABLE: "--data",
    "address": "--ray",
    "alphas": "--values",
    "changes": "--set",
    "cpus": "--job-cpus",
    "csv_file": "--csv",
    "form": "--format",
    "gpus": "--job-gpus",
    "memory": "--job-memory",
    "parts": "--only",
    "settings": "--set",
    "train_ways": "--train-way",
}


def with_flags(sentence: str) -> str:
    """The sentence with each argument in backticks replaced by its flag."""
    return re.sub(r"`(\w+)`", lambda match: flag(match[1]), sentence)


def flag(argument: str) -> str:
    """What to type on the command line for an argument of a function."""
    return FLAGS.get(argument, f"--{argument.replace('_', '-')}")
