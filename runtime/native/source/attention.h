// Attention of few rows over the keys and values of one sequence, a KV head at a time.

// Divide by the root mean square and multiply by the weight; `least` is sqrt(size * eps), and the weight has the factor
// sqrt(size) in it, as in `runtime/nn/layers/norm.py`.
template <class T, class To>
inline void normalise(const T* x, const float* weight, float least, int size, To* to) {
    Vector squares = splat(0.0f);
    for (int i = 0; i < size; i += LANES) squares = times_plus(load(x + i), load(x + i), squares);
    const Vector norm = splat(std::sqrt(sum(squares) + least * least));
    for (int i = 0; i < size; i += LANES) store(to + i, times(divide(load(x + i), norm), load(weight + i)));
}

// Rotate a head in place; numbers of `head` are such as T can hold.  cos, sin: `[dim]`, the first half of `sin` negative.
template <class T>
inline void rotate(float* head, const T* cos, const T* sin, int dim) {
    const int half = dim / 2;
    for (int i = 0; i < half; i += LANES) {
        const Vector first = load(head + i), second = load(head + half + i);
        const Vector x = rounded<T>(times(first, load(cos + i)));
        const Vector y = rounded<T>(times(second, load(cos + half + i)));
        store(head + i, rounded<T>(times_plus(second, load(sin + i), x)));
        store(head + half + i, rounded<T>(times_plus(first, load(sin + half + i), y)));
    }
}

// Scores become weights, which add up to 1 but for the factor that is returned.
//
// scores: room for whole vectors; what is behind `length` weighs nothing.
inline float soften(float* scores, int length, float largest) {
    const Vector most = splat(largest);
    Vector total = splat(0.0f);
    for (int k = length; k % LANES; ++k) scores[k] = -INFINITY;  // whose weight, e^-87, is lost beside the largest's, 1
    for (int k = 0; k < length; k += LANES) {
        const Vector weight = exponential(subtract(load(scores + k), most));
        store(scores + k, weight);
        total = add(total, weight);
    }
    return 1.0f / sum(total);
}

// Attend from one query head.
//
// query: `[dim]`; keys, values: `[length, dim]`; scores: room for `length`, in whole vectors; to: `[dim]`, rounded as T.
template <class T>
inline void attend(const float* query, const T* keys, const T* values, int length, int dim, float scale, float* scores,
                   float* to) {
    constexpr int AT_ONCE = 4;
    float largest = -INFINITY;
    for (int k = 0; k < length; ++k) {
        Vector product = splat(0.0f);
        for (int d = 0; d < dim; d += LANES)
            product = times_plus(load(query + d), load(keys + static_cast<size_t>(k) * dim + d), product);
        scores[k] = scale * sum(product);
        if (!(scores[k] <= largest)) largest = scores[k];  // what is not a number is the largest, and spoils all
    }
    const Vector factor = splat(soften(scores, length, largest));
    for (int first = 0; first < dim; first += AT_ONCE * LANES) {
        const int count = (dim - first) / LANES < AT_ONCE ? (dim - first) / LANES : AT_ONCE;
        Vector total[AT_ONCE];
        for (Vector& one : total) one = splat(0.0f);
        for (int k = 0; k < length; ++k) {
            const T* value = values + static_cast<size_t>(k) * dim + first;
            for (int i = 0; i < count; ++i) total[i] = times_plus(splat(scores[k]), load(value + i * LANES), total[i]);
        }
        for (int i = 0; i < count; ++i) store(to + first + i * LANES, rounded<T>(times(total[i], factor)));
    }
}
