// Recurrent layers of few rows, from a state of each sequence to others, for MPS: a convolution, and behind it the gated
// delta rule or a state space.
//
// PyTorch's operations are the reference (runtime/nn/recurrent/, runtime/nn/layers/); the kernels for CPUs do the same
// (runtime/devices/native/source/recurrence.h).  All rows of a sequence go through one thread group, one after the other,
// and what it has of the state stays in registers: it is read from one buffer once, and written to another behind each
// row where somebody wants it.  No buffer is read in a step that is written in it.
//
// Whoever compiles this puts three definitions before it (`compile_states` in states.py): VALUE, the type of rows; WIDTH,
// the rows that one of a convolution sees, itself included; and KEYS, the numbers of a key, or of a state space's state.

#include <metal_stdlib>
using namespace metal;

constexpr constant int LANES = 32;  // of a SIMD group
constexpr constant int SIMD_GROUPS = 8;  // of a thread group
constexpr constant int BEFORE = WIDTH - 1;  // rows that a convolution's state has
constexpr constant int KEYS_OF_GROUP = (KEYS + SIMD_GROUPS - 1) / SIMD_GROUPS;
constexpr constant int KEYS_OF_LANE = (KEYS + LANES - 1) / LANES;
constexpr constant float LEAST = 1e-6f;  // is added to the square of a key's length

// Rows of one sequence.
struct Sequence {
    long first, end;
    long read;  // the buffer of the state before them
    device const long* written;  // of each row of the step, the buffer for the state behind it; below 0 for none
};

// Returns a sequence of the table that `StateTable` describes (runtime/devices/single_rows/states.py).
inline Sequence sequence_of(device const long* table, long sequences, long number) {
    return {table[number], table[number + 1], table[sequences + 1 + number], table + 2 * sequences + 1};
}

inline float sigmoid(float x) {
    return 1.0f / (1.0f + exp(-x));
}

// log(1 + e^x), which is x, or 0, and log(1 + t) = 2 artanh(t / (2 + t)) with t = e^-|x|: Metal has no log1p.
inline float softplus(float x) {
    const float t = exp(-fabs(x));
    const float z = t / (t + 2.0f);
    float p = 2.0f / 15.0f;
    for (int odd = 13; odd > 0; odd -= 2) {
        p = p * z * z + 2.0f / float(odd);
    }
    return max(x, 0.0f) + p * z;
}

// Convolves all rows, each channel by itself, behind those that the states have.  Threads: channels, sequences.
kernel void convolve_rows(
    device const VALUE* given,  // [rows, channels]
    constant long& given_row,
    device const VALUE* taps,  // [channels, WIDTH], of a row itself the last
    device const VALUE* bias,  // [channels], or anything where there is none
    device VALUE* kept,  // [buffers, BEFORE, channels]
    device const long* table,
    device VALUE* output,  // [rows, channels]
    constant long& sequences,
    constant long& channels,
    constant long& has_bias,
    constant long& has_silu,
    uint3 own [[thread_position_in_grid]]
) {
    const long channel = own.x;
    if (channel >= channels) {
        return;
    }
    const Sequence sequence = sequence_of(table, sequences, own.y);
    device VALUE* states = kept + channel;
    float seen[WIDTH];
    float weight[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        seen[i] = i == 0 ? 0.0f : float(states[(sequence.read * BEFORE + i - 1) * channels]);
        weight[i] = float(taps[channel * WIDTH + i]);
    }
    const float first = has_bias != 0 ? float(bias[channel]) : 0.0f;
    for (long row = sequence.first; row < sequence.end; row++) {
        float sum = first;
        for (int i = 0; i < WIDTH; i++) {
            seen[i] = i < BEFORE ? seen[i + 1] : float(given[row * given_row + channel]);
            sum += seen[i] * weight[i];
        }
        const float y = float(VALUE(sum));
        output[row * channels + channel] = VALUE(has_silu != 0 ? y * sigmoid(y) : y);
        const long written = sequence.written[row];
        for (int i = 0; written >= 0 && i < BEFORE; i++) {
            states[(written * BEFORE + i) * channels] = VALUE(seen[i + 1]);
        }
    }
}

// Runs the gated delta rule over all rows.  Thread groups: columns of a head's matrix by LANES, heads, sequences.
//
// A lane has a column, and each SIMD group some of its numbers.  What the matrix holds for a row's key and for its query is
// asked at once, and added up in one of two places in turns, so that one barrier a row is enough.
[[max_total_threads_per_threadgroup(SIMD_GROUPS * LANES)]]
kernel void delta_rows(
    device const VALUE* given,  // [rows, channels]: queries and keys, [groups, KEYS] each, and values, [heads, dim]
    device const VALUE* rates,  // [rows, heads, rate_numbers]
    device const VALUE* shares,  // [rows, heads]
    device const float* decay,  // [heads]
    device const float* rate_bias,  // [heads, rate_numbers]
    device float* states,  // [buffers, heads, KEYS, dim]
    device const long* table,
    device VALUE* output,  // [rows, heads, dim]
    constant float& most,  // of a share
    constant long& sequences,
    constant long& groups,  // each has keys for as many heads, one behind the other
    constant long& dim,
    constant long& rate_numbers,  // 1, or KEYS where each channel of a key decays by itself
    uint3 at [[threadgroup_position_in_grid]],
    uint3 grid [[threadgroups_per_grid]],
    uint simd_group [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]
) {
    threadgroup float held_parts[2][SIMD_GROUPS][LANES];
    threadgroup float asked_parts[2][SIMD_GROUPS][LANES];

    const Sequence sequence = sequence_of(table, sequences, at.z);
    const long heads = grid.y;
    const long head = at.y;
    const long keys = groups * KEYS;
    const long channels = 2 * keys + heads * dim;
    const long column = long(at.x) * LANES + lane;
    const bool is_column = column < dim;
    const int mine = int(simd_group) * KEYS_OF_GROUP;  // the first number of this SIMD group's
    const int count = is_column ? max(0, min(KEYS_OF_GROUP, KEYS - mine)) : 0;
    device float* matrices = states + (head * KEYS + mine) * dim + column;
    const long buffer = heads * KEYS * dim;

    float own[KEYS_OF_GROUP];
    for (int i = 0; i < KEYS_OF_GROUP; i++) {
        own[i] = i < count ? matrices[sequence.read * buffer + i * dim] : 0.0f;
    }
    for (long row = sequence.first; row < sequence.end; row++) {
        device const VALUE* query = given + row * channels + head / (heads / groups) * KEYS;
        device const VALUE* key = query + keys;
        float query_squares = 0.0f;
        float key_squares = 0.0f;
        float products = 0.0f;
        for (int k = int(lane); k < KEYS; k += LANES) {
            query_squares += float(query[k]) * float(query[k]);
            key_squares += float(key[k]) * float(key[k]);
            products += float(query[k]) * float(key[k]);
        }
        const float query_scale = rsqrt(simd_sum(query_squares) + LEAST) * rsqrt(float(KEYS));
        const float key_scale = rsqrt(simd_sum(key_squares) + LEAST);
        const float alike = simd_sum(products) * query_scale * key_scale;

        float kept = 0.0f;
        float held = 0.0f;
        float asked = 0.0f;
        for (int i = 0; i < KEYS_OF_GROUP; i++) {
            if (i < count) {
                if (i == 0 || rate_numbers > 1) {
                    const long number = head * rate_numbers + (rate_numbers > 1 ? mine + i : 0);
                    const float rate = float(rates[row * heads * rate_numbers + number]) + rate_bias[number];
                    kept = exp(decay[head] * softplus(rate));
                }
                own[i] *= kept;
                held += float(key[mine + i]) * own[i];
                asked += float(query[mine + i]) * own[i];
            }
        }
        const int turn = int(row & 1);
        held_parts[turn][simd_group][lane] = held;
        asked_parts[turn][simd_group][lane] = asked;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        held = 0.0f;
        asked = 0.0f;
        for (int i = 0; i < SIMD_GROUPS; i++) {
            held += held_parts[turn][i][lane];
            asked += asked_parts[turn][i][lane];
        }

        const float value = is_column ? float(given[row * channels + 2 * keys + head * dim + column]) : 0.0f;
        const float correction = most * sigmoid(float(shares[row * heads + head])) * (value - held * key_scale);
        if (is_column && simd_group == 0) {
            output[(row * heads + head) * dim + column] = VALUE(asked * query_scale + alike * correction);
        }
        const long written = sequence.written[row];
        for (int i = 0; i < KEYS_OF_GROUP; i++) {
            if (i < count) {
                own[i] += float(key[mine + i]) * key_scale * correction;
                if (written >= 0) {
                    matrices[written * buffer + i * dim] = own[i];
                }
            }
        }
    }
}

// Runs a state space over all rows.  Thread groups: rows of a head's matrix by SIMD_GROUPS, heads, sequences.
//
// A SIMD group has a row of the matrix, whose numbers its lanes share.
[[max_total_threads_per_threadgroup(SIMD_GROUPS * LANES)]]
kernel void state_space_rows(
    device const VALUE* given,  // [rows, channels]: what goes in, [heads, dim], and where it is written and read, [groups, KEYS] each
    device const VALUE* times,  // [rows, heads]
    constant long& times_row,
    device const float* decay,  // [heads]
    device const float* rate_bias,  // [heads]
    device const float* skip,  // [heads], of what goes past the state
    device float* states,  // [buffers, heads, dim, KEYS]
    device const long* table,
    device VALUE* output,  // [rows, heads, dim]
    constant long& sequences,
    constant long& groups,  // each has directions for as many heads, one behind the other
    constant long& dim,
    uint3 at [[threadgroup_position_in_grid]],
    uint3 grid [[threadgroups_per_grid]],
    uint simd_group [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]
) {
    const long number = long(at.x) * SIMD_GROUPS + simd_group;  // of the matrix's row
    if (number >= dim) {
        return;  // a whole SIMD group
    }
    const Sequence sequence = sequence_of(table, sequences, at.z);
    const long heads = grid.y;
    const long head = at.y;
    const long inner = heads * dim;
    const long channels = inner + 2 * groups * KEYS;
    device float* matrices = states + (head * dim + number) * KEYS;
    const long buffer = inner * KEYS;

    float own[KEYS_OF_LANE];
    for (int i = 0; i < KEYS_OF_LANE; i++) {
        const int k = i * LANES + int(lane);
        own[i] = k < KEYS ? matrices[sequence.read * buffer + k] : 0.0f;
    }
    for (long row = sequence.first; row < sequence.end; row++) {
        device const VALUE* into = given + row * channels + inner + head / (heads / groups) * KEYS;
        device const VALUE* from = into + groups * KEYS;
        const float time = softplus(float(times[row * times_row + head]) + rate_bias[head]);
        const float kept = exp(decay[head] * time);
        const float x = float(given[row * channels + head * dim + number]);
        const long written = sequence.written[row];
        float sum = 0.0f;
        for (int i = 0; i < KEYS_OF_LANE; i++) {
            const int k = i * LANES + int(lane);
            if (k < KEYS) {
                own[i] = kept * own[i] + time * x * float(into[k]);
                sum += own[i] * float(from[k]);
                if (written >= 0) {
                    matrices[written * buffer + k] = own[i];
                }
            }
        }
        sum = simd_sum(sum);
        if (lane == 0) {
            output[(row * heads + head) * dim + number] = VALUE(sum + skip[head] * x);
        }
    }
}
