"""Discounted Bayesian ridge regression: what both bandits know, as bytes.

With features x, reward y (less what the plant expected), weights w and half-life h,

    G = Σ γ·w·x·xᵀ,  m = Σ γ·w·x·y,  γ = 2^(−age/h),   A = Λ + G/σ²,  μ = A⁻¹·m/σ²,

θ ~ N(μ, A⁻¹). Only the sums are discounted; the prior Λ is added when the posterior is asked for.
That is the usual update A ← γA + (1 − γ)Λ, without its rounding: after long silence the posterior
is the prior again, neither singular nor sure of old things. Age is that of the *decision*, so a
reward counts the same whether it came at once or hours later, and outcomes may come in any order.

Sums are float64 bytes, so equal states are equal bytes, and a save loses nothing.

>>> empty = Ridge(half_life_s=60.0, noise_sd=0.1, prior_sd=1.0, max_features=8)
>>> one = empty.learned(("1",), np.ones(1), 0.5, at_us=0, decided_us=0, weight=1.0)
>>> one.weight_at(at_us=0), one.weight_at(at_us=60_000_000)
(1.0, 0.5)

Why not river's ``BayesianLinearRegression(smoothing=…)``: it discounts the prior too, and turns NaN
where a feature stops varying. Why not a window of the last n: a quiet night would be a short memory
and a busy noon a long one.

Reference: Y. Russac, C. Vernade, O. Cappé, "Weighted linear bandits for non-stationary
environments" (NeurIPS 2019), whose discount runs by decisions; ours runs by time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Self

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from controller.learner.features import BIAS, foreseen, joint
from controller.learner.port import Action, Context, Menu, check_outcome
from controller.learner.settings import LearnerSettings
from policies.limits import MICROS
from signals.errors import Broken

Array = NDArray[np.float64]
Places = NDArray[np.int64]

BIAS_SPREAD: Final = 10.0
"""The bias has this many times a feature's prior deviation: the level of reward is unknown."""
REMEMBERED: Final = 256
FORGOTTEN: Final = 0.01
"""A feature seen with less than this weight makes room for a new one."""


class Posterior(Struct, frozen=True):
    """``factor``: lower Cholesky factor of A; ``mean``: μ; ``names``: of its columns."""

    factor: Array
    mean: Array
    names: tuple[str, ...]

    def spread(self, x: Array) -> Array:
        """L⁻¹·xᵀ for rows x: of their columns the squared length is the reward's variance.

        By the inverse of so small and well-conditioned a factor, because the solver for triangles
        starts threads whatever the size, and costs a hundred times as much.
        """
        inverse, _ = dtrtri(self.factor, lower=1)
        found: Array = inverse @ x.T
        return found


class Ridge(Struct, frozen=True, kw_only=True):
    """Sums as of ``at_us``. ``names`` are at most ``max_features``; more are left out."""

    half_life_s: float
    noise_sd: float
    prior_sd: float
    max_features: int
    names: tuple[str, ...] = ()
    gram: bytes = b""
    moment: bytes = b""
    weight: float = 0.0
    at_us: int = 0

    @classmethod
    def of(cls, settings: LearnerSettings) -> Self:
        """Nothing learned yet, with the settings' memory, prior and size."""
        return cls(
            half_life_s=settings.half_life_s,
            noise_sd=settings.noise_sd,
            prior_sd=settings.prior_sd,
            max_features=settings.max_features,
        )

    def learned(
        self,
        names: tuple[str, ...],
        x: Array,
        y: float,
        *,
        at_us: int,
        decided_us: int,
        weight: float,
    ) -> Self:
        """These sums and one outcome of features ``x`` more. All is finite and was checked."""
        as_of = max(at_us, self.at_us)
        keep = self._fading(self.at_us, as_of)
        kept, gram, moment = self._with_room(names, keep)
        row = aligned(x[None, :], names, kept)[0]
        counted = weight * self._fading(decided_us, as_of)
        gram += counted * np.multiply.outer(row, row)
        moment += (counted * y) * row
        return type(self)(
            half_life_s=self.half_life_s,
            noise_sd=self.noise_sd,
            prior_sd=self.prior_sd,
            max_features=self.max_features,
            names=kept,
            gram=gram.tobytes(),
            moment=moment.tobytes(),
            weight=keep * self.weight + counted,
            at_us=as_of,
        )

    def taught(
        self,
        context: Context,
        action: Action,
        reward: float,
        *,
        at_us: int,
        decided_us: int,
        weight: float,
    ) -> Self:
        """These sums and what the plant model did not expect of an outcome. Raises ``Rejected``."""
        check_outcome(reward, weight, at_us=at_us, decided_us=decided_us)
        names, x = joint(context, (action,))
        missed = reward - action.expected
        return self.learned(names, x[0], missed, at_us=at_us, decided_us=decided_us, weight=weight)

    def predicted(self, context: Context, menu: Menu, *, at_us: int) -> tuple[Array, Array]:
        """Of the allowed actions: mean rewards [m], and their spread [d, m] (``Posterior``)."""
        names, found = joint(context, menu.actions)
        expected = foreseen(menu.actions)
        if not all(menu.mask):
            allowed = list(menu.allowed)
            found, expected = found[allowed], expected[allowed]
        known = self.posterior(names, at_us=at_us)
        x = aligned(found, names, known.names)
        return expected + x @ known.mean, known.spread(x)

    def weighed(self, share: float) -> Self:
        """With all that was learned so far counting only so much, as if it were that much older."""
        return structs.replace(
            self,
            gram=(share * np.frombuffer(self.gram)).tobytes(),
            moment=(share * np.frombuffer(self.moment)).tobytes(),
            weight=share * self.weight,
        )

    def weight_at(self, *, at_us: int) -> float:
        """The weight of all outcomes, as it has faded by then."""
        return self.weight * self._fading(self.at_us, at_us)

    def posterior(self, features: tuple[str, ...], *, at_us: int) -> Posterior:
        """What is known at a time; names never seen have their prior. Raises ``Broken``."""
        names = _joined(self.names, features, self.max_features)
        known, size = len(self.names), len(names)
        scale = self._fading(self.at_us, at_us) / self.noise_sd**2
        a = np.frombuffer(self.gram).reshape(known, known) * scale
        rhs = np.frombuffer(self.moment) * scale
        if size > known:
            a = np.pad(a, (0, size - known))
            rhs = np.pad(rhs, (0, size - known))
        a.ravel()[:: size + 1] += _prior(names, self.prior_sd)
        # Symmetric to the last bit, so its transpose is what LAPACK wants, without a copy.
        factor, failed = dpotrf(a.T, lower=1, overwrite_a=1)
        if failed:
            raise Broken(f"the posterior of {size} features is not positive definite")
        mean, _ = dpotrs(factor, rhs, lower=1, overwrite_b=1)
        return Posterior(factor, mean, names)

    def _fading(self, since_us: int, until_us: int) -> float:
        age_s = max(0, until_us - since_us) / MICROS
        return float(2.0 ** -(age_s / self.half_life_s))

    def _with_room(
        self, names: tuple[str, ...], keep: float
    ) -> tuple[tuple[str, ...], Array, Array]:
        """Faded copies of the sums, with a row for each new name that there is room for."""
        known = len(self.names)
        gram = keep * np.frombuffer(self.gram).reshape(known, known)
        moment = keep * np.frombuffer(self.moment)
        if set(names) <= set(self.names):
            return self.names, gram, moment
        stay = list(range(known))
        if len({*self.names, *names}) > self.max_features:
            stay = [at for at in stay if gram[at, at] >= FORGOTTEN or self.names[at] in names]
        kept = _joined(tuple(self.names[at] for at in stay), names, self.max_features)
        wide, long = np.zeros((len(kept), len(kept))), np.zeros(len(kept))
        wide[: len(stay), : len(stay)] = gram[np.ix_(stay, stay)]
        long[: len(stay)] = moment[stay]
        return kept, wide, long


def aligned(x: Array, names: tuple[str, ...], columns: tuple[str, ...]) -> Array:
    """Rows of named features in other columns: 0 where they lack one, left out where those do."""
    if names == columns:
        return x
    source, to = _places(names, columns)
    if len(to) == len(columns):
        return x.take(source, axis=1)
    found = np.zeros((len(x), len(columns)))
    found[:, to] = x[:, source]
    return found


@lru_cache(maxsize=REMEMBERED)
def _places(names: tuple[str, ...], columns: tuple[str, ...]) -> tuple[Places, Places]:
    """Which column of ``names`` comes to lie where in ``columns``; the latter rise."""
    where = {name: at for at, name in enumerate(columns)}
    both = sorted((where[name], at) for at, name in enumerate(names) if name in where)
    return np.array([at for _, at in both]), np.array([to for to, _ in both])


@lru_cache(maxsize=REMEMBERED)
def _joined(known: tuple[str, ...], more: tuple[str, ...], most: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*known, *more)))[:most]


@lru_cache(maxsize=REMEMBERED)
def _prior(names: tuple[str, ...], prior_sd: float) -> Array:
    """The prior precision of each feature."""
    spread = [prior_sd * (BIAS_SPREAD if name == BIAS else 1.0) for name in names]
    return np.array(spread) ** -2
