"""The structures of `source/structures.h`, field by field; addresses are of tensors that somebody else keeps alive."""

from __future__ import annotations

from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_void_p
from enum import IntEnum

MOST_ROWS = 32  # of a call; for figures see bench/LOG.md, "Steps of more than eight rows"
LANES = 16  # numbers of a vector
TOKENS_OF_BLOCK = 64  # whose weights are summed together, where one is drawn


class Kind(IntEnum):
    """Layout of a matrix in memory, as `source/structures.h` says."""

    FOUR_BITS = 0
    ROWS_OF_FLOAT32 = 1
    ROWS_OF_BFLOAT16 = 2
    ROWS_OF_INT8 = 3
    PANELS_OF_FLOAT32 = 4
    PANELS_OF_BFLOAT16 = 5
    SPREAD_BYTES = 6
    NIBBLES = 7
    NIBBLES_WITHOUT_ZEROS = 8
    SIX_BITS = 9
    ROWS_OF_FLOAT16 = 10
    NARROW_PANELS_OF_BFLOAT16 = 11


# Those that are multiplied by any number of rows, which are rounded to bytes.
OF_BYTES = frozenset({Kind.SPREAD_BYTES, Kind.NIBBLES, Kind.NIBBLES_WITHOUT_ZEROS, Kind.SIX_BITS})


class Matrix(Structure):
    """A matrix of some kind, with its bias."""

    _fields_ = [
        ("weight", c_void_p),
        ("scales", c_void_p),  # None where the kind has none
        ("bias", c_void_p),  # float32; None for none
        ("kind", c_int32),
        ("out", c_int32),
        ("in_", c_int32),
        ("group", c_int32),
        ("next", c_void_p),  # another whose outputs follow; None for none
    ]


class Norm(Structure):
    """A norm by the root mean square."""

    _fields_ = [
        ("weight", c_void_p),  # None for no norm
        ("least", c_float),
    ]


class Part(Structure):
    """One part of a layer's states, in all buffers."""

    _fields_ = [
        ("first", c_void_p),  # that of buffer 0
        ("stride", c_int64),  # bytes from one buffer to the next
    ]


class Convolution(Structure):
    """A convolution over a few rows."""

    _fields_ = [
        ("taps", c_void_p),  # float32 `[width, channels]`, of a row itself the last
        ("bias", c_void_p),  # float32; None for none
        ("width", c_int32),
        ("channels", c_int32),
        ("kept", Part),
    ]


class Rule(IntEnum):
    """What follows a convolution."""

    GATE = 0
    GATED_DELTA = 1
    STATE_SPACE = 2


class Recurrence(Structure):
    """A rule by which a matrix of each head changes with each row, behind a convolution."""

    _fields_ = [
        ("rule", c_int32),
        ("heads", c_int32),
        ("groups", c_int32),  # each has numbers for `heads / groups` heads
        ("dim", c_int32),  # numbers of a head
        ("size", c_int32),  # of a group
        ("convolved", c_int32),  # where what is convolved begins in what a layer's input gives
        ("gate", c_int32),  # likewise
        ("rates", c_int32),  # likewise
        ("decay", c_void_p),  # float32 `[heads]`, in whole vectors
        ("rate_bias", c_void_p),  # likewise
        ("skip", c_void_p),  # float32 `[heads]`, of what goes past a state space
        ("share", c_float),  # the most that is corrected by a gated delta rule
        ("norm", Norm),  # of a head's numbers; of a group's in a state space
        ("states", Part),
    ]


class Layer(Structure):
    """A decoder layer's weights and sizes."""

    _fields_ = [
        ("hidden", c_int32),
        ("heads", c_int32),
        ("kv_heads", c_int32),
        ("dim", c_int32),
        ("is_bfloat16", c_int32),  # of the rows and of the KV; else they are float32
        ("inner", c_int32),  # numbers of the MLP; 0 for none
        ("window", c_int32),  # positions that a row sees, itself included; 0 for all before it
        ("is_gelu", c_int32),  # the activation, with the approximation that uses tanh; else it is SiLU
        ("rotary", c_int32),  # numbers of a head that are rotated, its first ones
        ("norms_rotated", c_int32),  # heads are normalised after they are rotated, and not before
        ("is_gated", c_int32),  # attention gives what gates let through
        ("before_attention", Norm),
        ("after_attention", Norm),
        ("before_mlp", Norm),
        ("after_mlp", Norm),
        ("head", Norm),
        ("attention_scale", c_float),
        ("residual_scale", c_float),
        ("convolution", Convolution),  # in the place of attention; of no channels for that
        ("recurrence", Recurrence),  # behind it
        ("input", Matrix),  # of queries, keys, values and gates, or what a convolution and a recurrence take
        ("output", Matrix),
        ("gate_up", Matrix),
        ("down", Matrix),
    ]


class State(Structure):
    """A state of a sequence that is wanted."""

    _fields_ = [
        ("rows", c_int32),  # behind so many of its rows
        ("buffer", c_int32),
    ]


class Rows(Structure):
    """The rows of one sequence in a step, and its KV and states: `Segment` there."""

    _fields_ = [
        ("first_row", c_int32),
        ("rows", c_int32),
        ("keys", c_void_p),
        ("values", c_void_p),
        ("head_stride", c_int64),
        ("length", c_int32),  # positions that are seen
        ("first", c_int32),  # of them
        ("pages", c_void_p),  # int32
        ("state", c_int32),  # the buffer of that before the rows
        ("wanted", c_int32),  # states
        ("states", POINTER(State)),
    ]


class Step(Structure):
    """All rows of a step."""

    _fields_ = [
        ("rows", c_int32),
        ("segments", c_int32),
        ("threads", c_int32),
        ("hidden", c_void_p),
        ("cos", c_void_p),
        ("sin", c_void_p),
        ("query_scale", c_void_p),  # float32 `[rows]`, of rotated queries; None for 1
        ("segment", c_void_p),
        ("shift", c_int64),  # bytes from the segments' keys and values to those of the layer
        (
            "projected",
            c_void_p,
        ),  # what a recurrent layer's input gives; None where the kernels compute all of the layer
        ("mixed", c_void_p),  # likewise, room for what its output takes
    ]


class Stack(Structure):
    """Layers that follow one another, with KV in places that differ by the same bytes for all segments."""

    _fields_ = [
        ("layers", c_int32),
        ("target", c_void_p),  # of each, its number
        ("layer", c_void_p),
        ("shift", c_void_p),
    ]


class Marks(Structure):
    """Addresses of numbers that are not 0 once a step is to stop at the end of a layer."""

    _fields_ = [
        ("count", c_int32),
        ("mark", c_void_p),
    ]


class Draw(Structure):
    """Way in which a row's token is drawn."""

    _fields_ = [
        ("temperature", c_float),  # 0 for the likeliest token: then nothing else is read
        ("top_k", c_int32),  # 0 for all tokens
        ("top_p", c_float),  # 1 for all
        ("min_p", c_float),  # 0 for all
        ("number", c_float),  # uniform in (0, 1)
    ]
