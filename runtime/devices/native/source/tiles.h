// Products with weights in narrow panels (`structures.h`) by the processor's tiles (`amx.h`).

struct Tiles {
    static constexpr int OUTPUTS = NARROW;
    static constexpr int VECTORS = NARROW / LANES;

    static bool takes(const Context& context, const Matrix& matrix) { return context.has_tiles && matrix.in % TILE_INPUTS == 0; }

    // x: `[rows, in]`, of numbers that bfloat16 has
    Tiles(Context& context, const Matrix& matrix, const float* x, int rows) : matrix(matrix), rows(rows) {
        context.narrow.resize(static_cast<size_t>(rows) * matrix.in);
        for (size_t i = 0; i < context.narrow.size(); i += LANES) store(context.narrow.data() + i, load(x + i));
        inputs = context.narrow.data();
    }

    // The outputs of one panel.
    void operator()(int panel, Vector (*y)[VECTORS]) const {
        alignas(64) float sums[MOST_ROWS][NARROW];
        multiply_tiles(static_cast<const Bfloat16*>(matrix.weight) + static_cast<size_t>(panel) * matrix.in * NARROW, inputs, matrix.in,
                       rows, sums[0]);
        for (int row = 0; row < rows; ++row)
            for (int j = 0; j < VECTORS; ++j) y[row][j] = with_bias(matrix, panel * NARROW + j * LANES, load(sums[row] + j * LANES));
    }

    const Matrix& matrix;
    int rows;
    const Bfloat16* inputs;
};
