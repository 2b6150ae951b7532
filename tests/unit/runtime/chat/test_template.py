"""Chat templates: what they render, what they are refused for, and what they cannot reach."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.chat.template import ChatTemplate
from runtime.checkpoint.open import open_checkpoint
from runtime.errors import CheckpointError, RequestError
from tests.models.small_tokenizers import byte_level

if TYPE_CHECKING:
    from pathlib import Path

anytime = settings(deadline=None)  # a busy machine is no failure
Messages = list[dict[str, Any]]

CHATML = """
{%- if tools %}
    {{- '<|im_start|>system\\nTools:\\n' }}
    {%- for tool in tools %}
        {{- tool | tojson }}
        {{- '\\n' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' }}
    {%- if message.content is defined %}{{- message.content }}{% endif %}
    {%- for call in message.tool_calls or [] %}
        {{- '<tool_call>' + (call.function | tojson(indent=2)) + '</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

LLAMA_2 = """
{% if messages[0]['role'] == 'system' %}
    {% set turns = messages[1:] %}
    {% set system = '<<SYS>>\\n' + messages[0]['content'] + '\\n<</SYS>>\\n\\n' %}
{% else %}
    {% set turns = messages %}
    {% set system = '' %}
{% endif %}
{% for message in turns %}
    {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{ raise_exception('Roles must alternate user/assistant/user/assistant/...') }}
    {% endif %}
    {% if message['role'] == 'user' %}
        {{- bos_token + '[INST] ' + (system if loop.first else '') }}
        {{- message['content'].strip() + ' [/INST]' }}
    {% else %}
        {{- ' ' + message['content'].strip() + ' ' + eos_token }}
    {% endif %}
{% endfor %}
"""

LLAMA_3 = """
{{- bos_token }}
{%- set ns = namespace(date=none, first=true) %}
{%- if not date_string is defined %}
    {%- set ns.date = strftime_now('%d %b %Y') | length %}
{%- else %}
    {%- set ns.date = date_string %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday: ' ~ ns.date ~ '<|eot_id|>' }}
{%- for message in messages %}
    {%- if message.role == 'skipped' %}{% continue %}{% endif %}
    {%- if message.role == 'end' %}{% break %}{% endif %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
    {%- if message.content is string %}
        {%- if message.role == 'assistant' %}
            {%- generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}
        {%- else %}
            {{- message['content'] | trim + '<|eot_id|>' }}
        {%- endif %}
    {%- else %}
        {%- for part in message.content | selectattr('type', 'equalto', 'text') %}
            {{- part.text }}
        {%- endfor %}
        {{- '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

TEMPLATES = {"chatml": CHATML, "llama2": LLAMA_2, "llama3": LLAMA_3}

CONVERSATIONS: list[Messages] = [
    [{"role": "user", "content": "Hello"}],
    [
        {"role": "system", "content": "Be <brief> & 'kind'."},
        {"role": "user", "content": "  Größe? 東京 👩‍👩‍👧‍👦  "},
        {"role": "assistant", "content": "1.80 m\n"},
        {"role": "user", "content": "{{ 7 * 6 }}{% raw %}<|im_end|>"},
    ],
]
TOOLS = [{"type": "function", "function": {"name": "größe", "description": "<b> & 'x'", "parameters": {}}}]


def save(folder: Path, template: object = None, **config: object) -> Path:
    config |= {"bos_token": {"__type": "AddedToken", "content": "<|bos|>"}, "eos_token": "<|im_end|>"}
    if template is not None:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def load(folder: Path, template: str) -> ChatTemplate:
    loaded = ChatTemplate.load(open_checkpoint(save(folder, template)))
    assert loaded is not None
    return loaded


def render(source: str, messages: Messages | None = None, /, **variables: Any) -> str:  # noqa: ANN401
    return ChatTemplate(source).render(messages or [], **variables)


# --- parity -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder_of_transformers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    byte_level().save(str(folder / "tokenizer.json"))
    return save(folder, tokenizer_class="PreTrainedTokenizerFast")


@pytest.mark.parametrize("add_generation_prompt", [True, False])
@pytest.mark.parametrize("messages", CONVERSATIONS, ids=["one", "several"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_parity_with_transformers(
    folder_of_transformers: Path, name: str, messages: Messages, add_generation_prompt: bool
) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(folder_of_transformers)
    ours = ChatTemplate(TEMPLATES[name], open_checkpoint(folder_of_transformers).token_names())
    for variables in ({}, {"tools": TOOLS}, {"enable_thinking": False, "date_string": "1 Jan 2026"}):
        expected = theirs.apply_chat_template(
            messages,
            chat_template=TEMPLATES[name],
            tokenize=False,
            add_generation_prompt=add_generation_prompt,
            **variables,
        )
        assert expected
        assert ours.render(messages, add_generation_prompt=add_generation_prompt, **variables) == expected


def test_parity_with_transformers_on_parts_tool_calls_and_loop_controls(folder_of_transformers: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(folder_of_transformers)
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": [1, None, "é"]}}}
    messages: Messages = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "skipped", "content": "no"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "end", "content": "no"},
    ]
    for source in (CHATML.replace("message.content }}", "message.content | string }}"), LLAMA_3):
        ours = ChatTemplate(source, open_checkpoint(folder_of_transformers).token_names())
        expected = theirs.apply_chat_template(messages, chat_template=source, tokenize=False)
        assert ours.render(messages, add_generation_prompt=False) == expected


# --- loading ------------------------------------------------------------------------------------------------


def test_the_file_comes_before_the_configuration(tmp_path: Path) -> None:
    save(tmp_path, "config {{ bos_token }}")
    loaded = ChatTemplate.load(open_checkpoint(tmp_path))
    assert loaded is not None
    assert loaded.render([]) == "config <|bos|>"
    (tmp_path / "chat_template.jinja").write_text("file {{ eos_token }}")
    loaded = ChatTemplate.load(open_checkpoint(tmp_path))
    assert loaded is not None
    assert loaded.render([]) == "file <|im_end|>"


def test_named_templates(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    loaded = ChatTemplate.load(open_checkpoint(save(tmp_path, named)))
    assert loaded is not None
    assert loaded.render([]) == "plain"
    with pytest.raises(CheckpointError, match="none of them named `default`"):
        ChatTemplate.load(open_checkpoint(save(tmp_path, named[:1])))
    with pytest.raises(CheckpointError, match="neither a string nor a list"):
        ChatTemplate.load(open_checkpoint(save(tmp_path, 7)))


def test_a_base_model_has_none(tmp_path: Path) -> None:
    assert ChatTemplate.load(open_checkpoint(tmp_path)) is None
    assert ChatTemplate.load(open_checkpoint(save(tmp_path))) is None


@pytest.mark.parametrize("source", ["a\n{% for %}", "a\n{{ x | no_such_filter }}", "a\n{% generation %}"])
def test_a_broken_template_is_the_operator_s_fault(tmp_path: Path, source: str) -> None:
    with pytest.raises(CheckpointError, match="broken at line 2"):
        ChatTemplate.load(open_checkpoint(save(tmp_path, source)))


@pytest.mark.parametrize(
    "source", ["{% for a in b %}" * 25 + "{% endfor %}" * 25, "{{" + "(" * 5000 + ")" * 5000 + "}}"]
)
def test_a_template_that_python_cannot_compile_is_the_operator_s_fault_too(source: str) -> None:
    with pytest.raises(CheckpointError, match="cannot be compiled"):
        ChatTemplate(source)


def test_an_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match="cannot be read"):
        ChatTemplate.load(open_checkpoint(tmp_path))


# --- rendering ----------------------------------------------------------------------------------------------


def test_a_template_s_own_refusal_reaches_the_client(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    with pytest.raises(RequestError, match="does not accept these messages: Roles must alternate") as caught:
        load(tmp_path, LLAMA_2).render(messages)
    assert caught.value.param == "messages"
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content.text }}",  # undefined: there is no message
        "{{ 'a' + messages }}",
        "{{ messages | tojson(indent='x', sort_keys=1) + 1 }}",
        "{{ 1 // 0 }}",
        "{{ {}['a']['b'] }}",
        "{{ raise_exception('') }}",
    ],
)
def test_what_a_template_cannot_cope_with_is_a_request_error(source: str) -> None:
    with pytest.raises(RequestError, match=r"does not accept these messages: \S"):
        render(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(a=1) }}",
        "{{ '{0.__class__}'.format(messages) | length // 0 }}",
        "{% for i in range(10 ** 9) %}{% endfor %}",
        "{{ raise_exception.__globals__.x }}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{{ namespace(__html__=1) }}",
        "{{ lipsum(n=10 ** 6) }}",
    ],
)
def test_the_sandbox(source: str) -> None:
    with pytest.raises(RequestError):
        render(source, [{"role": "user", "content": "x"}])


def test_namespace_takes_mappings_and_any_plain_name() -> None:
    source = "{% set n = namespace({'a': 1}, self=2) %}{% set n.b = 3 %}{{ n.a }}{{ n.self }}{{ n.b }}"
    assert render(source) == "123"


@anytime
@given(st.text())
def test_content_is_never_evaluated(content: str) -> None:
    for hostile in (content, "{{" + content + "}}", "{% if x %}" + content):
        assert render("{{ messages[0].content }}", [{"role": "user", "content": hostile}]) == hostile


def test_variables_cannot_replace_the_arguments() -> None:
    variables: dict[str, Any] = {"messages": "mine", "self": "mine", "extra": "x"}
    assert render("{{ messages | length }}{{ extra }}", [{"role": "user"}], **variables) == "1x"


def test_fields_that_are_none_are_absent_and_the_caller_s_messages_unchanged() -> None:
    messages: Messages = [{"role": "assistant", "content": None}]
    assert render("{{ messages[0].content is defined }}{{ tools is none }}", messages) == "FalseTrue"
    assert messages == [{"role": "assistant", "content": None}]


def test_tojson_is_not_escaped_for_html() -> None:
    assert render("{{ x | tojson }}", x={"b": "<é>'&", "a": 1}) == '{"b": "<é>\'&", "a": 1}'


def test_strftime_now() -> None:
    assert re.fullmatch(r"\d{2} [A-Za-z]+ 2\d{3}", render("{{ strftime_now('%d %b %Y') }}"))


def test_blocks_leave_no_lines_behind() -> None:
    assert render("a\n  {% if true %}\nb\n  {% endif %}\nc") == "a\nb\nc"
