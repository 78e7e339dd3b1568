"""What a user would put on the same features instead of our metric: scikit-learn's classifiers.

All get embeddings of unit length, as their users are told to make them. Logistic regression sees
them in the basis of the support set, which changes none of its answers and makes it faster.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
#: Support embeddings, their classes and query embeddings -> the queries' classes.
Rival = Callable[[Vectors, Labels, Vectors], Labels]

_PENALTIES = (1.0, 10.0, 100.0)
_FOLDS = 3
_NEIGHBOURS = 5


def unit(z: Vectors) -> Vectors:
    """Vectors of length 1."""
    return np.asarray(z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12))


def prototypes(z: Vectors, labels: Labels) -> Vectors:
    """The mean of each class, (K, D)."""
    return np.stack([z[labels == k].mean(axis=0) for k in np.unique(labels)])


def euclidean(z: Vectors, labels: Labels, queries: Vectors) -> Labels:
    """The nearest prototype."""
    c = prototypes(z, labels)
    return np.asarray((queries @ c.T - (c**2).sum(axis=1) / 2).argmax(axis=1))


def cosine(z: Vectors, labels: Labels, queries: Vectors) -> Labels:
    """The prototype at the smallest angle."""
    return np.asarray((queries @ unit(prototypes(z, labels)).T).argmax(axis=1))


def neighbours(z: Vectors, labels: Labels, queries: Vectors) -> Labels:
    """The most common class among the nearest images."""
    from sklearn.neighbors import KNeighborsClassifier

    most = min(_NEIGHBOURS, int(np.bincount(labels).min()))
    return np.asarray(KNeighborsClassifier(most).fit(z, labels).predict(queries))


def regression(z: Vectors, labels: Labels, queries: Vectors) -> Labels:
    """Logistic regression, C by cross-validation; 10 where a class has too few images for it."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    basis, _ = np.linalg.qr(z.T)
    model = LogisticRegression(C=10, max_iter=100)
    folds = min(_FOLDS, int(np.bincount(labels).min()))
    if folds > 1:
        model = GridSearchCV(model, {"C": _PENALTIES}, cv=folds)
    return np.asarray(model.fit(z @ basis, labels).predict(queries @ basis))


def discriminant(z: Vectors, labels: Labels, queries: Vectors) -> Labels:
    """Linear discriminants with Ledoit and Wolf's shrinkage; needs two images of a class."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    return np.asarray(model.fit(z, labels).predict(queries))


def ridge(z: Vectors, labels: Labels, queries: Vectors) -> Labels:
    """Ridge regression on the classes, the penalty by leave-one-out."""
    from sklearn.linear_model import RidgeClassifierCV

    return np.asarray(RidgeClassifierCV(np.logspace(-3, 3, 13)).fit(z, labels).predict(queries))


RIVALS: dict[str, Rival] = {
    "nearest prototype, Euclidean": euclidean,
    "nearest prototype, cosine": cosine,
    "k nearest neighbours": neighbours,
    "logistic regression": regression,
    "shrinkage LDA": discriminant,
    "ridge": ridge,
}
