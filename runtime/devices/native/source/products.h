// What the products of all kinds of matrices share.
//
// A product is a structure that is made of a matrix and rows, and computes the piece of all rows' outputs that it is asked
// for.  In which order a row's numbers are added does not depend on how many rows there are.

// Call `some(count, first)` for two or four rows at a time, and then for those that are left; `count()` is a constant.
template <int AT_ONCE, class Some>
inline void in_turns(int rows, Some&& some) {
    for (int first = 0; first < rows; first += AT_ONCE) {
        if (rows - first >= AT_ONCE) {
            some(std::integral_constant<int, AT_ONCE>(), first);
            continue;
        }
        if (rows - first == 1) some(std::integral_constant<int, 1>(), first);
        if constexpr (AT_ONCE > 2) {
            if (rows - first == 2) some(std::integral_constant<int, 2>(), first);
            if (rows - first == 3) some(std::integral_constant<int, 3>(), first);
        }
    }
}

// How many sums of each of so many rows are added up at a time.
constexpr int sums_of_each(int rows) {
    return 4 * rows <= SUMS_AT_ONCE ? 4 : 2 * rows <= SUMS_AT_ONCE ? 2 : 1;
}

// Ask for memory that is read soon: a matrix is read in pieces, which are too short for the processor to foresee the next.
template <class Number>
inline void prefetch(const Number* place) { __builtin_prefetch(place); }

// Add the bias of sixteen outputs, if there is one.
inline Vector with_bias(const Matrix& matrix, int output, Vector y) {
    return matrix.bias ? add(y, load(matrix.bias + output)) : y;
}

// Return so many numbers, filled up to whole vectors.
constexpr size_t whole_vectors(size_t count) { return (count + LANES - 1) / LANES * LANES; }

constexpr size_t BYTES_AHEAD = 2048;  // of what is asked for before it is needed
constexpr int TAKEN_AT_ONCE = 8;      // rows whose inputs one thread prepares

// Call `take(row)` for each row, on several threads.
template <class Take>
inline void take_in_turns(Context& context, int rows, Take&& take) {
    context.workers.run((rows + TAKEN_AT_ONCE - 1) / TAKEN_AT_ONCE, [&](int ticket) {
        for (int row = ticket * TAKEN_AT_ONCE; row < rows && row < (ticket + 1) * TAKEN_AT_ONCE; ++row) take(row);
    });
}

// Call `some(first, end)` for ranges of what is below `count`, no more than `most`, on several threads.
//
// A range's weights lie one behind the other: how far that goes decides how fast they are read (bench/LOG.md).
template <class Some>
inline void run_ranges(Workers& workers, int count, int most, Some&& some) {
    const int at_once = (count + most - 1) / most;
    workers.run((count + at_once - 1) / at_once, [&](int ticket) {
        some(ticket * at_once, (ticket + 1) * at_once < count ? (ticket + 1) * at_once : count);
    });
}

// Call `piece(i)` for each i below `count`, likewise.
template <class Piece>
inline void run_pieces(Workers& workers, int count, int most, Piece&& piece) {
    run_ranges(workers, count, most, [&](int first, int end) {
        for (int i = first; i < end; ++i) piece(i);
    });
}
