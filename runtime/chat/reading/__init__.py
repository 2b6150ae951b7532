"""Reading an answer as it comes: what the parsers of all formats are made of.

A *reading* is a generator that yields parts, and None where it needs more text, so that a format's reader is written as
if the whole answer were there.

- `source`: `Source`, the text that came and was not read yet, and `ReadingParser`, which runs a reading
- `text`: text up to a marker, and several calls in one frame
- `json_scanner`: where a JSON value ends
- `json_calls`: calls that are written as JSON objects
- `tagged_values`: values between tags, which a schema makes JSON of
- `bare_objects`: objects whose keys have no quotes
- `json_strings`: what a JSON string says, and the inputs of custom tools
"""
