// The functions of functions.h, to be called with numbers that a test chooses; `count` is a multiple of sixteen.

#include <immintrin.h>

#include <cstring>

#include "structures.h"

namespace cede {
#include VECTORS
#include "functions.h"
}  // namespace cede

extern "C" void exponential_of(const float* x, float* to, int count) {
    for (int i = 0; i < count; i += 16) cede::store(to + i, cede::exponential(cede::load(x + i)));
}

extern "C" void silu_of(const float* x, float* to, int count) {
    for (int i = 0; i < count; i += 16) cede::store(to + i, cede::silu(cede::load(x + i)));
}

extern "C" void gelu_of(const float* x, float* to, int count) {
    for (int i = 0; i < count; i += 16) cede::store(to + i, cede::gelu(cede::load(x + i)));
}

extern "C" void softplus_of(const float* x, float* to, int count) {
    for (int i = 0; i < count; i += 16) cede::store(to + i, cede::softplus(cede::load(x + i)));
}

extern "C" void sigmoid_of(const float* x, float* to, int count) {
    for (int i = 0; i < count; i += 16) cede::store(to + i, cede::sigmoid(cede::load(x + i)));
}
