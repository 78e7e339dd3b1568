"""The errors a user can meet: a mistake of theirs, a run that went wrong or was stopped."""


class UserError(ValueError):
    """Something the user can put right: one sentence that says what, where and what to do.

    The command line prints the sentence and exits with 2.
    """


class RunFailed(RuntimeError):
    """A run that could not go on, such as one that diverged. The command line exits with 1."""


class Diverged(RunFailed):
    """Training whose loss became NaN or too large, or a weight; again, it would do the same."""


class LostProcess(RunFailed):
    """Another process of the same run has died, so this one cannot go on either."""


class Interrupted(RunFailed):
    """Work that was told to stop, by Ctrl-C or its machine; what was done is kept."""


#: Characters of a name or value that a sentence repeats.
_MOST_REPEATED = 100


def excerpt(text: object) -> str:
    """What somebody wrote, as a sentence repeats it: the middle of a long one is left out."""
    shown = str(text)
    if len(shown) <= _MOST_REPEATED:
        return shown
    return f"{shown[: _MOST_REPEATED * 3 // 4]} ... {shown[-_MOST_REPEATED // 5 :]}"
