"""Chat templates in the manner of each family, written for these tests: small, and as demanding as the real ones."""

from __future__ import annotations

CHATML = """
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""

# Qwen 3: tools in the system turn, calls as objects or text, thought of the last exchange only.
HERMES = """
{%- if tools %}
    {{- "<|im_start|>system\\n" }}
    {%- if messages[0].role == "system" %}{{- messages[0].content + "\\n" }}{%- endif %}
    {{- "# Tools\\n" }}
    {%- for tool in tools %}{{- tool | tojson + "\\n" }}{%- endfor %}
    {{- "Answer with <tool_call>{...}</tool_call>.<|im_end|>\\n" }}
{%- elif messages[0].role == "system" %}
    {{- "<|im_start|>system\\n" + messages[0].content + "<|im_end|>\\n" }}
{%- endif %}
{%- set ns = namespace(last=0) %}
{%- for message in messages %}{%- if message.role == "user" %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "user" %}
        {{- "<|im_start|>user\\n" + message.content + "<|im_end|>\\n" }}
    {%- elif message.role == "assistant" %}
        {{- "<|im_start|>assistant\\n" }}
        {%- if message.reasoning_content is string and loop.index0 > ns.last %}
            {{- "<think>\\n" + message.reasoning_content + "\\n</think>\\n\\n" }}
        {%- endif %}
        {{- message.content or "" }}
        {%- for call in message.tool_calls or [] %}
            {{- "\\n<tool_call>\\n" + '{"name": ' + call.function.name | tojson + ', "arguments": ' }}
            {{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
            {{- "}\\n</tool_call>" }}
        {%- endfor %}
        {{- "<|im_end|>\\n" }}
    {%- elif message.role == "tool" %}
        {{- "<|im_start|>user\\n<tool_response>" + message.content + "</tool_response><|im_end|>\\n" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- "<|im_start|>assistant\\n" }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- "<think>\\n\\n</think>\\n\\n" }}{%- endif %}
{%- endif %}
"""

# DeepSeek R1: the prompt opens the thought, and nothing turns it off.
OPENED = """
{%- for message in messages %}
    {%- if message.role == "user" %}{{- "<|User|>" + message.content }}
    {%- elif message.role == "assistant" %}{{- "<|Assistant|>" + message.content.split("</think>")[-1] + "<|end|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|Assistant|><think>\\n" }}{%- endif %}
"""

# Qwen-Coder: calls as tags, from arguments as an object.
QWEN_XML = """
{%- for tool in tools or [] %}{{- "<|im_start|>system\\n" + tool | tojson + "<|im_end|>\\n" }}{%- endfor %}
{%- for message in messages %}
    {{- "<|im_start|>" + message.role + "\\n" + (message.content or "") }}
    {%- for call in message.tool_calls or [] %}
        {{- "<tool_call>\\n<function=" + call.function.name + ">\\n" }}
        {%- for name, value in call.function.arguments | items %}
            {{- "<parameter=" + name + ">\\n" + (value if value is string else value | tojson) + "\\n</parameter>\\n" }}
        {%- endfor %}
        {{- "</function>\\n</tool_call>" }}
    {%- endfor %}
    {{- "<|im_end|>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|im_start|>assistant\\n" }}{%- endif %}
"""

# Mistral: ids of nine characters, tools before the last question, calls as a list.
MISTRAL = """
{%- for message in messages %}
    {%- if message.role == "user" %}
        {%- if tools and loop.last %}{{- "[AVAILABLE_TOOLS]" + tools | tojson + "[/AVAILABLE_TOOLS]" }}{%- endif %}
        {{- "[INST]" + message.content + "[/INST]" }}
    {%- elif message.role == "assistant" and message.tool_calls %}
        {{- "[TOOL_CALLS][" }}
        {%- for call in message.tool_calls %}
            {%- if call.id | length != 9 %}{{- raise_exception("ids have nine characters") }}{%- endif %}
            {{- call.function | tojson + (", " if not loop.last else "]") }}
        {%- endfor %}
    {%- elif message.role == "assistant" %}{{- message.content + eos_token }}
    {%- elif message.role == "tool" %}{{- "[TOOL_RESULTS]" + message.tool_call_id + message.content }}
    {%- endif %}
{%- endfor %}
"""

# Mistral Small 3.2: the name before the arguments.
MISTRAL_NAMED = """
{%- if tools %}{{- "[AVAILABLE_TOOLS]" + tools | tojson + "[/AVAILABLE_TOOLS]" }}{%- endif %}
{%- for message in messages %}
    {%- if message.role == "user" %}{{- "[INST]" + message.content + "[/INST]" }}
    {%- elif message.role == "assistant" %}
        {{- message.content or "" }}
        {%- for call in message.tool_calls or [] %}
            {{- "[TOOL_CALLS]" + call.function.name + "[ARGS]" + call.function.arguments | tojson }}
        {%- endfor %}
    {%- elif message.role == "tool" %}{{- "[TOOL_RESULTS]" + message.content + "[/TOOL_RESULTS]" }}
    {%- endif %}
{%- endfor %}
"""

# Llama 3.1: one call at a time, its arguments as `parameters`.
LLAMA = """
{%- if tools %}{{- "<|start|>system " + tools | tojson + "<|eot_id|>" }}{%- endif %}
{%- for message in messages %}
    {%- if "tool_calls" in message %}
        {%- if message.tool_calls | length != 1 %}{{- raise_exception("one call at a time") }}{%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start|>assistant {"name": "' + call.name + '", "parameters": ' + call.arguments | tojson }}
        {{- "}<|eot_id|>" }}
    {%- elif message.role == "tool" %}{{- "<|start|>ipython " + message.content | tojson + "<|eot_id|>" }}
    {%- else %}{{- "<|start|>" + message.role + " " + message.content + "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|start|>assistant " }}{%- endif %}
{#- <|python_tag|> #}
"""


def deepseek(text: str) -> str:
    """Spell DeepSeek's markers, which have characters of their own: `<!tool~sep!>` here."""
    bar = "\N{FULLWIDTH VERTICAL LINE}"
    return text.replace("<!", f"<{bar}").replace("!>", f"{bar}>").replace("~", "\N{LOWER ONE EIGHTH BLOCK}")


# DeepSeek V3: arguments as text, and calls only where the content is null.
_DEEPSEEK = """
{%- for tool in tools or [] %}{{- tool | tojson }}{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "user" %}{{- "<|User|>" + message.content }}
    {%- elif message.role == "assistant" and message.content is none %}
        {{- "<|Assistant|><!tool~calls~begin!>" }}
        {%- for call in message.tool_calls %}
            {{- "<!tool~call~begin!>function<!tool~sep!>" + call.function.name }}
            {{- "\\n```json\\n" + call.function.arguments + "\\n```<!tool~call~end!>" }}
        {%- endfor %}
        {{- "<!tool~calls~end!>" }}
    {%- elif message.role == "assistant" %}{{- "<|Assistant|>" + message.content }}
    {%- elif message.role == "tool" %}{{- "<!tool~output~begin!>" + message.content }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|Assistant|>" }}{%- endif %}
"""
DEEPSEEK = deepseek(_DEEPSEEK)
DEEPSEEK_31 = deepseek(
    _DEEPSEEK.replace('function<!tool~sep!>" + call.function.name', '" + call.function.name').replace(
        '\\n```json\\n" + call.function.arguments + "\\n```', '<!tool~sep!>" + call.function.arguments + "'
    )
)

# Phi-4-mini: the tools are a field of the system turn, and nothing is known of calls.
LISTED = """
{%- for message in messages %}
    {%- if message.role == "system" and message.tools %}
        {{- "<|system|>" + message.content + "<|tool|>" + message.tools + "<|/tool|><|end|>" }}
    {%- else %}{{- "<|" + message.role + "|>" + message.content + "<|end|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|assistant|>" }}{%- endif %}
"""

# gpt-oss: channels; what was thought is shown where a call follows it, and stands in `thinking`.
HARMONY = """
{{- "<|start|>system<|message|>Reasoning: " + (reasoning_effort or "medium") + "<|end|>" }}
{%- for tool in tools or [] %}
    {{- "<|start|>developer<|message|>type " + tool.function.name + "<|end|>" }}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "assistant" and message.tool_calls %}
        {%- set call = message.tool_calls[0].function %}
        {%- if message.content and message.thinking %}{{- raise_exception("either of them") }}{%- endif %}
        {%- if message.content or message.thinking %}
            {%- set thought = message.content or message.thinking %}
            {{- "<|start|>assistant<|channel|>analysis<|message|>" + thought + "<|end|>" }}
        {%- endif %}
        {{- "<|start|>assistant to=functions." + call.name + "<|channel|>commentary json<|message|>" }}
        {{- call.arguments | tojson + "<|call|>" }}
    {%- elif message.role == "assistant" %}
        {{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}
    {%- elif message.role == "tool" %}
        {{- "<|start|>functions." + message.name + " to=assistant<|channel|>commentary<|message|>" }}
        {{- message.content | tojson + "<|end|>" }}
    {%- else %}{{- "<|start|>" + message.role + "<|message|>" + message.content + "<|end|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|start|>assistant" }}{%- endif %}
"""

# Gemma 4 and FunctionGemma: keys are bare and sorted, texts stand between markers, the name is asked of the result.
_GEMMA = """
{%- macro shown(value) -%}
    {%- if value is string -%}{{- QUOTE + value + QUOTE -}}
    {%- elif value is boolean -%}{{- "true" if value else "false" -}}
    {%- elif value is mapping -%}
        {{- "{" -}}
        {%- for key, inner in value | dictsort -%}{{- key + ":" -}}{{- shown(inner) -}}{{- "," if not loop.last }}
        {%- endfor -%}
        {{- "}" -}}
    {%- elif value is sequence -%}
        {{- "[" -}}{%- for inner in value -%}{{- shown(inner) -}}{{- "," if not loop.last }}{%- endfor -%}{{- "]" -}}
    {%- else -%}{{- value -}}
    {%- endif -%}
{%- endmacro -%}
{%- for tool in tools or [] -%}
    {{- "<tool>declaration:" + tool.function.name + "{description:" + shown(tool.function.description) + "}" -}}
{%- endfor -%}
{%- for message in messages -%}
    {%- if message.role == "tool" -%}
        {{- "response:" + message.name + "{value:" + shown(message.content) + "}" -}}
    {%- else -%}
        {{- "<turn>" + ("model" if message.role == "assistant" else message.role) + "\\n" -}}
        {%- for call in message.tool_calls or [] -%}
            {{- "OPENcall:" + call.function.name -}}{{- shown(call.function.arguments) -}}{{- "CLOSE" -}}
        {%- endfor -%}
        {{- (message.content or "") + "<end>\\n" -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- "<turn>model\\n" -}}THINK
{%- endif -%}
"""
_SWITCH = """
    {%- if not enable_thinking | default(false) -%}{{- "<|channel>thought\\n<channel|>" -}}{%- endif -%}
"""
GEMMA_4 = (
    _GEMMA.replace("QUOTE", "'<|\"|>'").replace("OPEN", "<|tool_call>").replace("CLOSE", "<tool_call|>")
).replace("THINK", _SWITCH)
FUNCTION_GEMMA = (
    _GEMMA.replace("QUOTE", "'<escape>'")
    .replace("OPEN", "<start_function_call>")
    .replace("CLOSE", "<end_function_call>")
    .replace("THINK", "")
)

# GLM 4.5: keys and values between tags, on lines of their own.
GLM = """
{%- for tool in tools or [] -%}{{- "<|system|>" + tool | tojson -}}{%- endfor -%}
{%- for message in messages -%}
    {%- if message.role == "tool" -%}{{- "<|observation|><tool_response>" + message.content + "</tool_response>" -}}
    {%- else -%}
        {{- "<|" + message.role + "|>" -}}
        {%- if message.reasoning_content -%}{{- "<think>" + message.reasoning_content + "</think>" -}}{%- endif -%}
        {{- message.content or "" -}}
        {%- for call in message.tool_calls or [] %}
<tool_call>{{ call.function.name }}
{% for key, value in call.function.arguments.items() -%}
<arg_key>{{ key }}</arg_key>
<arg_value>{{ value if value is string else value | tojson }}</arg_value>
{% endfor -%}
</tool_call>
        {%- endfor -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- "<|assistant|>" -}}
    {%- if enable_thinking is defined and not enable_thinking -%}{{- "<think></think>" -}}{%- endif -%}
{%- endif -%}
"""
# GLM 4.7: the same without lines.
GLM_47 = (
    GLM.replace("{{ call.function.name }}\n{%", "{{ call.function.name }}{%")
    .replace("</arg_key>\n", "</arg_key>")
    .replace("</arg_value>\n{%", "</arg_value>{%")
)

# Kimi K2: what is called stands in the id alone.
KIMI = """
{%- if tools -%}{{- "<|im_system|>tool_declare<|im_middle|>" + tools | tojson + "<|im_end|>" -}}{%- endif -%}
{%- for message in messages -%}
    {{- "<|im_" + message.role + "|>" -}}
    {%- if message.role == "tool" -%}{{- "## Return of " + message.tool_call_id + "\\n" -}}{%- endif -%}
    {{- message.content or "" -}}
    {%- if message.tool_calls -%}
        {{- "<|tool_calls_section_begin|>" -}}
        {%- for call in message.tool_calls -%}
            {{- "<|tool_call_begin|>" + call.id + "<|tool_call_argument_begin|>" -}}
            {{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson -}}
            {{- "<|tool_call_end|>" -}}
        {%- endfor -%}
        {{- "<|tool_calls_section_end|>" -}}
    {%- endif -%}
    {{- "<|im_end|>" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<|im_assistant|>" -}}{%- endif -%}
"""

# MiniMax M2: all calls in one frame, and the prompt opens the thought.
MINIMAX = """
{%- for tool in tools or [] -%}{{- "<tool>" + tool.function | tojson + "</tool>" -}}{%- endfor -%}
{%- for message in messages -%}
    {{- "]~b]" + message.role + "\\n" -}}
    {%- if message.reasoning_content -%}{{- "<think>\\n" + message.reasoning_content + "\\n</think>\\n" -}}{%- endif -%}
    {%- if message.role == "tool" -%}{{- "<response>" + message.content + "</response>" -}}
    {%- else -%}{{- message.content or "" -}}
    {%- endif -%}
    {%- if message.tool_calls -%}
        {{- "\\n<minimax:tool_call>\\n" -}}
        {%- for call in message.tool_calls -%}
            {{- '<invoke name="' + call.function.name + '">\\n' -}}
            {%- for key, value in call.function.arguments.items() -%}
                {{- '<parameter name="' + key + '">' + (value if value is string else value | tojson) -}}
                {{- "</parameter>\\n" -}}
            {%- endfor -%}
            {{- "</invoke>\\n" -}}
        {%- endfor -%}
        {{- "</minimax:tool_call>" -}}
    {%- endif -%}
    {{- "[e~[\\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "]~b]ai\\n<think>\\n" -}}{%- endif -%}
"""

# Seed-OSS: Qwen's parameters, without lines, in a frame of its own.
SEED = (
    QWEN_XML.replace("tool_call>", "seed:tool_call>")
    .replace('">\\n" + (value', '">" + (value')
    .replace('+ "\\n</parameter>', '+ "</parameter>')
)
