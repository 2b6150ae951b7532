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
            {{- "\\n<tool_call>\\n" + {"name": call.function.name} | tojson }}
            {{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
            {{- "\\n</tool_call>" }}
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
