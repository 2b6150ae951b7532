// Products with weights in narrow panels (`structures.h`) by AMX, which multiplies tiles: sixteen rows with sixteen outputs, of
// 32 inputs at a time, in float32.  Pairs of inputs lie together in a panel as a tile wants them.
//
// Of one row as of many: in what order a row's numbers are added does not depend on how many there are.

constexpr int TILE_ROWS = 16, TILE_INPUTS = 32;

// How a thread's tiles are set up: 0 and 1 are sums of the first rows, 2 and 3 of the others, 4 and 5 rows, 6 and 7 weights.
struct alignas(64) TileShapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};

    TileShapes(int first, int others) {
        for (int tile = 0; tile < 8; ++tile) bytes[tile] = 64;
        rows[0] = rows[1] = rows[4] = static_cast<uint8_t>(first);
        rows[2] = rows[3] = rows[5] = static_cast<uint8_t>(others > 0 ? others : 1);
        rows[6] = rows[7] = TILE_ROWS;
    }
};

struct Tiles {
    static constexpr int OUTPUTS = NARROW;
    static constexpr int VECTORS = NARROW / LANES;

    static bool takes(const Matrix& matrix) { return matrix.in % TILE_INPUTS == 0; }

    // x: `[rows, in]`, of numbers that bfloat16 has
    Tiles(Context& context, const Matrix& matrix, const float* x, int rows) : matrix(matrix), rows(rows) {
        context.narrow.resize(static_cast<size_t>(rows) * matrix.in);
        for (size_t i = 0; i < context.narrow.size(); i += LANES) store(context.narrow.data() + i, load(x + i));
        inputs = context.narrow.data();
    }

    // The outputs of one panel.
    [[gnu::noinline]] void operator()(int panel, Vector (*y)[VECTORS]) const {
        const Bfloat16* weight = static_cast<const Bfloat16*>(matrix.weight) + static_cast<size_t>(panel) * matrix.in * NARROW;
        const int first = rows < TILE_ROWS ? rows : TILE_ROWS, others = rows - first;
        const TileShapes shapes(first, others);
        __asm__ __volatile__("" : : "r"(&shapes) : "memory");  // GCC takes the next line to read eight bytes of it
        _tile_loadconfig(&shapes);
        if (others > 0)
            multiply<true>(weight);
        else
            multiply<false>(weight);
        alignas(64) float sums[VECTORS][TILE_ROWS][LANES];
        const auto take = [&](int from, int count) {
            for (int row = 0; row < count; ++row)
                for (int j = 0; j < VECTORS; ++j)
                    y[from + row][j] = with_bias(matrix, panel * NARROW + j * LANES, load(sums[j][row]));
        };
        _tile_stored(0, sums[0], sizeof sums[0][0]);
        _tile_stored(1, sums[1], sizeof sums[0][0]);
        take(0, first);
        if (others > 0) {
            _tile_stored(2, sums[0], sizeof sums[0][0]);
            _tile_stored(3, sums[1], sizeof sums[0][0]);
            take(first, others);
        }
        _tile_release();
    }

    template <bool WITH_OTHERS>
    void multiply(const Bfloat16* weight) const {
        const size_t stride = matrix.in * sizeof(Bfloat16), of_weights = 2 * NARROW * sizeof(Bfloat16);
        _tile_zero(0);
        _tile_zero(1);
        if (WITH_OTHERS) {
            _tile_zero(2);
            _tile_zero(3);
        }
        for (int k = 0; k < matrix.in; k += TILE_INPUTS) {
            const Bfloat16* own = weight + static_cast<size_t>(k) * NARROW;
            _tile_loadd(4, inputs + k, stride);
            _tile_loadd(6, own, of_weights);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, own + 2 * LANES, of_weights);
            _tile_dpbf16ps(1, 4, 7);
            if (WITH_OTHERS) {
                _tile_loadd(5, inputs + static_cast<size_t>(TILE_ROWS) * matrix.in + k, stride);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
        }
    }

    const Matrix& matrix;
    int rows;
    const Bfloat16* inputs;
};
