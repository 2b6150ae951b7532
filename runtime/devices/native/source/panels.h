// Products of few rows with weights in panels of outputs (`structures.h`): an input times a vector of weights at a time.

constexpr int TILE = 32;  // inputs, whose weights stay in the first cache for all rows and vectors

// Load sixteen outputs' weights of input `k`, of a panel of WIDTH outputs, and add their products.
template <int WIDTH, int ROWS, int COUNT>
inline void add_products_of(const float* x, int in, int k, const float* weight, Vector (&total)[ROWS][COUNT]) {
    Vector own[COUNT];
    for (int j = 0; j < COUNT; ++j) {
        const float* place = weight + static_cast<size_t>(k) * WIDTH + j * LANES;
        prefetch(place + TILE * WIDTH);
        own[j] = load(place);
    }
    for (int row = 0; row < ROWS; ++row) {
        const Vector input = splat(x[static_cast<size_t>(row) * in + k]);
        for (int j = 0; j < COUNT; ++j) total[row][j] = times_plus(input, own[j], total[row][j]);
    }
}

// Likewise of inputs `k` and `k + 1`, whose weights lie in pairs.
template <int WIDTH, int ROWS, int COUNT>
inline void add_products_of(const float* x, int in, int k, const Bfloat16* weight, Vector (&total)[ROWS][COUNT]) {
    Vector even[COUNT], odd[COUNT];
    for (int j = 0; j < COUNT; ++j) {
        const Bfloat16* place = weight + static_cast<size_t>(k) * WIDTH + 2 * j * LANES;
        prefetch(place + TILE * WIDTH);
        load_pairs(place, even[j], odd[j]);
    }
    for (int row = 0; row < ROWS; ++row) {
        const float* input = x + static_cast<size_t>(row) * in + k;
        for (int j = 0; j < COUNT; ++j) total[row][j] = times_plus(splat(input[0]), even[j], total[row][j]);
        for (int j = 0; j < COUNT; ++j) total[row][j] = times_plus(splat(input[1]), odd[j], total[row][j]);
    }
}

template <class Weight, int WIDTH>
struct Panels {
    static constexpr int OUTPUTS = WIDTH;
    static constexpr int VECTORS = WIDTH / LANES;
    static constexpr int PAIR = std::is_same_v<Weight, Bfloat16> ? 2 : 1;

    // x: `[rows, in]`
    Panels(Context&, const Matrix& matrix, const float* x, int rows) : matrix(matrix), rows(rows), inputs(x) {}

    // The outputs of one panel.
    [[gnu::noinline]] void operator()(int panel, Vector (*y)[VECTORS]) const {
        const Weight* weight = static_cast<const Weight*>(matrix.weight) + static_cast<size_t>(panel) * matrix.in * WIDTH;
        for (int row = 0; row < rows; ++row)
            for (int j = 0; j < VECTORS; ++j) y[row][j] = splat(0.0f);
        for (int from = 0; from < matrix.in; from += TILE) {
            const int to = matrix.in - from < TILE ? matrix.in : from + TILE;
            in_turns<4>(rows, [&](auto count, int first) {
                constexpr int ROWS = count(), COUNT = sums_of_each(ROWS) < VECTORS ? sums_of_each(ROWS) : VECTORS;
                const float* x = inputs + static_cast<size_t>(first) * matrix.in;
                for (int j = 0; j < VECTORS; j += COUNT) {
                    Vector total[ROWS][COUNT];
                    for (int row = 0; row < ROWS; ++row)
                        for (int i = 0; i < COUNT; ++i) total[row][i] = y[first + row][j + i];
                    for (int k = from; k < to; k += PAIR)
                        add_products_of<WIDTH, ROWS, COUNT>(x, matrix.in, k, weight + PAIR * j * LANES, total);
                    for (int row = 0; row < ROWS; ++row)
                        for (int i = 0; i < COUNT; ++i) y[first + row][j + i] = total[row][i];
                }
            });
        }
        for (int row = 0; row < rows; ++row)
            for (int j = 0; j < VECTORS; ++j) y[row][j] = with_bias(matrix, panel * WIDTH + j * LANES, y[row][j]);
    }

    const Matrix& matrix;
    int rows;
    const float* inputs;
};
