"""Text to tokens and back, from what the GGUF file itself carries.

The chat template is the model's own, rendered in a sandbox: it came from a downloaded file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from signals.errors import Rejected

CONTROL_TOKEN = 3
"""GGUF's token type of specials, which are matched whole and never shown."""


def build_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """A byte-level BPE tokenizer from GGUF metadata (``tokenizer.ggml.*``)."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    vocab = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, kinds, strict=True)
            if kind == CONTROL_TOKEN
        ]
    )
    return tokenizer


_QUOTE = "\0"
"""Fences control tokens that a user wrote out; removed from what users send."""


class ChatTokenizer:
    """Chat messages and text to token ids; token ids to bytes."""

    def __init__(self, tokenizer: Tokenizer, *, chat_template: str) -> None:
        self._tokenizer = tokenizer
        self._plain = Tokenizer(tokenizer.model)
        self._plain.pre_tokenizer = tokenizer.pre_tokenizer
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        self._template = environment.from_string(chat_template)
        added = tokenizer.get_added_tokens_decoder()
        self._control = re.compile("|".join(re.escape(token.content) for token in added.values()))
        self._bytes = _byte_table(tokenizer, silent=frozenset(added))

    @classmethod
    def load(cls, folder: Path, *, chat_template: str) -> ChatTokenizer:
        """From a prepared folder's ``tokenizer.json``."""
        return cls(Tokenizer.from_file(str(folder / "tokenizer.json")), chat_template=chat_template)

    def chat(self, messages: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
        """Token ids of a conversation, ending where the assistant is to speak.

        Each message has ``role`` and ``content``. Control tokens written out in them are plain
        text: a user cannot close his own turn. Raises ``Rejected`` when the template refuses.
        """
        quoted = [{name: self._quote(text) for name, text in one.items()} for one in messages]
        try:
            text = self._template.render(messages=quoted, add_generation_prompt=True)
        except TemplateError as error:
            raise Rejected(f"the chat template refused: {error}", field="messages") from error
        ids: list[int] = []
        for index, piece in enumerate(text.split(_QUOTE)):
            tokenizer = self._plain if index % 2 else self._tokenizer
            ids.extend(tokenizer.encode(piece, add_special_tokens=False).ids)
        return tuple(ids)

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of plain text; control tokens in it are recognised."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def token_bytes(self, token: int) -> bytes:
        """The bytes one token stands for; empty for control tokens."""
        return self._bytes[token]

    def decode(self, tokens: Sequence[int]) -> str:
        """The whole text of finished tokens."""
        return b"".join(map(self.token_bytes, tokens)).decode("utf-8", errors="replace")

    def _quote(self, text: str) -> str:
        return self._control.sub(
            lambda found: f"{_QUOTE}{found[0]}{_QUOTE}", text.replace(_QUOTE, "")
        )


def _byte_table(tokenizer: Tokenizer, *, silent: frozenset[int]) -> tuple[bytes, ...]:
    """Bytes of every token id, through the byte-level alphabet."""
    alphabet = _byte_alphabet()
    vocab = sorted(tokenizer.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1])
    return tuple(
        b"" if number in silent else bytes(alphabet[letter] for letter in token)
        for token, number in vocab
    )


def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE writes each byte as one letter: printable ones as themselves, the rest moved
    to U+0100 and up in order (Radford et al., 2019)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(0x100 + index): byte for index, byte in enumerate(moved)}
