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

// Rotate the first numbers of a head in place; they are such as T can hold.  cos, sin: `[rotary]`, the first half of `sin`
// negative.
template <class T>
inline void rotate(float* head, const T* cos, const T* sin, int rotary) {
    const int half = rotary / 2;
    for (int i = 0; i < half; i += LANES) {
        const Vector first = load(head + i), second = load(head + half + i);
        const Vector x = rounded<T>(times(first, load(cos + i)));
        const Vector y = rounded<T>(times(second, load(cos + half + i)));
        store(head + i, rounded<T>(times_plus(second, load(sin + i), x)));
        store(head + half + i, rounded<T>(times_plus(first, load(sin + half + i), y)));
    }
}

// Scores become weights, which add up to 1 but for the factor that is returned; what is not a number spoils all.
//
// scores: room for whole vectors; what is behind `length` weighs nothing.
inline float soften(float* scores, int length) {
    for (int k = length; k % LANES; ++k) scores[k] = -INFINITY;  // whose weight, e^-87, is lost beside the largest's, 1
    Vector largest = splat(-INFINITY), total = splat(0.0f);
    for (int k = 0; k < length; k += LANES) largest = larger(load(scores + k), largest);
    const Vector most = splat(largest_number(largest));
    for (int k = 0; k < length; k += LANES) {
        const Vector weight = exponential(subtract(load(scores + k), most));
        store(scores + k, weight);
        total = add(total, weight);
    }
    return 1.0f / sum(total);
}

// A query head: what it sees of its sequence's positions, room for a score of each in whole vectors, and where the result goes.
struct Query {
    const float* numbers;  // `[dim]`
    int first, end;        // positions
    float* scores;
    float* to;  // `[dim]`, rounded as T
};

constexpr int MOST_QUERIES = 4;  // that attend together: what they see in common is read once for all of them
constexpr int KEYS = 4;          // whose products with them are added up at a time
constexpr int PARTS = 4;         // vectors of their results, likewise

// Scores of the positions from `first` to `end`.
template <class T>
inline void score(const Query& query, const T* keys, int first, int end, int dim, float scale) {
    for (int k = first; k < end; ++k) {
        Vector product = splat(0.0f);
        for (int d = 0; d < dim; d += LANES)
            product = times_plus(load(query.numbers + d), load(keys + static_cast<size_t>(k) * dim + d), product);
        query.scores[k - query.first] = scale * sum(product);
    }
}

// Likewise of `KEYS` positions for all queries, each to the bits that it has alone.
template <int QUERIES, class T>
inline void score_together(const Query* query, const T* keys, int first, int dim, float scale) {
    Vector products[KEYS * MOST_QUERIES];
    for (Vector& one : products) one = splat(0.0f);
    for (int d = 0; d < dim; d += LANES) {
        Vector own[KEYS];
        for (int k = 0; k < KEYS; ++k) {
            const T* place = keys + static_cast<size_t>(first + k) * dim + d;
            prefetch(place + BYTES_AHEAD / sizeof(T));
            own[k] = load(place);
        }
        for (int q = 0; q < QUERIES; ++q) {
            const Vector numbers = load(query[q].numbers + d);
            for (int k = 0; k < KEYS; ++k)
                products[k * MOST_QUERIES + q] = times_plus(numbers, own[k], products[k * MOST_QUERIES + q]);
        }
    }
    alignas(64) float scores[MOST_QUERIES * KEYS];
    store(scores, times(splat(scale), sums_of(products)));
    for (int q = 0; q < QUERIES; ++q) std::memcpy(query[q].scores + first - query[q].first, scores + q * KEYS, sizeof(float) * KEYS);
}

// Add the values of the positions from `first` to `end`, by their weights.
template <int COUNT, class T>
inline void add_values(const Query& query, const T* values, int first, int end, int dim, Vector (&total)[COUNT]) {
    for (int k = first; k < end; ++k) {
        const Vector weight = splat(query.scores[k - query.first]);
        for (int i = 0; i < COUNT; ++i)
            total[i] = times_plus(weight, load(values + static_cast<size_t>(k) * dim + i * LANES), total[i]);
    }
}

// Some of the results' vectors; `values` and `to` are moved to the first of them.
template <int QUERIES, int COUNT, class T>
inline void weigh(const Query* query, const T* values, int common, int end, int dim, const Vector* factors, int place) {
    Vector total[QUERIES][COUNT];
    for (int q = 0; q < QUERIES; ++q) {
        for (Vector& one : total[q]) one = splat(0.0f);
        add_values(query[q], values, query[q].first, common, dim, total[q]);
    }
    for (int k = common; k < end; ++k) {
        Vector own[COUNT];
        for (int i = 0; i < COUNT; ++i) {
            const T* place = values + static_cast<size_t>(k) * dim + i * LANES;
            prefetch(place + BYTES_AHEAD / sizeof(T));
            own[i] = load(place);
        }
        for (int q = 0; q < QUERIES; ++q) {
            const Vector weight = splat(query[q].scores[k - query[q].first]);
            for (int i = 0; i < COUNT; ++i) total[q][i] = times_plus(weight, own[i], total[q][i]);
        }
    }
    for (int q = 0; q < QUERIES; ++q) {
        add_values(query[q], values, end, query[q].end, dim, total[q]);
        for (int i = 0; i < COUNT; ++i) store(query[q].to + place + i * LANES, rounded<T>(times(total[q][i], factors[q])));
    }
}

// Attend from some query heads of one KV head, each to the bits that it has alone.
//
// keys, values: `[positions, dim]`
template <int QUERIES, class T>
inline void attend(const Query* query, const T* keys, const T* values, int dim, float scale) {
    int common = 0, end = query[0].end;  // what all of them see
    for (int q = 0; q < QUERIES; ++q) {
        common = query[q].first > common ? query[q].first : common;
        end = query[q].end < end ? query[q].end : end;
    }
    if (end < common) end = common;
    const int whole = common + (QUERIES > 1 ? (end - common) / KEYS * KEYS : 0);
    for (int k = common; k < whole; k += KEYS) score_together<QUERIES>(query, keys, k, dim, scale);
    Vector factors[QUERIES];
    for (int q = 0; q < QUERIES; ++q) {
        score(query[q], keys, query[q].first, common, dim, scale);
        score(query[q], keys, whole, query[q].end, dim, scale);
        factors[q] = splat(soften(query[q].scores, query[q].end - query[q].first));
    }
    int place = 0;
    for (; dim - place >= PARTS * LANES; place += PARTS * LANES)
        weigh<QUERIES, PARTS>(query, values + place, common, end, dim, factors, place);
    for (; place < dim; place += LANES) weigh<QUERIES, 1>(query, values + place, common, end, dim, factors, place);
}
