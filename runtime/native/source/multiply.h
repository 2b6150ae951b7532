// A product of few rows alone, such as that of a model's head.

constexpr int MOST_TICKETS = 512;  // of one product: a head has thousands of pieces

// x: `[rows, in]`; y: `[rows, out]`, rounded as the model's rows are.
template <class T>
void multiply(Context& context, const Matrix& matrix, const T* x, int rows, float* y) {
    context.normed.resize(static_cast<size_t>(rows) * matrix.in);
    for (size_t i = 0; i < context.normed.size(); i += LANES) store(context.normed.data() + i, load(x + i));
    with_product(context, matrix, context.normed.data(), rows, [&](const auto& product) {
        constexpr int OUTPUTS = std::decay_t<decltype(product)>::OUTPUTS;
        const int pieces = matrix.out / OUTPUTS, at_once = (pieces + MOST_TICKETS - 1) / MOST_TICKETS;
        context.workers.run((pieces + at_once - 1) / at_once, [&](int ticket) {
            const int end = (ticket + 1) * at_once < pieces ? (ticket + 1) * at_once : pieces;
            for (int piece = ticket * at_once; piece < end; ++piece) {
                Vector own[MOST_ROWS][OUTPUTS / LANES];
                product(piece, own);
                for (size_t r = 0; r < static_cast<size_t>(rows); ++r)
                    for (int j = 0; j < OUTPUTS / LANES; ++j)
                        store(y + r * matrix.out + piece * OUTPUTS + j * LANES, rounded<T>(own[r][j]));
            }
        });
    });
}
