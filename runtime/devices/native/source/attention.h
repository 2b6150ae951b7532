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

constexpr int PAGE = 64;  // positions

// Where a sequence's positions lie; `first` is the one that number 0 stands for.
struct Pages {
    const int32_t* page;
    int first;

    // How many rows behind number k it lies; so do all of its page.
    ptrdiff_t shift(int k) const {
        const int position = k + first;
        return static_cast<ptrdiff_t>(page[position / PAGE]) * PAGE + position % PAGE - k;
    }
    // The first number behind its page.
    int behind(int k) const { return k + PAGE - (k + first) % PAGE; }
};

// Some of the numbers from one to `last`, which lie in pages one behind the other; then the next ones.
struct Run {
    const Pages& pages;
    const int last;
    int first, end;          // of the run
    int behind;              // the first number in another page than these
    ptrdiff_t shift, after;  // of the run, and of those behind it

    Run(const Pages& pages, int first, int last) : pages(pages), last(last) { begin(first); }
    explicit operator bool() const { return first < last; }
    void next() { begin(behind); }
    void begin(int number) {
        first = number;
        if (first >= last) return;
        behind = pages.behind(first), shift = after = pages.shift(first);
        while (behind < last && (after = pages.shift(behind)) == shift) behind += PAGE;
        end = behind < last ? behind : last;
    }
    // The row of a number of the run, or of one somewhat behind it.
    ptrdiff_t row(int number) const { return number + (number < behind ? shift : after); }
};

// Scores of the positions from `first` to `end`.
template <class T>
inline void score(const Query& query, const T* keys, int first, int end, int dim, float scale) {
    for (int k = first; k < end; ++k) {
        Vector product = splat(0.0f);
        for (int d = 0; d < dim; d += LANES)
            product = times_plus(load(query.numbers + d), load(keys + static_cast<ptrdiff_t>(k) * dim + d), product);
        query.scores[k - query.first] = scale * sum(product);
    }
}

// Likewise of `KEYS` positions for all queries, each to the bits that it has alone; `ahead` is read soon.
template <int QUERIES, class T>
inline void score_together(const Query* query, const T* keys, const T* ahead, int first, int dim, float scale) {
    Vector products[KEYS * MOST_QUERIES];
    for (Vector& one : products) one = splat(0.0f);
    for (int d = 0; d < dim; d += LANES) {
        Vector own[KEYS];
        for (int k = 0; k < KEYS; ++k) {
            prefetch(ahead + k * dim + d);
            own[k] = load(keys + static_cast<ptrdiff_t>(first + k) * dim + d);
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
            total[i] = times_plus(weight, load(values + static_cast<ptrdiff_t>(k) * dim + i * LANES), total[i]);
    }
}

// Some of the results' vectors; `values` and `to` are moved to the first of them.
template <int QUERIES, int COUNT, class T>
inline void weigh(const Query* query, const T* values, const Pages& pages, int common, int end, int dim, const Vector* factors, int place) {
    Vector total[QUERIES][COUNT];
    for (int q = 0; q < QUERIES; ++q) {
        for (Vector& one : total[q]) one = splat(0.0f);
        for (Run run(pages, query[q].first, common); run; run.next())
            add_values(query[q], values + run.shift * dim, run.first, run.end, dim, total[q]);
    }
    const int rows_ahead = BYTES_AHEAD / (sizeof(T) * dim);
    for (Run run(pages, common, end); run; run.next()) {
        for (int k = run.first; k < run.end; ++k) {
            Vector own[COUNT];
            const T *place = values + (k + run.shift) * dim, *ahead = values + run.row(k + rows_ahead) * dim;
            for (int i = 0; i < COUNT; ++i) {
                prefetch(ahead + i * LANES);
                own[i] = load(place + i * LANES);
            }
            for (int q = 0; q < QUERIES; ++q) {
                const Vector weight = splat(query[q].scores[k - query[q].first]);
                for (int i = 0; i < COUNT; ++i) total[q][i] = times_plus(weight, own[i], total[q][i]);
            }
        }
    }
    for (int q = 0; q < QUERIES; ++q) {
        for (Run run(pages, end, query[q].end); run; run.next())
            add_values(query[q], values + run.shift * dim, run.first, run.end, dim, total[q]);
        for (int i = 0; i < COUNT; ++i) store(query[q].to + place + i * LANES, rounded<T>(times(total[q][i], factors[q])));
    }
}

// Attend from some query heads of one KV head, each to the bits that it has alone.
//
// keys, values: `[places, dim]`
template <int QUERIES, class T>
inline void attend(const Query* query, const T* keys, const T* values, const Pages& pages, int dim, float scale) {
    int common = 0, end = query[0].end;  // what all of them see
    for (int q = 0; q < QUERIES; ++q) {
        common = query[q].first > common ? query[q].first : common;
        end = query[q].end < end ? query[q].end : end;
    }
    if (end < common) end = common;
    const auto alone = [&](const Query& one, int first, int end) {
        for (Run run(pages, first, end); run; run.next())
            score(one, keys + run.shift * dim, run.first, run.end, dim, scale);
    };
    const int rows_ahead = BYTES_AHEAD / (sizeof(T) * dim);
    for (Run run(pages, common, end); run; run.next()) {
        const T* own = keys + run.shift * dim;
        const int whole = run.first + (QUERIES > 1 ? (run.end - run.first) / KEYS * KEYS : 0);
        for (int k = run.first; k < whole; k += KEYS)
            score_together<QUERIES>(query, own, keys + run.row(k + rows_ahead) * dim, k, dim, scale);
        for (int q = 0; q < QUERIES; ++q) score(query[q], own, whole, run.end, dim, scale);
    }
    Vector factors[QUERIES];
    for (int q = 0; q < QUERIES; ++q) {
        alone(query[q], query[q].first, common);
        alone(query[q], end, query[q].end);
        factors[q] = splat(soften(query[q].scores, query[q].end - query[q].first));
    }
    int place = 0;
    for (; dim - place >= PARTS * LANES; place += PARTS * LANES)
        weigh<QUERIES, PARTS>(query, values + place, pages, common, end, dim, factors, place);
    for (; place < dim; place += LANES) weigh<QUERIES, 1>(query, values + place, pages, common, end, dim, factors, place);
}
