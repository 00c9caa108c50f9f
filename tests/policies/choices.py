"""Random settings, laws and layers, as hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

from policies.laws import Law, LawStep
from policies.settings import Layer, Setting

KNOBS = ("active_cap", "step_token_budget", "kv_share")
LOW, CAPACITY = 1, 512

values = st.integers(LOW, CAPACITY)
tenths = st.integers(0, 100).map(lambda n: n / 10)


@st.composite
def laws(draw: st.DrawFn) -> Law:
    """Within range and ordered; hysteresis and dwell from none to a lot."""
    levels = sorted(draw(st.sets(tenths, min_size=1, max_size=6)))
    return Law(
        variable=draw(st.sampled_from(["arrivals", "offered_tokens_per_s"])),
        class_=draw(st.sampled_from([None, "interactive", "batch"])),
        window_s=draw(st.integers(1, 600)) / 1.0,
        default=draw(values),
        steps=tuple(LawStep(above=level, value=draw(values)) for level in levels),
        hysteresis=draw(tenths),
        min_dwell_s=draw(tenths),
    )


settings = st.one_of(
    st.builds(Setting, value=values, shrink=st.sampled_from(["drain", "preempt"])),
    st.builds(Setting, law=laws()),
)
baselines = st.dictionaries(st.sampled_from(KNOBS), settings)
layers = st.lists(
    st.builds(
        Layer,
        knob=st.sampled_from(KNOBS),
        setting=settings,
        policy_id=st.integers(0, 10**6).map("pol_{}".format),
        expires_us=st.none() | st.integers(0, 2**50),
    ),
    max_size=8,
)
