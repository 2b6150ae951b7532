// Rows of logits to tokens: the likeliest, or one that is drawn.
//
// No row is sorted: what the last token weighs that a filter lets pass is found by halving the range in which it is.

constexpr int TOKENS = 64;  // of a block

// What the tokens of a row weigh: the likeliest 1, and what is banned nothing.
struct Weights {
    const float* weight;  // `[blocks * TOKENS]`, of no token 0
    std::vector<float> sums, largest;  // of each block
    double total;

    int blocks() const { return static_cast<int>(sums.size()); }
};

// Call `use(block, logits)` for each block of a row; the last is filled up with what is banned.
template <class Use>
inline void each_block(const float* logits, int vocab, Use&& use) {
    const int whole = vocab / TOKENS, rest = vocab % TOKENS;
    for (int block = 0; block < whole; ++block) use(block, logits + block * TOKENS);
    if (rest == 0) return;
    float last[TOKENS];
    std::fill(last, last + TOKENS, -INFINITY);
    std::memcpy(last, logits + whole * TOKENS, rest * sizeof(float));
    use(whole, last);
}

// The first of the largest logits; some token where they are not all numbers.
inline int likeliest(const float* logits, int vocab) {
    float most = -INFINITY;
    int token = 0;
    each_block(logits, vocab, [&](int block, const float* own) {
        Vector largest = load(own);
        for (int i = LANES; i < TOKENS; i += LANES) largest = larger(largest, load(own + i));
        const float here = largest_number(largest);
        if (!(here > most)) return;
        most = here;
        token = block * TOKENS + static_cast<int>(std::find(own, own + TOKENS, here) - own);
    });
    return std::min(token, vocab - 1);
}

// e^((logit - largest) / temperature) of each; 0 of what is banned, or e^87 times less likely than the likeliest.
inline Weights weigh(const float* logits, int vocab, float temperature, float* weights) {
    const int blocks = (vocab + TOKENS - 1) / TOKENS;
    Weights row{weights, std::vector<float>(blocks), std::vector<float>(blocks), 0.0};
    Vector most = splat(-INFINITY);
    each_block(logits, vocab, [&](int, const float* own) {
        for (int i = 0; i < TOKENS; i += LANES) most = larger(most, load(own + i));
    });
    const Vector top = splat(largest_number(most)), divisor = splat(temperature), none = exponential(splat(-INFINITY));
    each_block(logits, vocab, [&](int block, const float* own) {
        Vector total = splat(0.0f), largest = splat(0.0f);
        for (int i = 0; i < TOKENS; i += LANES) {
            const Vector weight = subtract(exponential(divide(subtract(load(own + i), top), divisor)), none);
            store(weights + block * TOKENS + i, weight);
            total = add(total, weight);
            largest = larger(largest, weight);
        }
        row.sums[block] = sum(total);
        row.largest[block] = largest_number(largest);
    });
    for (const float one : row.sums) row.total += one;
    return row;
}

enum class Measure { COUNT, WEIGHT };

// How many tokens of a block weigh `least` or more, or what they weigh.
template <Measure MEASURE>
inline float measure_of_block(const float* weights, float least) {
    Vector total = splat(0.0f);
    for (int i = 0; i < TOKENS; i += LANES) {
        const Vector weight = load(weights + i), measured = MEASURE == Measure::COUNT ? splat(1.0f) : weight;
        total = add(total, where_at_least(weight, splat(least), measured));
    }
    return sum(total);
}

// The same of a row.
template <Measure MEASURE>
inline double measure(const Weights& row, float least) {
    double total = 0.0;
    for (int block = 0; block < row.blocks(); ++block)
        if (row.largest[block] >= least) total += measure_of_block<MEASURE>(row.weight + block * TOKENS, least);
    return total;
}

// What the last token weighs that is needed for a sum, the heaviest first; 0 where all of them have less.
template <Measure MEASURE>
inline float last_needed(const Weights& row, double sum) {
    const auto number = [](uint32_t bits) {
        float own;
        std::memcpy(&own, &bits, sizeof own);
        return own;
    };
    uint32_t low = 0, high = 0x3f800000;  // the bits of 0 and 1: numbers that are not negative are ordered as theirs are
    while (low < high) {
        const uint32_t middle = high - (high - low) / 2;
        if (measure<MEASURE>(row, number(middle)) >= sum)
            low = middle;
        else
            high = middle - 1;
    }
    return number(low);
}

// What the lightest token weighs that may be drawn, by top-k, by top-p of what that leaves, and by min-p.
//
// Tokens of one weight stand or fall together.
inline float least_weight(const Weights& row, int vocab, const Draw& draw) {
    float least = draw.min_p;
    double mass = row.total;
    if (draw.top_k > 0 && draw.top_k < vocab) {
        const float last = last_needed<Measure::COUNT>(row, draw.top_k);
        // Of tokens as heavy as the last one as many as top-k has, though all of them may be drawn.
        const double too_many = measure<Measure::COUNT>(row, last) - draw.top_k;
        mass = measure<Measure::WEIGHT>(row, last) - too_many * last;
        least = std::max(least, last);
    }
    if (draw.top_p < 1.0f) {
        constexpr double SOME = 1e-30;  // the likeliest token may be drawn in any case
        least = std::max(least, last_needed<Measure::WEIGHT>(row, std::max(draw.top_p * mass, SOME)));
    }
    return least;
}

// Draw by inversion: the first token with which those that weigh `least` or more have more than a share of them all.
inline int token_at(Weights& row, float least, float share) {
    if (least > 0.0f) {
        row.total = 0.0;
        for (int block = 0; block < row.blocks(); ++block)
            row.total += row.sums[block] =
                row.largest[block] >= least ? measure_of_block<Measure::WEIGHT>(row.weight + block * TOKENS, least) : 0.0f;
    }
    double before = 0.0;
    int block = 0;
    // Sums in the total's own order, so that no share below 1 leads behind the last block that weighs anything.
    while (block + 1 < row.blocks() && before + row.sums[block] <= share * row.total) before += row.sums[block++];
    int token = block * TOKENS;
    for (int i = 0; i < TOKENS; ++i) {
        const float weight = row.weight[block * TOKENS + i];
        if (weight <= 0.0f || weight < least) continue;
        token = block * TOKENS + i;
        before += weight;
        if (before > share * row.total) break;
    }
    return token;  // the block's last one where its sum was rounded up
}

// Draw a token of a row of logits, `[vocab]`; some token where they are not all numbers.
//
// weights: room for as many, up to whole blocks.
inline int draw_token(const float* logits, int vocab, const Draw& draw, float* weights) {
    if (draw.temperature <= 0.0f) return likeliest(logits, vocab);
    Weights row = weigh(logits, vocab, draw.temperature, weights);
    if (!std::isfinite(row.total)) return 0;
    return token_at(row, least_weight(row, vocab, draw), draw.number);
}

// Draw a token of each row of logits, `[rows, vocab]`.
inline void draw_tokens(Context& context, const float* logits, int rows, int vocab, const Draw* draws, float* weights,
                        int64_t* tokens) {
    const size_t room = static_cast<size_t>((vocab + TOKENS - 1) / TOKENS) * TOKENS;
    run_pieces(context.workers, rows, MOST_TICKETS, [&](int row) {
        tokens[row] = draw_token(logits + static_cast<size_t>(row) * vocab, vocab, draws[row], weights + row * room);
    });
}
