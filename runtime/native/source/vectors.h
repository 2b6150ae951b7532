// Sixteen numbers at a time: AVX-512 with bfloat16.  A model's rows are float32, or bfloat16 and computed in float32.

#pragma once

#include <immintrin.h>

#include <cstdint>

namespace cede {

using Bfloat16 = uint16_t;
using Vector = __m512;

constexpr int LANES = 16;

inline Vector splat(float x) { return _mm512_set1_ps(x); }

inline Vector widen(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

inline __m256i narrow(Vector x) { return (__m256i)_mm512_cvtneps_pbh(x); }

inline Vector load(const float* from) { return _mm512_loadu_ps(from); }
inline Vector load(const Bfloat16* from) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

inline void store(float* to, Vector x) { _mm512_storeu_ps(to, x); }
inline void store(Bfloat16* to, Vector x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), narrow(x)); }

// Round to what a row of type T can hold: PyTorch's operations do so after each of them.
template <class T>
inline Vector rounded(Vector x);
template <>
inline Vector rounded<float>(Vector x) { return x; }
template <>
inline Vector rounded<Bfloat16>(Vector x) { return widen(narrow(x)); }

// e^x, within two units in the last place: 2^n times a polynomial over [-ln 2 / 2, ln 2 / 2] (Cephes' expf).
inline Vector exponential(Vector x) {
    x = _mm512_max_ps(splat(-87.3f), _mm512_min_ps(splat(88.0f), x));  // in this order what is not a number stays so
    const Vector n = _mm512_roundscale_ps(_mm512_mul_ps(x, splat(1.44269504088896f)), _MM_FROUND_TO_NEAREST_INT);
    Vector r = _mm512_fnmadd_ps(n, splat(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, splat(-2.12194440e-4f), r);
    Vector p = splat(1.9875691500e-4f);
    for (const float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
        p = _mm512_fmadd_ps(p, r, splat(c));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, splat(1.0f)));
    return _mm512_scalef_ps(p, n);
}

// x / (1 + e^-x)
inline Vector silu(Vector x) {
    return _mm512_div_ps(x, _mm512_add_ps(splat(1.0f), exponential(_mm512_sub_ps(_mm512_setzero_ps(), x))));
}

}  // namespace cede
