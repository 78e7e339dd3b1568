"""scikit-learn's contract for an estimator, kept without importing scikit-learn."""

import inspect
from typing import Any, Self

from tadam.errors import UserError


class Estimator:
    """A classifier whose constructor only stores its arguments, under their own names."""

    _estimator_type = "classifier"

    @classmethod
    def _names(cls) -> list[str]:
        return sorted(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments; `deep` is there for scikit-learn and changes nothing."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Replaces arguments of the constructor; takes effect at the next `fit`."""
        for name, value in params.items():
            if name not in self._names():
                raise UserError(
                    f"{type(self).__name__} has no parameter {name!r}: it has "
                    f"{', '.join(self._names())}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        given = ", ".join(f"{n}={v!r}" for n, v in self.get_params().items() if v is not None)
        return f"{type(self).__name__}({given})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Any:
        """Asked for by scikit-learn alone, so it is there when this runs."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True, string=True),
        )

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise UserError("this classifier is not fitted yet: call fit first")

    def _require_positive(self, *names: str) -> None:
        """Of parameters that may be None; checked at `fit`, as scikit-learn does it."""
        for name in names:
            value = getattr(self, name)
            try:
                ok = value is None or 0 < float(value) < float("inf")
            except (TypeError, ValueError, OverflowError):
                ok = False
            if not ok:
                raise UserError(f"{name} must be above 0, got {_short(value)}")


def _short(value: object) -> str:
    """The start of a value; Python refuses to print an integer of thousands of digits."""
    try:
        return repr(value)[:60]
    except ValueError:
        return "a huge number"
