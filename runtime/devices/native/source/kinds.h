// Chooses a matrix's product by its kind.

// Call `use` with the product of `x`, `[rows, in]`, and a matrix of a kind that is multiplied by any number of rows.
//
// Return whether it is of such a kind.
template <class T, class Use>
inline bool with_product_of_any_rows(Context& context, const Matrix& matrix, const T* x, int rows, Use&& use) {
    switch (matrix.kind) {
        case FOUR_BITS: use(FourBits(context, matrix, x, rows)); return true;
        case SPREAD_BYTES: use(Bytes(context, matrix, x, rows)); return true;
        case NIBBLES: use(Codes<FourBits16<true>>(context, matrix, x, rows)); return true;
        case NIBBLES_WITHOUT_ZEROS: use(Codes<FourBits16<false>>(context, matrix, x, rows)); return true;
        case SIX_BITS: use(Codes<SixBits16>(context, matrix, x, rows)); return true;
        default: return false;
    }
}

// Likewise with a matrix of any kind, and few rows; their numbers are those that T has.
template <class T, class Use>
inline void with_product(Context& context, const Matrix& matrix, const float* x, int rows, Use&& use) {
    if (with_product_of_any_rows(context, matrix, x, rows, use)) return;
    switch (matrix.kind) {
        case ROWS_OF_FLOAT32: return use(Rows<float>(context, matrix, x, rows));
        case ROWS_OF_BFLOAT16: return use(Rows<Bfloat16>(context, matrix, x, rows));
        case ROWS_OF_FLOAT16: return use(Rows<Float16>(context, matrix, x, rows));
        case ROWS_OF_INT8: return use(EightBits(context, matrix, x, rows));
        case PANELS_OF_FLOAT32: return use(Panels<float, PANEL>(context, matrix, x, rows));
        case PANELS_OF_BFLOAT16: return use(Panels<Bfloat16, PANEL>(context, matrix, x, rows));
        case NARROW_PANELS_OF_BFLOAT16:
#ifdef CEDE_TILES
            if (std::is_same_v<T, Bfloat16> && Tiles::takes(context, matrix)) return use(Tiles(context, matrix, x, rows));
#endif
            return use(Panels<Bfloat16, NARROW>(context, matrix, x, rows));
    }
}
