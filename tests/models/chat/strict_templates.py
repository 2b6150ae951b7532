"""Chat templates that are strict about whose turn it is, in the manner of families that are."""

from __future__ import annotations

# Qwen 3.5: a system turn is the first one, and the user has asked something that is no tool's result.
QWEN_35 = """
{%- if tools %}
    {{- "<|im_start|>system\\n# Tools\\n" }}{%- for tool in tools %}{{- tool | tojson + "\\n" }}{%- endfor %}
    {{- "<tool_call>\\n<function=f>\\n<parameter=a>\\n1\\n</parameter>\\n</function>\\n</tool_call>" }}
    {%- if messages[0].role == "system" %}{{- messages[0].content | trim }}{%- endif %}
    {{- "<|im_end|>\\n" }}
{%- elif messages[0].role == "system" %}
    {{- "<|im_start|>system\\n" + messages[0].content | trim + "<|im_end|>\\n" }}
{%- endif %}
{%- set ns = namespace(asked=false) %}
{%- for message in messages %}{%- if message.role == "user" %}{%- set ns.asked = true %}{%- endif %}{%- endfor %}
{%- if not ns.asked %}{{- raise_exception("No user query found in messages.") }}{%- endif %}
{%- for message in messages %}
    {%- if message.role == "system" %}
        {%- if not loop.first %}{{- raise_exception("System message must be at the beginning.") }}{%- endif %}
    {%- elif message.role == "user" %}{{- "<|im_start|>user\\n" + message.content | trim + "<|im_end|>\\n" }}
    {%- elif message.role == "assistant" %}
        {{- "<|im_start|>assistant\\n" }}
        {%- if message.reasoning_content %}
            {{- "<think>\\n" + message.reasoning_content + "\\n</think>\\n\\n" }}
        {%- endif %}
        {{- (message.content or "") | trim }}
        {%- for call in message.tool_calls or [] %}
            {{- "<tool_call>\\n<function=" + call.function.name + ">\\n" }}
            {%- for name, value in call.function.arguments | items %}
                {{- "<parameter=" + name + ">\\n" + value | string + "\\n</parameter>\\n" }}
            {%- endfor %}
            {{- "</function>\\n</tool_call>" }}
        {%- endfor %}
        {{- "<|im_end|>\\n" }}
    {%- elif message.role == "tool" %}
        {{- "<|im_start|>user\\n<tool_response>\\n" + message.content + "\\n</tool_response><|im_end|>\\n" }}
    {%- else %}{{- raise_exception("Unexpected message role.") }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|im_start|>assistant\\n<think>\\n" }}{%- endif %}
"""

# Gemma 2: no system turn, and the roles alternate.
GEMMA_2 = """
{{- bos_token }}
{%- if messages[0].role == "system" %}{{- raise_exception("System role not supported") }}{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
    {{- "<start_of_turn>" + ("model" if message.role == "assistant" else message.role) + "\\n" }}
    {{- message.content | trim + "<end_of_turn>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<start_of_turn>model\\n" }}{%- endif %}
"""

# Gemma 3: the system turn is the beginning of the user's first.
GEMMA_3 = """
{{- bos_token }}
{%- set first = messages[0].content + "\\n\\n" if messages[0].role == "system" else "" %}
{%- set rest = messages[1:] if messages[0].role == "system" else messages %}
{%- for message in rest %}
    {%- if (message.role == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif %}
    {{- "<start_of_turn>" + ("model" if message.role == "assistant" else message.role) + "\\n" }}
    {{- (first if loop.first else "") + message.content | trim + "<end_of_turn>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<start_of_turn>model\\n" }}{%- endif %}
"""

# Mistral: the roles alternate, calls and their results apart; an answer says something.
MISTRAL_STRICT = """
{{- bos_token }}
{%- if messages[0].role == "system" %}
    {%- set system = messages[0].content %}{%- set rest = messages[1:] %}
{%- else %}{%- set rest = messages %}{%- endif %}
{%- set ns = namespace(index=0) %}
{%- for message in rest %}
    {%- if message.role == "user" or (message.role == "assistant" and message.tool_calls is not defined) %}
        {%- if (message.role == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{%- if system is defined %}{{- "[SYSTEM_PROMPT]" + system + "[/SYSTEM_PROMPT]" }}{%- endif %}
{%- if tools %}{{- "[AVAILABLE_TOOLS]" + tools | tojson + "[/AVAILABLE_TOOLS]" }}{%- endif %}
{%- for message in rest %}
    {%- if message.role == "user" %}{{- "[INST]" + message.content + "[/INST]" }}
    {%- elif message.role == "assistant" %}
        {%- if not message.content and not message.tool_calls %}
            {{- raise_exception("Assistant message must have a content or tool calls") }}
        {%- endif %}
        {{- message.content or "" }}
        {%- for call in message.tool_calls or [] %}
            {%- if call.id | length != 9 %}{{- raise_exception("ids have nine characters") }}{%- endif %}
            {{- "[TOOL_CALLS]" + call.function.name + "[ARGS]" + call.function.arguments | tojson }}
        {%- endfor %}
        {{- eos_token }}
    {%- elif message.role == "tool" %}{{- "[TOOL_RESULTS]" + message.content + "[/TOOL_RESULTS]" }}
    {%- else %}{{- raise_exception("Only user, assistant, system and tool roles are supported.") }}
    {%- endif %}
{%- endfor %}
"""
