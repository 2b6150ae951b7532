// Functions of sixteen numbers, from those of `vectors_….h`.

// Round to what a row of type T can hold: PyTorch's operations do so after each of them.
template <class T>
inline Vector rounded(Vector x);
template <>
inline Vector rounded<float>(Vector x) { return x; }
template <>
inline Vector rounded<Bfloat16>(Vector x) { return rounded_to_bfloat16(x); }

// e^x, within two units in the last place: 2^n times a polynomial over [-ln 2 / 2, ln 2 / 2] (Cephes' expf).
inline Vector exponential(Vector x) {
    x = larger(splat(-87.3f), smaller(splat(88.0f), x));  // in this order what is not a number stays so
    const Vector n = nearest(times(x, splat(1.44269504088896f)));
    Vector r = minus_times(n, splat(0.693359375f), x);
    r = minus_times(n, splat(-2.12194440e-4f), r);
    Vector p = splat(1.9875691500e-4f);
    for (const float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
        p = times_plus(p, r, splat(c));
    p = times_plus(p, times(r, r), add(r, splat(1.0f)));
    return times_power_of_2(p, n);
}

// x / (1 + e^y)
inline Vector gated(Vector x, Vector y) { return divide(x, add(splat(1.0f), exponential(y))); }

inline Vector negative(Vector x) { return subtract(splat(0.0f), x); }

inline Vector silu(Vector x) { return gated(x, negative(x)); }

inline Vector sigmoid(Vector x) { return gated(splat(1.0f), negative(x)); }

// log(1 + e^x), which is x, or 0, and log(1 + t) = 2 artanh(t / (2 + t)) with t = e^-|x|.
inline Vector softplus(Vector x) {
    const Vector t = exponential(negative(larger(negative(x), x))), z = divide(t, add(t, splat(2.0f))), squared = times(z, z);
    Vector p = splat(2.0f / 15.0f);
    for (const float odd : {13.0f, 11.0f, 9.0f, 7.0f, 5.0f, 3.0f, 1.0f}) p = times_plus(p, squared, splat(2.0f / odd));
    return times_plus(p, z, larger(splat(0.0f), x));
}

// x (1 + tanh(y)) / 2 with y = sqrt(2 / pi) (x + 0.044715 x^3), which is x / (1 + e^-2y) (Hendrycks and Gimpel, arXiv 1606.08415).
inline Vector gelu(Vector x) {
    const Vector factor = times_plus(times(x, x), splat(-2.0f * 0.79788456f * 0.044715f), splat(-2.0f * 0.79788456f));
    return gated(x, times(x, factor));
}

// The largest of sixteen numbers.
inline float largest_number(Vector x) {
    alignas(64) float each[LANES];
    store(each, x);
    float largest = each[0];
    for (const float one : each) largest = one > largest ? one : largest;
    return largest;
}
