"""Text comes out in whole characters, and never a piece of a stop string."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.embedded.text import TextStream

TEXT = st.text(alphabet="abé€😀 ", max_size=40)
STOPS = st.lists(st.text(alphabet="abé😀", min_size=1, max_size=4), max_size=3)


def cut_by_hand(text: str, stops: list[str]) -> str:
    found = [text.find(stop) for stop in stops if stop in text]
    return text[: min(found)] if found else text


@given(text=TEXT, stops=STOPS, cuts=st.lists(st.integers(1, 5), max_size=60))
def test_however_the_bytes_are_cut_the_text_ends_before_the_first_stop(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    raw, stream, seen, at = text.encode(), TextStream(stop=stops), "", 0
    for cut in [*cuts, len(raw)]:
        piece = stream.push(raw[at : at + cut])
        assert "\ufffd" not in piece
        seen, at = seen + piece, at + cut
        if stream.stopped:
            break
    seen += stream.flush()
    if not stream.stopped:
        assert seen == text
        assert not any(stop in text for stop in stops)
        return
    assert not any(stop in seen for stop in stops)
    met = [text[:end] for end in range(len(text) + 1) if any(stop in text[:end] for stop in stops)]
    assert seen in {cut_by_hand(so_far, stops) for so_far in met}


def test_a_stop_string_across_three_tokens_is_cut_out() -> None:
    stream = TextStream(stop=("</answer>",))
    pieces = [stream.push(piece) for piece in (b"42</", b"ans", b"wer>", b" more")]
    assert pieces == ["42", "", "", ""]
    assert stream.stopped
    assert stream.flush() == ""


def test_what_only_looked_like_a_stop_string_is_given_out() -> None:
    stream = TextStream(stop=("###",))
    assert stream.push(b"a ##") == "a "
    assert stream.push(b" b") == "## b"
    assert not stream.stopped


def test_a_character_cut_off_by_the_end_is_shown_as_such() -> None:
    stream = TextStream()
    assert stream.push("é".encode()[:1]) == ""
    assert stream.flush() == "\ufffd"
