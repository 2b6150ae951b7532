// Attention of few rows over the keys and values of one sequence, a KV head at a time.

#pragma once

#include <cmath>
#include <cstddef>

#include "vectors.h"

namespace cede {

// Divide by the root mean square and multiply by the weight; `least` is sqrt(size * eps), and the weight has the factor
// sqrt(size) in it, as in `runtime/nn/layers/norm.py`.
template <class T, class To>
inline void normalise(const T* x, const float* weight, float least, int size, To* to) {
    Vector squares = _mm512_setzero_ps();
    for (int i = 0; i < size; i += LANES) squares = _mm512_fmadd_ps(load(x + i), load(x + i), squares);
    const Vector norm = splat(std::sqrt(_mm512_reduce_add_ps(squares) + least * least));
    for (int i = 0; i < size; i += LANES)
        store(to + i, _mm512_mul_ps(_mm512_div_ps(load(x + i), norm), load(weight + i)));
}

// Rotate a head in place; numbers of `head` are such as T can hold.  cos, sin: `[dim]`, the first half of `sin` negative.
template <class T>
inline void rotate(float* head, const T* cos, const T* sin, int dim) {
    const int half = dim / 2;
    for (int i = 0; i < half; i += LANES) {
        const Vector first = load(head + i), second = load(head + half + i);
        const Vector x = rounded<T>(_mm512_mul_ps(first, load(cos + i)));
        const Vector y = rounded<T>(_mm512_mul_ps(second, load(cos + half + i)));
        store(head + i, rounded<T>(_mm512_fmadd_ps(second, load(sin + i), x)));
        store(head + half + i, rounded<T>(_mm512_fmadd_ps(first, load(sin + half + i), y)));
    }
}

// Scores become weights, which add up to 1 but for the factor that is returned.
inline float soften(float* scores, int length, float largest) {
    const Vector most = splat(largest);
    Vector total = _mm512_setzero_ps();
    for (int k = 0; k < length; k += LANES) {
        const __mmask16 there = length - k >= LANES ? 0xffff : (1u << (length - k)) - 1;
        const Vector weight = exponential(_mm512_sub_ps(_mm512_maskz_loadu_ps(there, scores + k), most));
        _mm512_mask_storeu_ps(scores + k, there, weight);
        total = _mm512_mask_add_ps(total, there, total, weight);
    }
    return 1.0f / _mm512_reduce_add_ps(total);
}

// Attend from one query head.
//
// query: `[dim]`; keys, values: `[length, dim]`; scores: room for `length`; to: `[dim]`, rounded as T and then to bfloat16.
template <class T>
inline void attend(const float* query, const T* keys, const T* values, int length, int dim, float scale, float* scores,
                   Bfloat16* to) {
    constexpr int AT_ONCE = 4;
    float largest = -INFINITY;
    for (int k = 0; k < length; ++k) {
        Vector product = _mm512_setzero_ps();
        for (int d = 0; d < dim; d += LANES)
            product = _mm512_fmadd_ps(load(query + d), load(keys + static_cast<size_t>(k) * dim + d), product);
        scores[k] = scale * _mm512_reduce_add_ps(product);
        if (!(scores[k] <= largest)) largest = scores[k];  // what is not a number is the largest, and spoils all
    }
    const Vector factor = splat(soften(scores, length, largest));
    for (int first = 0; first < dim; first += AT_ONCE * LANES) {
        const int count = (dim - first) / LANES < AT_ONCE ? (dim - first) / LANES : AT_ONCE;
        Vector sum[AT_ONCE];
        for (Vector& one : sum) one = _mm512_setzero_ps();
        for (int k = 0; k < length; ++k) {
            const T* value = values + static_cast<size_t>(k) * dim + first;
            for (int i = 0; i < count; ++i) sum[i] = _mm512_fmadd_ps(splat(scores[k]), load(value + i * LANES), sum[i]);
        }
        for (int i = 0; i < count; ++i)
            store(to + first + i * LANES, rounded<T>(_mm512_mul_ps(sum[i], factor)));
    }
}

}  // namespace cede
