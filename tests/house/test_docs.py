"""Documentation that can rot is run: generated pages, commands, links, words, examples."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest
import yaml

from controller.config.load import validate
from controller.config.tree import leaves
from controller.rules.firing import compile_rules
from controller.settings import Settings
from docs import build, commands
from policies.lifecycle import STATES
from tests.house.tree import BESIDE, PACKAGES, ROOT, name_of, sources

DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)|src=\"([^\"]+)\"")
WORDS = (
    "action arm attainment audit baseline block bus context crossover dead_letter digest"
    " emergency_rule engine epoch event feature fence fold freeze goodput guard guardrail hold"
    " holdback incarnation intent kill knob ladder law learner mode operator orphan override pin"
    " policy principal propensity read-back reconciler replica revert reward rollback rule scope"
    " setpoint settings signal stamp switchback target tpot trial trip ttft unit verdict"
    " washout watermark window"
).split()


@pytest.mark.parametrize("path", build.makers(), ids=lambda path: path.name)
def test_a_generated_page_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == build.makers()[path](), "run `make docs`"


def test_every_command_of_the_pages_exists() -> None:
    known = set(commands.names())
    groups = {" ".join(name.split()[:2]) for name in known}
    for path in PAGES:
        for spoken in shell_lines(path, "trimtab"):
            words = spoken.split()
            named = {" ".join(words[: n + 1]) for n in (1, 2)}
            assert named & known or " ".join(words[:2]) in groups - known, f"{path.name}: {spoken}"


def test_every_make_target_of_the_pages_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for path in PAGES:
        for spoken in shell_lines(path, "make"):
            words = [word for word in spoken.split()[1:] if "=" not in word and word[0] != "-"]
            assert not words or words[0] in targets, f"{path.name}: {spoken}"


def shell_lines(path: Path, command: str) -> list[str]:
    """What the page shows of one command, in backticks or in indented and fenced lines."""
    text = path.read_text(encoding="utf-8")
    inline = re.findall(rf"`((?:\.venv/bin/)?{command} [^`]+)`", text)
    blocks = re.findall(
        rf"^(?:    )?(?:\$ )?((?:\.venv/bin/)?{command} [a-z].*)$", text, re.MULTILINE
    )
    return [line.removeprefix(".venv/bin/") for line in [*inline, *blocks] if "…" not in line]


def test_the_help_of_make_names_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert targets == set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))


def test_every_link_leads_somewhere() -> None:
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        for link in (next(filter(None, groups)) for groups in LINK.findall(text)):
            if re.match(r"[a-z]+:", link):
                continue
            place, _, anchor = link.partition("#")
            file = (path.parent / place).resolve() if place else path
            assert file.exists(), f"{path.name}: {link}"
            if anchor:
                assert anchor in anchors(file), f"{path.name}: {link}"


def anchors(path: Path) -> set[str]:
    """The anchors that a Markdown page's headings get."""
    heads = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_page_is_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in seen or path.suffix != ".md":
            continue
        seen.add(path)
        for groups in LINK.findall(path.read_text(encoding="utf-8")):
            link = next(filter(None, groups)).partition("#")[0]
            if link and not re.match(r"[a-z]+:", link):
                waiting.append((path.parent / link).resolve())
    assert set(PAGES) - seen == set()


def test_the_glossary_keeps_every_word() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    defined = {word.lower() for word in re.findall(r"^\*\*([^*]+)\*\*", text, re.MULTILINE)}
    kept = {word for entry in defined for word in re.split(r", | \(|\)", entry)}
    assert {word.replace("_", " ") for word in WORDS} - kept == set()


def test_the_glossary_is_in_alphabetical_order() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    entries = [word.lower() for word in re.findall(r"^\*\*([^*]+)\*\*", text, re.MULTILINE)]
    assert entries == sorted(entries)


def test_every_state_of_a_policy_is_explained() -> None:
    text = (DOCS / "policies.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^- \*\*(\w+)\*\*", text, re.MULTILINE))
    assert explained == set(STATES)


def test_every_setting_named_in_a_page_exists() -> None:
    known = {leaf.path for leaf in leaves(Settings)}
    sections = {path.partition(".")[0] for path in known if "." in path} - {"targets"}
    named = re.compile(rf"`((?:{'|'.join(sorted(sections))})\.[a-z_]+)`")
    known |= {name_of(path) for path in sources(*PACKAGES)}
    files = (".db", ".json")
    for path in PAGES:
        for spoken in named.findall(path.read_text(encoding="utf-8")):
            assert spoken in known or spoken.endswith(files), f"{path.name}: {spoken}"


def test_every_module_named_in_a_page_exists() -> None:
    modules = {name_of(path) for path in sources(*PACKAGES, *BESIDE)}
    rooms = "|".join([*PACKAGES, *BESIDE])
    named = re.compile(rf"`((?:{rooms})(?:/[a-z_0-9]+)+)(\.py|/)?`")
    for path in PAGES:
        for stem, end in named.findall(path.read_text(encoding="utf-8")):
            exists = stem.replace("/", ".") in modules or (ROOT / stem).is_dir()
            assert exists, f"{path.name}: {stem}{end}"


WITH_EXAMPLES = [
    name_of(path)
    for path in sources(*PACKAGES, "docs", "examples")
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_in_docstrings_are_true(name: str) -> None:
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted > 0
    assert done.failed == 0


CONFIGURED = [
    (path, text)
    for path in PAGES
    for text in re.findall(
        r"```yaml\n(targets:.*?)```", path.read_text(encoding="utf-8"), re.DOTALL
    )
]


@pytest.mark.parametrize(("path", "text"), CONFIGURED, ids=lambda each: getattr(each, "name", ""))
def test_a_configuration_in_a_page_is_sound(path: Path, text: str) -> None:
    settings = validate(yaml.safe_load(text), source=path.name)
    for target in settings.targets.values():
        rules = compile_rules(target.rules, intents=target.intents, metrics=settings.metrics)
        assert len(target.rules) == len(rules.rules), path.name
