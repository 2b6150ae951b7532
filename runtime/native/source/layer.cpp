// One decoder layer of few rows, in one call.  The interface is in C: `runtime/native/library.py` describes it.
//
// PyTorch's operations are the reference (`runtime/nn/layers/`): numbers are rounded where those round them.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "workers.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(CEDE_WITHOUT_KERNELS)  // a test defines the last
#define CEDE_HAS_KERNELS 1
extern "C" int cede_supported() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bf16");
}
#else
extern "C" int cede_supported() { return 0; }
#endif

// To be raised with every change of a structure or function below.
extern "C" int cede_interface() { return 1; }

#ifdef CEDE_HAS_KERNELS

// GCC 12 thinks that what its own headers leave undefined on purpose is used.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")
#endif

#include "attention.h"
#include "int4.h"

namespace cede {

struct Layer {
    int32_t hidden, heads, kv_heads, dim, inner, is_bfloat16;
    const float *attention_norm, *mlp_norm, *head_norm;  // the last `[heads + kv_heads, dim]`; null for none
    float attention_least, mlp_least, head_least, attention_scale, residual_scale;
    Int4 qkv, output, gate_up, down;
};

// The rows of one sequence.
struct Segment {
    int32_t first_row, rows;
    void *keys, *values;   // of the first KV head, `[length, dim]`; the last `rows` of them are to be written
    int64_t head_stride;   // from one KV head to the next, in numbers
    int32_t length;        // the new rows included
};

struct Step {
    int32_t rows, segments, threads;
    void* hidden;            // `[rows, hidden]`, changed in place
    const void *cos, *sin;   // `[rows, dim]`
    const Segment* segment;
};

// Threads, and memory for what lies between two operations.
struct Context {
    explicit Context(int threads) : workers(threads) {}

    Workers workers;
    std::vector<Bfloat16> normed, attended, activated;
    std::vector<float> sums, qkv, scores;
};

template <class T>
void run(Context& context, const Layer& layer, const Step& step) {
    const int rows = step.rows, hidden = layer.hidden, dim = layer.dim, heads = layer.heads, kv_heads = layer.kv_heads;
    const int group = heads / kv_heads, all_heads = (heads + 2 * kv_heads) * dim, query = heads * dim;
    T* states = static_cast<T*>(step.hidden);
    context.workers.use(step.threads);
    context.normed.resize(static_cast<size_t>(rows) * hidden);
    context.attended.resize(static_cast<size_t>(rows) * query);
    context.activated.resize(static_cast<size_t>(rows) * layer.inner);
    context.qkv.resize(static_cast<size_t>(rows) * all_heads);
    Bfloat16* normed = context.normed.data();

    const auto sums_for = [&](const Bfloat16* x, const Int4& matrix) {
        context.sums.resize(static_cast<size_t>(rows) * (matrix.in / matrix.group));
        sum_groups(x, rows, matrix, context.sums.data());
        return context.sums.data();
    };
    const auto norm_rows = [&](const float* weight, float least) {
        std::vector<T> row(hidden);  // rounded as the model's rows are, and then as the products take them
        for (int r = 0; r < rows; ++r) {
            normalise(states + static_cast<size_t>(r) * hidden, weight, least, hidden, row.data());
            for (int i = 0; i < hidden; i += LANES)
                store(normed + static_cast<size_t>(r) * hidden + i, load(row.data() + i));
        }
    };
    // Multiply, and add the result to the hidden states.
    const auto add_product = [&](const Bfloat16* x, const Int4& matrix) {
        const float* sums = sums_for(x, matrix);
        context.workers.run(matrix.out / BLOCK, [&](int block) {
            Vector y[MOST_ROWS][VECTORS];
            multiply(x, sums, matrix, block, rows, y);
            for (int r = 0; r < rows; ++r)
                for (int j = 0; j < VECTORS; ++j) {
                    T* state = states + static_cast<size_t>(r) * hidden + block * BLOCK + j * LANES;
                    store(state, _mm512_fmadd_ps(rounded<T>(y[r][j]), splat(layer.residual_scale), load(state)));
                }
        });
    };

    norm_rows(layer.attention_norm, layer.attention_least);
    const float* sums = sums_for(normed, layer.qkv);
    context.workers.run(all_heads / BLOCK, [&](int block) {
        Vector y[MOST_ROWS][VECTORS];
        multiply(normed, sums, layer.qkv, block, rows, y);
        for (int r = 0; r < rows; ++r)
            for (int j = 0; j < VECTORS; ++j)
                store(context.qkv.data() + static_cast<size_t>(r) * all_heads + block * BLOCK + j * LANES,
                      rounded<T>(y[r][j]));
    });

    size_t longest = 0;
    for (int i = 0; i < step.segments; ++i)
        if (static_cast<size_t>(step.segment[i].length) > longest) longest = step.segment[i].length;
    context.scores.resize(longest * step.segments * kv_heads);
    context.workers.run(step.segments * kv_heads, [&](int piece) {
        const Segment& segment = step.segment[piece / kv_heads];
        const int kv_head = piece % kv_heads;
        T* keys = static_cast<T*>(segment.keys) + segment.head_stride * kv_head;
        T* values = static_cast<T*>(segment.values) + segment.head_stride * kv_head;
        for (int i = 0; i < segment.rows; ++i) {
            const size_t row = segment.first_row + i, position = segment.length - segment.rows + i;
            float* own = context.qkv.data() + row * all_heads;
            const T *cos = static_cast<const T*>(step.cos) + row * dim, *sin = static_cast<const T*>(step.sin) + row * dim;
            const auto prepare = [&](int head) {
                float* numbers = own + static_cast<size_t>(head) * dim;
                if (layer.head_norm) {
                    normalise(numbers, layer.head_norm + static_cast<size_t>(head) * dim, layer.head_least, dim, numbers);
                    for (int d = 0; d < dim; d += LANES) store(numbers + d, rounded<T>(load(numbers + d)));
                }
                rotate(numbers, cos, sin, dim);
            };
            for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) prepare(head);
            prepare(heads + kv_head);
            for (int d = 0; d < dim; d += LANES) {
                store(keys + position * dim + d, load(own + static_cast<size_t>(heads + kv_head) * dim + d));
                store(values + position * dim + d, load(own + static_cast<size_t>(heads + kv_heads + kv_head) * dim + d));
            }
        }
        float* scores = context.scores.data() + longest * piece;
        for (int i = 0; i < segment.rows; ++i)
            for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
                const size_t row = segment.first_row + i;
                attend(context.qkv.data() + row * all_heads + static_cast<size_t>(head) * dim, keys, values,
                       segment.length - segment.rows + i + 1, dim, layer.attention_scale, scores,
                       context.attended.data() + row * query + static_cast<size_t>(head) * dim);
            }
    });
    add_product(context.attended.data(), layer.output);

    norm_rows(layer.mlp_norm, layer.mlp_least);
    const float* mlp_sums = sums_for(normed, layer.gate_up);
    const int blocks = layer.inner / BLOCK;
    context.workers.run(blocks, [&](int block) {
        Vector gate[MOST_ROWS][VECTORS], up[MOST_ROWS][VECTORS];
        multiply(normed, mlp_sums, layer.gate_up, block, rows, gate);
        multiply(normed, mlp_sums, layer.gate_up, block + blocks, rows, up);
        for (int r = 0; r < rows; ++r)
            for (int j = 0; j < VECTORS; ++j) {
                const Vector activated = rounded<T>(silu(rounded<T>(gate[r][j])));
                store(context.activated.data() + static_cast<size_t>(r) * layer.inner + block * BLOCK + j * LANES,
                      rounded<T>(_mm512_mul_ps(activated, rounded<T>(up[r][j]))));
            }
    });
    add_product(context.activated.data(), layer.down);
}

}  // namespace cede

extern "C" void* cede_open(int threads) { return new cede::Context(threads); }

extern "C" void cede_close(void* context) { delete static_cast<cede::Context*>(context); }

extern "C" void cede_run_layer(void* context, const cede::Layer* layer, const cede::Step* step) {
    auto& own = *static_cast<cede::Context*>(context);
    if (layer->is_bfloat16)
        cede::run<cede::Bfloat16>(own, *layer, *step);
    else
        cede::run<float>(own, *layer, *step);
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#else

extern "C" void* cede_open(int) { return nullptr; }
extern "C" void cede_close(void*) {}
extern "C" void cede_run_layer(void*, const void*, const void*) {}

#endif
