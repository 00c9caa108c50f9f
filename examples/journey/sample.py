"""The sample configuration: what an operator would write, with shorter blocks and a larger α."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from examples.journey.options import Options

TARGET = "chat"
KNOB = "active_cap"
LADDER = (1, 2, 4, 8, 16, 32, 64)
BASELINE_CAP = 2
STEP_BUDGET = 64
TPOT_SAFETY = 0.6
"""The plant keeps this share below the TPOT limit: when chats come back, preempted jobs are
computed again beside them for some seconds."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long things take in a run: phases of the chats, the batch SLO, the trial's blocks."""

    on_s: float
    off_s: float
    batch_e2e_ms: int
    washout_s: float
    block_s: float
    flood: int
    chats_per_s: float

    @property
    def cycle_s(self) -> float:
        """One phase with chats and one without."""
        return self.on_s + self.off_s


FULL = Pace(
    on_s=7.5,
    off_s=7.5,
    batch_e2e_ms=5000,
    washout_s=3.0,
    block_s=17.0,
    flood=80,
    chats_per_s=2.0,
)
SHORT = Pace(
    on_s=4.0,
    off_s=4.0,
    batch_e2e_ms=3000,
    washout_s=2.0,
    block_s=9.0,
    flood=80,
    chats_per_s=2.0,
)


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Free ports of one run."""

    chat: int
    control: int
    signals: int
    api: int

    def url(self, port: int) -> str:
        """Its address on this machine."""
        return f"http://127.0.0.1:{port}"


def pace_of(options: Options) -> Pace:
    """The full story's pace, or the short one's."""
    return SHORT if options.short else FULL


def free_ports() -> Ports:
    """Four ports that nobody listens on now."""
    with ExitStack() as stack:
        found = []
        for _ in range(4):
            one = stack.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            found.append(one.getsockname()[1])
    return Ports(chat=found[0], control=found[1], signals=found[2], api=found[3])


def configuration(options: Options, pace: Pace, ports: Ports, state_dir: Path) -> str:
    """The text of ``trimtab.yaml``."""
    ladder = ", ".join(str(value) for value in LADDER)
    return f"""\
# SAMPLE configuration of `make run`. What is sample about it is marked so; the rest is what an
# operator would write. Traffic, its users and their feedback are sample too.
state_dir: {state_dir}
targets:
  {TARGET}:
    engine: {{kind: embedded}}
    on_kill: last_stable
    maximize: batch.tokens_per_s
    baseline: {{{KNOB}: {BASELINE_CAP}, step_token_budget: {STEP_BUDGET}}}   # SAMPLE
    intents:
      live:
        class: interactive
        slo: {{ttft_ms: 1000, tpot_ms: {options.tpot_ms}, attainment: 0.95}}
      batch:
        class: batch
        slo: {{e2e_ms: {pace.batch_e2e_ms}, attainment: 0.90}}   # SAMPLE: short jobs
    knobs:
      default: observe
      {KNOB}: {{ladder: [{ladder}], safer: down}}
    rules:
      - {{id: slow, emergency: true, when: "live.attainment < 0.9", for: 20s,
         propose: {{{KNOB}: down}}}}
      - {{id: idle, when: "live.attainment > 0.98 && batch.waiting > 0.0", for: 300s,
         propose: {{{KNOB}: up}}}}
trial:
  alpha: {options.alpha}          # SAMPLE: larger than the default, so that the story is short
  guard_alpha: {options.alpha}    # SAMPLE
  washout_s: {pace.washout_s}     # SAMPLE: jobs of at most 16 tokens drain fast
  block_s: {pace.block_s}         # SAMPLE: a law's are the washout and one cycle
  min_requests: 5                 # SAMPLE
  max_units: 16                   # SAMPLE
  attainment_margin: 0.1          # SAMPLE: one miss among a block's 15 chats is 7 points
  trip_misses: 300                # SAMPLE: the flood sends as fast as it is served, so whichever
                                  # arm serves faster also misses more
  law_window_s: 1.5               # SAMPLE: while chats come, several come in a second
  seed: {options.seed}            # SAMPLE: coins that can be known beforehand
plant:
  tpot_safety: {TPOT_SAFETY}      # SAMPLE: cautious, for the cap falls every 15 s
features:
  lateness_s: 3                   # SAMPLE: one machine, one clock
engine:
  port: {ports.chat}
  control_port: {ports.control}
ingest:
  port: {ports.signals}
serve:
  port: {ports.api}
"""
