"""Generation of an answer: the actors of one request, and what they leave for its reader.

For `actors.request`; rests on `actors.core`.  Nothing here changes what the slot manager owns: the actors send commands
by their `Hold`.

- `prefill`, `decode`: the actors · `prompt_reading`: what a prompt gives besides KV · `drafting`: where drafts come
  from · `draft_length`: how many are worth it
- `grammars`, `constraint`: what an output must be · `assembly`: what a generation is made of
- `output`: what was generated so far · `buffer`: what waits for the reader · `unread`: how much may wait, in all
- `request_log`: the line in the log for a request that ended; `attended`: who is told of its coming and end
"""
