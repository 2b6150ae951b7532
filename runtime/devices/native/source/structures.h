// What is handed to the kernels: `runtime/devices/native/structures.py` has the same, field by field.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "workers.h"

namespace cede {

using Bfloat16 = uint16_t;
enum class Float16 : uint16_t {};

constexpr int MOST_ROWS = 32;  // of a call
constexpr int LANES = 16;     // numbers of a vector, on every processor

constexpr int PANEL = 64;     // outputs of a panel
constexpr int NARROW = 32;    // of a narrow one, as oneDNN has them for AMX
constexpr int MOST_IN_GROUP = 256;  // inputs of a group of four bits that are unpacked before they are multiplied

// How a matrix lies in memory, which is as PyTorch's own products keep it.
//
// FOUR_BITS: outputs lie in blocks, of 64 for AVX-512 and of 32 for AVX2 and NEON.  A block has half as many bytes for each input:
// byte i holds the codes of output i (in its low half) and of the one as far into the block's second half.  A weight is
// `(code - 8) * scale + zero`, with a scale and a zero for each group of inputs and each output.
// ROWS: `[out, in]`.  Of int8 each output has a scale.
// SPREAD_BYTES: `[out / 16, in / 4, 16, 4]`, of weights that are spread (`bytes.h`); a byte is 128 more than the weight, and
// each output has a scale.
// NIBBLES, SIX_BITS: codes for processors that multiply bytes: `[out / 16, in / group]`, each with its scales, zeros if there
// are any, and codes (`codes.h`).
// PANELS: `[out / PANEL, in, PANEL]`, and of bfloat16 `[out / PANEL, in / 2, PANEL, 2]`, or so with NARROW in place of PANEL.
enum Kind : int32_t {
    FOUR_BITS,
    ROWS_OF_FLOAT32,
    ROWS_OF_BFLOAT16,
    ROWS_OF_INT8,
    PANELS_OF_FLOAT32,
    PANELS_OF_BFLOAT16,
    SPREAD_BYTES,
    NIBBLES,
    NIBBLES_WITHOUT_ZEROS,
    SIX_BITS,
    ROWS_OF_FLOAT16,
    NARROW_PANELS_OF_BFLOAT16
};

struct Matrix {
    const void* weight;
    // Of int8 `[out]`, and of four bits, with the zeros, `[groups, out, 2]`, in bfloat16; of bytes `[out]` in float32; else null.
    const void* scales;
    const float* bias;  // `[out]`; null for none
    int32_t kind, out, in;
    int32_t group;  // inputs that share a scale of four bits
    const Matrix* next;  // whose outputs follow, from a file that has them in another form; null for none
};

// A norm by the root mean square.
struct Norm {
    const float* weight;  // null for no norm
    float least;          // see `normalise`
};

// One part of a layer's states, in all buffers.
struct Part {
    char* first;     // that of buffer 0
    int64_t stride;  // bytes from one buffer to the next

    char* of(int buffer) const { return first + buffer * stride; }
};

// A convolution over a few rows.
struct Convolution {
    const float* taps;  // `[width, channels]`, of a row itself the last
    const float* bias;  // `[channels]`; null for none
    int32_t width, channels;
    Part kept;  // `[width - 1, channels]`, the last rows as they go into the sums
};

// What follows the convolution: a gate alone, or a rule by which a matrix of each head changes with each row.
enum Rule : int32_t { GATE, GATED_DELTA, STATE_SPACE };

// See `recurrence.h`.
struct Recurrence {
    int32_t rule;
    int32_t heads, groups;  // each group's numbers serve `heads / groups` heads, one behind the other
    int32_t dim, size;      // numbers of a head, and of a group
    int32_t convolved, gate, rates;  // where these begin in what `Layer::input` gives of a row
    const float *decay, *rate_bias;  // `[heads]`, in whole vectors
    const float* skip;               // `[heads]`, of what goes past a state space
    float share;                     // the most that is corrected by a gated delta rule
    Norm norm;                       // of a head's numbers; of a group's in a state space
    Part states;  // float32, a matrix of each head
};

struct Layer {
    int32_t hidden, heads, kv_heads, dim, is_bfloat16;
    int32_t inner;    // numbers of the MLP; 0 for none
    int32_t window;   // how many positions a row sees, itself included; 0 for all before it
    int32_t is_gelu;  // the activation, with the approximation that uses tanh; else it is SiLU
    int32_t rotary;   // how many numbers of a head are rotated, its first ones
    int32_t norms_rotated;  // heads are normalised after they are rotated, and not before
    int32_t is_gated;       // attention gives what gates let through, of which there are as many as numbers of queries
    Norm before_attention, after_attention, before_mlp, after_mlp;
    Norm head;  // `[heads + kv_heads, dim]`
    float attention_scale, residual_scale;
    Convolution convolution;  // in the place of attention; of no channels for that
    Recurrence recurrence;    // behind it
    Matrix input;  // of queries, keys, values and gates; or what a convolution and a recurrence take
    Matrix output, gate_up, down;
};

// A state that is wanted: the buffer for that behind so many rows of a sequence.
struct State {
    int32_t rows, buffer;
};

// The rows of one sequence.
struct Segment {
    int32_t first_row, rows;
    void *keys, *values;   // of the first KV head, `[places, dim]`
    int64_t head_stride;   // from one KV head to the next, in numbers
    int32_t length;        // positions that are seen, the last `rows` of which are to be written
    int32_t first;         // the first of them
    const int32_t* pages;  // page i has the places of positions i * `PAGE` and those behind it
    int32_t state;        // the buffer of that before the rows; the last that is wanted may be the same
    int32_t wanted;       // how many `states` there are
    const State* states;  // in the order of their rows
};

struct Step {
    int32_t rows, segments, threads;
    void* hidden;              // `[rows, hidden]`, changed in place
    const void *cos, *sin;     // `[rows, rotary]`
    const float* query_scale;  // `[rows]`, of rotated queries; null for 1
    const Segment* segment;
    int64_t shift;  // bytes from the segments' keys and values to those of the layer
    // Where the products are computed elsewhere, and only what is between them here: what the input of a recurrent layer gives,
    // `[rows, outputs]`, which is written, and room for what its output takes, `[rows, inputs]`.  Else null.
    float *projected, *mixed;
};

// Layers that follow one another, with KV in places that differ by the same bytes for all segments.
struct Stack {
    int32_t layers;
    const int32_t* target;  // of each, its number
    const Layer* const* layer;
    const int64_t* shift;
};

// Numbers that another thread sets to what is not 0 when a step is to stop at the end of a layer.
struct Marks {
    int32_t count;
    const int32_t* const* mark;

    bool any() const {
        for (int i = 0; i < count; ++i)
            if (__atomic_load_n(mark[i], __ATOMIC_ACQUIRE)) return true;
        return false;
    }
};

// How a row's token is drawn.
struct Draw {
    float temperature;  // 0 for the likeliest token: then nothing else is read
    int32_t top_k;      // 0 for all tokens
    float top_p;        // 1 for all
    float min_p;        // 0 for all
    float number;       // uniform in (0, 1)
};

// Whether the processor reads memory the fastest from the first to the last, and not in several streams at once.
//
// Four short streams made half of the memory's speed on AMD's Zen 4, and up to a third more than one on Intel's Sapphire
// Rapids (bench/LOG.md).
inline bool reads_best_in_order() {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

// Threads, and memory for what lies between two operations.
struct Context {
    explicit Context(int threads) : workers(threads) {}

    Workers workers;
    bool in_order = reads_best_in_order();
    bool has_tiles = false;  // whether the target of the call multiplies them
    std::vector<float> normed, projected, scores, mixed, activated;  // rounded as the model's rows are
    std::vector<float> product;                                   // likewise, before its norm
    std::vector<float> convolved, rates;                          // likewise, and numbers of heads
    std::vector<float> inputs, sums;                              // of a product
    std::vector<Bfloat16> narrow;                                 // likewise
    std::vector<int16_t> whole;                                   // likewise, and their scales
    std::vector<float> scales;
    std::vector<int8_t> bytes;    // likewise
    std::vector<int32_t> totals;  // of the bytes of each row
};

}  // namespace cede
