// The library: one decoder layer of few rows in one call, and products alone.  The interface is in C; `runtime/devices/native/kernels.py` uses it.
//
// The same source is compiled for each set of instructions, into a namespace of its own, and what the processor has
// decides which is run.  What these share, and the standard library, is compiled for any processor, so it comes first.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "structures.h"

// To be raised with every change of a structure or function below.
extern "C" int cede_interface() { return 21; }

#if (defined(__x86_64__) || defined(__AARCH64EL__)) && defined(__GNUC__) && !defined(CEDE_WITHOUT_KERNELS)  // a test defines the last
#define CEDE_HAS_KERNELS 1

#define CEDE_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define CEDE_BEGIN_TARGET(names) CEDE_PRAGMA(clang attribute push(__attribute__((target(names))), apply_to = function))
#define CEDE_END_TARGET CEDE_PRAGMA(clang attribute pop)
#else
// GCC 12 thinks that what its own headers leave undefined on purpose is used.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#define CEDE_BEGIN_TARGET(names) CEDE_PRAGMA(GCC push_options) CEDE_PRAGMA(GCC target(names))
#define CEDE_END_TARGET CEDE_PRAGMA(GCC pop_options)
#endif

namespace cede {

using Run = void (*)(Context&, const Layer&, const Step&);
template <class T>
using Multiply = void (*)(Context&, const Matrix&, const T*, int, float*);
template <class T>
using Expand = void (*)(Context&, const Matrix&, T*);
using DrawTokens = void (*)(Context&, const float*, int, int, const Draw*, float*, int64_t*);

// What is compiled for a set of instructions.
struct Target {
    const char* name;
    bool (*is_supported)();
    bool has_tiles;         // which share the kernels of a target that has none
    int block;              // outputs of a block of its matrices
    bool is_for_many_rows;  // of four bits; else weights are better expanded for them
    Run with_float32, with_bfloat16;
    Multiply<float> multiply_float32;
    Multiply<Bfloat16> multiply_bfloat16;
    Expand<float> expand_to_float32;
    Expand<Bfloat16> expand_to_bfloat16;
    DrawTokens draw_tokens;
};

}  // namespace cede

// What a namespace has of it.
#define CEDE_KERNELS(name)                                                                                          \
    name::BLOCK, name::IS_FOR_MANY_ROWS, name::run<float>, name::run<Bfloat16>, name::multiply<float>,              \
        name::multiply<Bfloat16>, name::expand<float>, name::expand<Bfloat16>, name::draw_tokens

// The namespaces, `TARGETS`, the best first, and whether the processor multiplies bytes.
#if defined(__x86_64__)
#include "targets_x86.h"
#else
#include "targets_arm.h"
#endif

namespace cede {

// Return the target of a call in `context`.
inline const Target& choose(Context& context, int target) {
    context.has_tiles = TARGETS[target].has_tiles;
    return TARGETS[target];
}

}  // namespace cede

// Return the name of target number `i`; null behind the last.
extern "C" const char* cede_target(int i) {
    constexpr int COUNT = sizeof cede::TARGETS / sizeof *cede::TARGETS;
    return i >= 0 && i < COUNT ? cede::TARGETS[i].name : nullptr;
}

extern "C" int cede_is_supported(int target) { return cede::TARGETS[target].is_supported(); }

extern "C" int cede_block(int target) { return cede::TARGETS[target].block; }

extern "C" int cede_is_for_many_rows(int target) { return cede::TARGETS[target].is_for_many_rows; }

extern "C" int cede_multiplies_bytes() { return cede::multiplies_bytes(); }

extern "C" void* cede_open(int threads) { return new cede::Context(threads); }

extern "C" void cede_close(void* context) { delete static_cast<cede::Context*>(context); }

extern "C" void cede_run_layer(void* context, int target, const cede::Layer* layer, const cede::Step* step) {
    cede::Context& own = *static_cast<cede::Context*>(context);
    const cede::Target& kernels = cede::choose(own, target);
    (layer->is_bfloat16 ? kernels.with_bfloat16 : kernels.with_float32)(own, *layer, *step);
}

// Run the layers of a stack from number `first` on, until one of the marks is set or so many nanoseconds have passed, but one
// at least.  `ended`: of each that ran, how many nanoseconds after the call it ended.  Return how many ran.
extern "C" int cede_run_layers(void* context, const cede::Stack* stack, int first, const cede::Step* step,
                               const cede::Marks* marks, int64_t nanoseconds, int64_t* ended) {
    const auto began = std::chrono::steady_clock::now();
    cede::Step own = *step;
    for (int i = first; i < stack->layers; ++i) {
        own.shift = stack->shift[i];
        cede_run_layer(context, stack->target[i], stack->layer[i], &own);
        const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - began;
        ended[i - first] = passed.count();
        if (marks->any() || passed.count() >= nanoseconds) return i + 1 - first;
    }
    return stack->layers - first;
}

// Multiply `x`, `[rows, in]` in bfloat16 or float32, and write `[rows, out]` to `y`, rounded as those are.  No more than
// `MOST_ROWS`, unless the matrix is of four bits or of bytes.
extern "C" void cede_multiply(void* context, int target, int threads, const cede::Matrix* matrix, int is_bfloat16,
                              const void* x, int rows, float* y) {
    cede::Context& own = *static_cast<cede::Context*>(context);
    own.workers.use(threads);
    const cede::Target& kernels = cede::choose(own, target);
    if (is_bfloat16)
        kernels.multiply_bfloat16(own, *matrix, static_cast<const cede::Bfloat16*>(x), rows, y);
    else
        kernels.multiply_float32(own, *matrix, static_cast<const float*>(x), rows, y);
}

// Write all weights of a matrix of four bits to `to`, `[in, out]`, in bfloat16 or float32.
extern "C" void cede_expand(void* context, int target, int threads, const cede::Matrix* matrix, int is_bfloat16, void* to) {
    cede::Context& own = *static_cast<cede::Context*>(context);
    own.workers.use(threads);
    const cede::Target& kernels = cede::choose(own, target);
    if (is_bfloat16)
        kernels.expand_to_bfloat16(own, *matrix, static_cast<cede::Bfloat16*>(to));
    else
        kernels.expand_to_float32(own, *matrix, static_cast<float*>(to));
}

// Draw a token of each row of `logits`, `[rows, vocab]`, as `draws` says; `weights` is room for as many numbers, where
// each row has whole blocks of `TOKENS`.
extern "C" void cede_draw(void* context, int target, int threads, const float* logits, int rows, int vocab,
                          const cede::Draw* draws, float* weights, int64_t* tokens) {
    cede::Context& own = *static_cast<cede::Context*>(context);
    own.workers.use(threads);
    cede::choose(own, target).draw_tokens(own, logits, rows, vocab, draws, weights, tokens);
}

#else

extern "C" const char* cede_target(int) { return nullptr; }
extern "C" int cede_is_supported(int) { return 0; }
extern "C" int cede_block(int) { return 0; }
extern "C" int cede_is_for_many_rows(int) { return 0; }
extern "C" int cede_multiplies_bytes() { return 0; }
extern "C" void* cede_open(int) { return nullptr; }
extern "C" void cede_close(void*) {}
extern "C" void cede_run_layer(void*, int, const void*, const void*) {}
extern "C" int cede_run_layers(void*, const void*, int, const void*, const void*, int64_t, int64_t*) { return 0; }
extern "C" void cede_multiply(void*, int, int, const void*, int, const void*, int, float*) {}
extern "C" void cede_expand(void*, int, int, const void*, int, void*) {}
extern "C" void cede_draw(void*, int, int, const float*, int, int, const void*, float*, int64_t*) {}

#endif
