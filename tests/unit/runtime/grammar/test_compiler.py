"""Compiler: what is compiled, and what is refused by name."""

from __future__ import annotations

import json
import re
from contextlib import suppress

import pytest

from runtime.errors import GrammarFailed, RequestError
from runtime.grammar.compiler import MAX_KEPT, MAX_KEPT_CHARACTERS, GrammarCompiler
from runtime.grammar.grammar import Grammar, GrammarKind
from runtime.text.tokenizer import Tokenizer
from tests.models.small_tokenizers import byte_level, llama2_style

END = 2


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    tokenizer = Tokenizer(byte_level())
    return GrammarCompiler(tokenizer, tokenizer.vocab_size + 50, (END,))


def accepts(compiler: GrammarCompiler, grammar: Grammar, text: str) -> bool:
    """Return whether the text is a whole output, or at least might end there."""
    matcher = compiler.compile(grammar).matcher()
    tokens = Tokenizer(byte_level()).encode(text, add_special_tokens=False)
    return matcher.count_valid([*tokens, END]) == len(tokens) + 1 or (
        matcher.count_valid(tokens) == len(tokens) and matcher.is_complete_after(tokens)
    )


def schema(**members: object) -> Grammar:
    return Grammar(GrammarKind.JSON_SCHEMA, json.dumps(members), "response_format.json_schema.schema")


@pytest.mark.parametrize(
    ("grammar", "good", "bad"),
    [
        (schema(type="object"), '{"a": [1, true, null]}', "[1]"),
        (schema(enum=["a", 1]), "1", "2"),
        (Grammar(GrammarKind.REGEX, r"^a+/b$"), "aa/b", "aab"),
        (Grammar(GrammarKind.CHOICE, '["yes", "n\\"o\\n", "größer"]'), 'n"o\n', "no"),
        (Grammar(GrammarKind.CHOICE, '["yes", "größer"]'), "größer", "grosser"),
        (Grammar(GrammarKind.LARK, 'start: "a" B\nB: /[0-9]/'), "a7", "7a"),
        (Grammar(GrammarKind.GBNF, 'root ::= "a" b?\nb ::= [0-9]{2}\n'), "a77", "a7"),
        (Grammar(GrammarKind.GBNF, 'start: "Lark is taken, too"'), "Lark is taken, too", "Lark"),
    ],
    ids=str,
)
def test_a_grammar_of_each_language_matches_its_texts(
    compiler: GrammarCompiler, grammar: Grammar, good: str, bad: str
) -> None:
    assert accepts(compiler, grammar, good)
    assert not accepts(compiler, grammar, bad)


def test_json_has_room_for_indentation_and_not_for_endless_spaces(compiler: GrammarCompiler) -> None:
    grammar = schema(type="object", properties={"a": {"type": "integer"}}, required=["a"])
    assert accepts(compiler, grammar, '{\n    "a": 1\n}')
    assert not accepts(compiler, grammar, "{" + " " * 100 + '"a": 1}')
    assert not accepts(compiler, grammar, "{" + "\n" * 3 + '"a": 1}')


REFUSED = {
    "a keyword": (schema(type="array", uniqueItems=True), "uniqueItems"),
    "a keyword deep inside": (schema(properties={"a": {"if": {}}}), '"if"'),
    "a format": (schema(type="string", format="iban"), "iban"),
    "a type": (schema(type="strings"), "strings"),
    "nothing fits": (schema(type="string", enum=[1]), "Unsatisfiable"),
    "one of two that overlap": (schema(oneOf=[{"type": "string"}, {"type": "string", "maxLength": 3}]), "oneOf"),
    "elsewhere": (schema(**{"$ref": "http://example.org/schema"}), "http://example.org/schema"),
    "no JSON": (Grammar(GrammarKind.JSON_SCHEMA, "{"), "not valid JSON"),
    "no object": (Grammar(GrammarKind.JSON_SCHEMA, "[1]"), "must be an object"),
    "a bracket": (Grammar(GrammarKind.REGEX, "(a"), "unclosed group"),
    "looking around": (Grammar(GrammarKind.REGEX, "(?=a)b"), "look-around"),
    "an unknown rule": (Grammar(GrammarKind.LARK, "start: foo"), 'unknown name: "foo"'),
    "a place": (Grammar(GrammarKind.LARK, 'start: "a"\nb: )'), re.escape("2(4)")),
    "GBNF's line": (Grammar(GrammarKind.GBNF, 'root ::= "a"\nb ::= "\n'), "line"),
    "an unknown token": (Grammar(GrammarKind.LARK, "start: <|nope|>"), "nope"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_by_name(compiler: GrammarCompiler, case: str) -> None:
    grammar, named = REFUSED[case]
    with pytest.raises(RequestError, match=named) as raised:
        compiler.compile(grammar)
    assert raised.value.param == grammar.param
    assert len(str(raised.value)) < 600


def crossing(rules: int) -> str:
    """A Lark grammar in which each letter may begin so many rules."""
    ways = " | ".join(f'"{chr(97 + i % 26)}" t{i}' for i in range(rules))
    return f"start: s*\ns: {ways}\n" + "".join(f't{i}: /[a-z]/ | /[a-z]/ s | " " s\n' for i in range(rules))


def nested(levels: int) -> str:
    return '{"type":"array","items":' * levels + "{}" + "}" * levels


HOSTILE = {
    "deep": Grammar(GrammarKind.JSON_SCHEMA, nested(60)),
    "very deep": Grammar(GrammarKind.JSON_SCHEMA, nested(50_000)),
    "many members": schema(properties={f"p{i}": {} for i in range(2000)}),
    "many objects": schema(anyOf=[{"const": {}} for _ in range(9000)]),
    "a large enum": schema(enum=[f"value {i}" for i in range(8000)]),
    "too long": schema(enum=[f"value {i}" for i in range(100_000)]),
    "a product of alternatives": schema(
        allOf=[{"anyOf": [{"properties": {f"a{i}_{j}": {}}} for j in range(8)]} for i in range(8)]
    ),
    "exponential states": Grammar(GrammarKind.REGEX, "(a|b)*a(a|b){60}"),
    "repeated repetitions": Grammar(GrammarKind.REGEX, "((a{0,999}){0,999}){0,999}"),
    "brackets of a pattern": Grammar(GrammarKind.REGEX, "(" * 5000 + "a" + ")" * 5000),
    "brackets of a grammar": Grammar(GrammarKind.LARK, "start: " + "(" * 50_000 + '"a"' + ")" * 50_000),
    "brackets of GBNF": Grammar(GrammarKind.GBNF, "root ::= " + "(" * 5000 + '"a"' + ")" * 5000),
    "doublings": Grammar(
        GrammarKind.LARK, "\n".join(["start: A0", *(f"A{i}: A{i + 1} A{i + 1}" for i in range(40))]) + '\nA40: "x"'
    ),
    "repeated rules": Grammar(GrammarKind.LARK, 'start: ("a"{1000}){1000}'),
    "a large divisor": schema(type="integer", multipleOf=982451653, minimum=0, maximum=10**30),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_grammar_is_refused_or_bounded_and_harms_no_other(compiler: GrammarCompiler, case: str) -> None:
    """What it costs is bounded by counts, and so is what an output of it costs."""
    ordinary = schema(type="object")
    neighbour = compiler.compile(ordinary).matcher()
    before = neighbour.mask_after(())
    with suppress(RequestError, GrammarFailed):
        matcher = compiler.compile(HOSTILE[case]).matcher()
        for _ in range(20):
            bits = int.from_bytes(matcher.mask_after(()), "little")
            if matcher.is_complete_after():
                break
            matcher.accept((bits & -bits).bit_length() - 1)
    assert neighbour.mask_after(()) == before == compiler.compile(ordinary).matcher().mask_after(())
    assert accepts(compiler, ordinary, '{"a": 1}')


def test_what_takes_too_much_work_to_begin_is_refused(compiler: GrammarCompiler) -> None:
    """Its first mask would end the request that waited for a slot."""
    with pytest.raises(RequestError, match="items"):
        compiler.compile(Grammar(GrammarKind.LARK, crossing(1000), "grammar"))


def test_work_is_bounded_at_each_step(compiler: GrammarCompiler) -> None:
    """What begins well may still grow: then the output fails, with an error that says so."""
    growing = 'start: "x" s*\n' + crossing(1000).partition("\n")[2]
    matcher = compiler.compile(Grammar(GrammarKind.LARK, growing)).matcher()
    (token_id,) = Tokenizer(byte_level()).encode("x", add_special_tokens=False)
    with pytest.raises(GrammarFailed, match="items"):
        matcher.mask_after([token_id])


def test_an_object_may_have_many_properties(compiler: GrammarCompiler) -> None:
    many = {f"p{i}": {"type": "integer"} for i in range(240)}
    assert accepts(compiler, schema(properties=many), '{"p7": 1}')
    assert accepts(compiler, schema(properties=many | {"q": {}}, required=["q"]), '{"p7": 1, "q": 2}')
    with pytest.raises(RequestError, match="'properties'"):
        compiler.compile(schema(properties=many | {"q": {}}))


def test_a_grammar_is_compiled_once_and_the_oldest_is_forgotten(compiler: GrammarCompiler) -> None:
    first = compiler.compile(Grammar(GrammarKind.REGEX, "first", "a"))
    assert compiler.compile(Grammar(GrammarKind.REGEX, "first", "b")) is first
    for i in range(MAX_KEPT - 1):
        compiler.compile(Grammar(GrammarKind.REGEX, f"another {i}"))
    assert compiler.compile(Grammar(GrammarKind.REGEX, "first", "a")) is first, "it was used, and is the newest again"
    for i in range(MAX_KEPT):
        compiler.compile(Grammar(GrammarKind.REGEX, f"other {i}"))
    assert compiler.compile(Grammar(GrammarKind.REGEX, "first", "a")) is not first


def test_large_grammars_are_forgotten_sooner(compiler: GrammarCompiler) -> None:
    first = compiler.compile(Grammar(GrammarKind.REGEX, "first"))
    size = MAX_KEPT_CHARACTERS // 8
    for i in range(8):
        compiler.compile(Grammar(GrammarKind.JSON_SCHEMA, json.dumps({"type": "null", "description": f"{i:{size}}"})))
    assert compiler.compile(Grammar(GrammarKind.REGEX, "first")) is not first


def test_a_mask_has_a_bit_for_each_logit_and_none_for_padding() -> None:
    tokenizer = Tokenizer(llama2_style())
    compiled = GrammarCompiler(tokenizer, 1000, (2,)).compile(Grammar(GrammarKind.REGEX, r"(.|\n)*"))
    bits = compiled.matcher().mask_after(())
    assert len(bits) == 4 * 32
    allowed = {i for i in range(len(bits) * 8) if bits[i // 8] >> i % 8 & 1}
    assert max(allowed) < tokenizer.vocab_size
    assert 2 in allowed


def test_a_model_without_an_end_token_ends_where_nothing_may_follow() -> None:
    compiled = GrammarCompiler(Tokenizer(byte_level()), 500, ()).compile(Grammar(GrammarKind.CHOICE, '["a"]'))
    matcher = compiled.matcher()
    (token_id,) = Tokenizer(byte_level()).encode("a", add_special_tokens=False)
    matcher.accept(token_id)
    assert matcher.is_complete_after()
