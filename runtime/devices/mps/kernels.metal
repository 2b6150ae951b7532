// KV of single rows, each at its own place, and attention of single rows over their sequences, for MPS.
//
// A row says by itself where its sequence lies and how far it sees (runtime/devices/single_rows/rows.py, `RowTable`), so the
// rows of all sequences go into one launch.  The same as runtime/devices/cuda/kernels.py has in Triton.
//
// Whoever compiles this puts two definitions before it (`source_of` in rows.py): VALUE, the type of queries and KV, and
// DIM, the numbers of a head, at most THREADS.  Offsets and strides are in numbers, not bytes; they may be beyond 32 bits.

#include <metal_stdlib>
using namespace metal;

constexpr constant int LANES = 32;  // of a SIMD group
constexpr constant int SIMD_GROUPS = 8;  // of a thread group of `attend_rows`, each with keys of its own
constexpr constant int THREADS = SIMD_GROUPS * LANES;
constexpr constant int SHARE = (DIM + LANES - 1) / LANES;  // numbers of a head that a lane has, one after the other
constexpr constant int PART = DIM + 2;  // what a split leaves: its values, its largest score, its total
constexpr constant float NOTHING = -1e30f;  // below any score, and finite: two of them may be subtracted

static_assert(DIM <= THREADS, "a thread for each number of a head");

// Returns a number of a head's result.  `sum` and `total` are of values and weights relative to the score `largest`.  A
// sink takes weight and has no value.
inline float finished(float sum, float total, float largest, bool has_sink, float sink) {
    if (has_sink) {
        const float top = max(largest, sink);
        sum *= exp(largest - top);
        total = total * exp(largest - top) + exp(sink - top);
    }
    return sum / (total > 0.0f ? total : 1.0f);  // a row that is none has seen nothing
}

// Stores the keys and values of one row; a row at place -1 is none.  Threads: DIM, parts and KV heads, rows.
kernel void write_rows(
    device const VALUE* given,  // [rows, parts, heads, DIM]
    constant long& given_row,
    constant long& given_part,
    constant long& given_head,
    device VALUE* kv,
    constant long& kv_part,
    constant long& kv_slot,
    constant long& kv_head,
    constant long& kv_row,
    device const long* table,
    constant long& rows,
    constant long& ring,  // 0 for the pool
    constant long& heads,
    uint3 own [[thread_position_in_grid]]
) {
    const long row = own.z;
    const long part = int(own.y) / int(heads);
    const long head = int(own.y) % int(heads);
    const long place = table[row];
    if (place < 0) {
        return;
    }
    const long slot = table[3 * rows + row];
    const long at = ring > 0 ? table[rows + row] % ring : place;
    device const VALUE* source = given + row * given_row + part * given_part + head * given_head;
    device VALUE* target = kv + part * kv_part + slot * kv_slot + head * kv_head + at * kv_row;
    target[own.x] = source[own.x];
}

// Attends from one head of one row to one split of the keys it sees.  Thread groups: splits, heads, rows.
//
// A SIMD group takes each eighth key; its lanes share the numbers of a head, as in MLX's `sdpa_vector`.  Scores are
// relative to the largest so far, as FlashAttention has them (Dao et al., arXiv 2205.14135).  At the end the SIMD groups
// are joined.  Where there is one split, that is the result; else `join_splits` goes on from `parts`.
[[max_total_threads_per_threadgroup(THREADS)]]
kernel void attend_rows(
    device const VALUE* query,  // [rows, heads, DIM]
    constant long& query_row,
    constant long& query_head,
    device const VALUE* kv,
    constant long& kv_part,
    constant long& kv_slot,
    constant long& kv_head,
    constant long& kv_row,
    device const long* table,
    constant long& rows,
    device float* parts,  // [rows, heads, splits, PART]
    device const VALUE* sinks,  // [heads], or anything where there are none
    device VALUE* output,  // [rows, heads, DIM]
    constant float& scale,
    constant float& cap,  // 0 for none
    constant long& has_sinks,
    constant long& window,  // 0 for all
    constant long& ring,  // 0 for the pool
    constant long& group,  // query heads of a KV head
    uint3 at [[threadgroup_position_in_grid]],
    uint3 grid [[threadgroups_per_grid]],
    uint simd_group [[simdgroup_index_in_threadgroup]],
    uint lane [[thread_index_in_simdgroup]]
) {
    threadgroup float tops[SIMD_GROUPS];
    threadgroup float totals[SIMD_GROUPS];
    threadgroup float sums[SIMD_GROUPS][DIM];

    const int split = int(at.x);
    const int splits = int(grid.x);
    const long head = at.y;
    const long row = at.z;
    const int place = int(table[row]);
    const int position = int(table[rows + row]);
    const long slot = table[3 * rows + row];
    const int end = place < 0 ? 0 : position + 1;
    int first = int(table[2 * rows + row]);
    if (window > 0) {
        first = max(first, end - int(window));
    }
    const int count = (max(end - first, 0) + splits - 1) / splits;
    const int start = first + split * count;
    const int stop = min(start + count, end);

    const int mine = int(lane) * SHARE;  // the first number of this lane's
    device const VALUE* asked_at = query + row * query_row + head * query_head;
    device const VALUE* base = kv + slot * kv_slot + head / group * kv_head;
    float asked[SHARE];
    float summed[SHARE];
    for (int i = 0; i < SHARE; i++) {
        asked[i] = mine + i < DIM ? float(asked_at[mine + i]) * scale : 0.0f;
        summed[i] = 0.0f;
    }
    float top = NOTHING;
    float total = 0.0f;
    for (int seen = start + int(simd_group); seen < stop; seen += SIMD_GROUPS) {
        const long from = ring > 0 ? seen % int(ring) : table[(4 + seen / PAGE) * rows + row] * PAGE + seen % PAGE;
        device const VALUE* key = base + from * kv_row;
        device const VALUE* value = key + kv_part;
        float score = 0.0f;
        for (int i = 0; i < SHARE; i++) {
            if (mine + i < DIM) {
                score += asked[i] * float(key[mine + i]);
            }
        }
        score = simd_sum(score);
        if (cap > 0.0f) {
            score = cap * precise::tanh(score / cap);
        }
        const float largest = max(top, score);
        const float shrink = exp(top - largest);
        const float weight = exp(score - largest);
        for (int i = 0; i < SHARE; i++) {
            if (mine + i < DIM) {
                summed[i] = summed[i] * shrink + weight * float(value[mine + i]);
            }
        }
        total = total * shrink + weight;
        top = largest;
    }

    for (int i = 0; i < SHARE; i++) {
        if (mine + i < DIM) {
            sums[simd_group][mine + i] = summed[i];
        }
    }
    if (lane == 0) {
        tops[simd_group] = top;
        totals[simd_group] = total;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    const int dim = int(simd_group) * LANES + int(lane);  // from here on a thread has one number of the head
    if (dim >= DIM) {
        return;
    }
    float largest = NOTHING;
    for (int i = 0; i < SIMD_GROUPS; i++) {
        largest = max(largest, tops[i]);
    }
    float sum = 0.0f;
    float whole = 0.0f;
    for (int i = 0; i < SIMD_GROUPS; i++) {
        const float weight = exp(tops[i] - largest);
        sum += sums[i][dim] * weight;
        whole += totals[i] * weight;
    }
    const long result = row * grid.y + head;
    if (splits == 1) {
        const float sink = has_sinks != 0 ? float(sinks[head]) : 0.0f;
        output[result * DIM + dim] = VALUE(finished(sum, whole, largest, has_sinks != 0, sink));
        return;
    }
    device float* left = parts + (result * splits + split) * PART;
    left[dim] = sum;
    if (dim == 0) {
        left[DIM] = largest;
        left[DIM + 1] = whole;
    }
}

// Joins what the splits of one head left.  Threads: DIM, heads, rows.
kernel void join_splits(
    device const float* parts,
    device const VALUE* sinks,
    device VALUE* output,
    constant long& splits,
    constant long& has_sinks,
    uint3 own [[thread_position_in_grid]],
    uint3 grid [[threads_per_grid]]
) {
    const int dim = int(own.x);
    const long result = long(own.z) * grid.y + own.y;
    device const float* left = parts + result * splits * PART;
    float largest = NOTHING;
    for (int i = 0; i < splits; i++) {
        largest = max(largest, left[i * PART + DIM]);
    }
    float sum = 0.0f;
    float total = 0.0f;
    for (int i = 0; i < splits; i++) {
        const float weight = exp(left[i * PART + DIM] - largest);
        sum += left[i * PART + dim] * weight;
        total += left[i * PART + DIM + 1] * weight;
    }
    const float sink = has_sinks != 0 ? float(sinks[own.y]) : 0.0f;
    output[result * DIM + dim] = VALUE(finished(sum, total, largest, has_sinks != 0, sink));
}
