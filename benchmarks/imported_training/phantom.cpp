// Values and best responses of phantom games on nine cells, exactly. phantom.py compiles this and explains the games.
//
// A sequence of a player is a list of moves (cell, placed or found occupied); sequences are numbered depth first, so a
// parent comes before its children. Histories are visited once, by depth-first recursion on sets of nine bits; nothing
// is looked up but a child's number. sf is the probability that a player plays a sequence and then a cell, [n, 9];
// g is the derivative of its expected return by that, [n, 9], so that a best response is a sweep from the last sequence
// to the first. Both hold LANES policies side by side, [n, 9, LANES], for which the histories are visited once.

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace {

#ifndef LANES
#define LANES 1
#endif

constexpr int32_t NONE = -1;
// One number of each policy, in the memory of NumPy's arrays, which are aligned to a double only.
typedef double Lanes __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

struct Game {
    bool abrupt;  // the turn passes after a cell that was found occupied, too
    unsigned cells;          // in play
    const uint8_t* wins[2];  // whether a set of cells wins for a player, [512]
    std::vector<uint64_t> key[2];   // moves from the first to the last in five bits each: 2 (cell + 1) + placed
    std::vector<int32_t> child[2];  // [n, 9, 2]: next sequence after a cell was found occupied, or was placed on
    std::vector<int32_t> parent[2];
    std::vector<uint8_t> legal[2];  // [n, 9]

    // Whether a player with these stones and these cells found occupied may have to decide: a superset of what happens.
    bool decides(int p, unsigned own, unsigned found) const {
        if (wins[p][own] || wins[1 - p][found]) return false;
        const int stones = __builtin_popcount(own), seen = __builtin_popcount(found);
        const int moves = (abrupt ? stones + seen : stones) + p;  // that the other player has made
        const int fewest = abrupt ? std::max(seen, moves - stones) : moves;
        return seen <= moves && stones + fewest < __builtin_popcount(cells);
    }

    int32_t number(int p, unsigned own, unsigned found, uint64_t moves, int32_t before) {
        const auto id = static_cast<int32_t>(key[p].size());
        key[p].push_back(moves);
        parent[p].push_back(before);
        child[p].resize(child[p].size() + 18, NONE);
        for (int cell = 0; cell < 9; ++cell) legal[p].push_back((cells & ~(own | found)) >> cell & 1);
        for (int cell = 0; cell < 9; ++cell) {
            const unsigned bit = 1u << cell;
            if (!(cells & ~(own | found) & bit)) continue;
            for (unsigned placed = 0; placed < 2; ++placed) {
                const unsigned stones = placed ? own | bit : own, seen = placed ? found : found | bit;
                if (!decides(p, stones, seen)) continue;
                const int32_t next = number(p, stones, seen, moves << 5 | (cell + 1) << 1 | placed, id * 9 + cell);
                child[p][id * 18 + cell * 2 + placed] = next;
            }
        }
        return id;
    }
};

struct Walk {
    const Game& game;
    const Lanes* sf[2];
    Lanes* g[2];

    // P decides; the other player's last decision was `other_last`, an index of [n, 9].
    template <bool ABRUPT, int P>
    void visit(unsigned own, unsigned other, unsigned tried, unsigned other_tried, int32_t at, int32_t other_at,
               int32_t other_last) {
        Lanes won = {};
        for (unsigned left = game.cells & ~tried; left; left &= left - 1) {
            const int cell = __builtin_ctz(left);
            const unsigned bit = 1u << cell;
            const int32_t last = at * 9 + cell;
            const int32_t* next = &game.child[P][at * 18 + cell * 2];
            if (other & bit) {
                if constexpr (ABRUPT)
                    visit<true, 1 - P>(other, own, other_tried, tried | bit, other_at, next[0], last);
                else
                    visit<false, P>(own, other, tried | bit, other_tried, next[0], other_at, other_last);
                continue;
            }
            const unsigned stones = own | bit;
            if (game.wins[P][stones]) {
                won += sf[P][last];
                g[P][last] += sf[1 - P][other_last];
            } else if ((stones | other) != game.cells) {
                visit<ABRUPT, 1 - P>(other, stones, other_tried, tried | bit, other_at, next[1], last);
            }
        }
        g[1 - P][other_last] -= won;
    }
};

// A policy of sets depends on the cells that a player tried and on its stones, not on their order. So what the other
// player may know of it is a weight for each pair of sets, and no table of sequences is needed.
struct AgainstSets {
    struct Place {
        unsigned stones, tried;
        double weight;
    };
    typedef std::vector<Place> Belief;

    bool abrupt, best;  // best: the player responds as well as it can; else by its own policy of sets
    unsigned cells;
    const uint8_t* wins[2];    // of the player and of the other one, [512]
    const double* chances[2];  // of the cells, by stones and tried cells, [512, 512, 9]
    std::vector<double> sums = std::vector<double>(512 * 512, 0.0);
    std::vector<std::array<Belief, 3>> kept = std::vector<std::array<Belief, 3>>(64);  // of each depth

    // The player decides: what the game is worth to it, times the weight of the belief.
    double decide(unsigned own, unsigned tried, const Belief& belief, int depth) {
        if (belief.empty()) return 0.0;
        auto& [taken, open, after] = kept[depth];
        const double* chance = chances[0] + (own << 9 | tried) * 9;
        double highest = -1e300, mean = 0.0;
        for (unsigned left = cells & ~tried; left; left &= left - 1) {
            const unsigned bit = left & -left, stones = own | bit;
            double value = 0.0;
            taken.clear(), open.clear();
            for (const Place& place : belief) {
                if (place.stones & bit)
                    taken.push_back(place);
                else if (wins[0][stones])
                    value += place.weight;
                else if ((stones | place.stones) != cells)
                    open.push_back(place);
            }
            if (!abrupt) value += decide(own, tried | bit, taken, depth + 1);
            if (abrupt && !taken.empty()) value += answer(own, tried | bit, taken, after, depth);
            if (!open.empty()) value += answer(stones, tried | bit, open, after, depth);
            highest = std::max(highest, value), mean += chance[__builtin_ctz(bit)] * value;
        }
        return best ? highest : mean;
    }

    // The other player decides, and then the player.
    double answer(unsigned own, unsigned tried, const Belief& belief, Belief& after, int depth) {
        double value = 0.0;
        after.clear();
        for (const Place& place : belief) value -= move(own, place, after);
        Belief merged;
        for (const Place& place : after) sums[place.stones << 9 | place.tried] += place.weight;
        for (const Place& place : after)
            if (double& weight = sums[place.stones << 9 | place.tried]; weight > 0.0) {
                merged.push_back({place.stones, place.tried, weight});
                weight = 0.0;
            }
        return value + decide(own, tried, merged, depth + 1);
    }

    // The weight with which the other player wins by its move; where the game goes on is added to `after`.
    double move(unsigned own, const Place& place, Belief& after) {
        const double* chance = chances[1] + (place.stones << 9 | place.tried) * 9;
        double won = 0.0;
        for (unsigned left = cells & ~place.tried; left; left &= left - 1) {
            const unsigned bit = left & -left, stones = place.stones | bit;
            const double weight = place.weight * chance[__builtin_ctz(bit)];
            if (own & bit) {
                const Place next{place.stones, place.tried | bit, weight};
                if (abrupt)
                    after.push_back(next);
                else
                    won += move(own, next, after);
            } else if (wins[1][stones]) {
                won += weight;
            } else if ((own | stones) != cells) {
                after.push_back({stones, place.tried | bit, weight});
            }
        }
        return won;
    }
};

}  // namespace

extern "C" {

// What a player's best response to a policy of sets returns, or the policy itself; chances [2, 512, 512, 9].
double against_sets(int abrupt, int cells, int player, int best, const uint8_t* wins, const double* chances) {
    const int other = 1 - player, each = 512 * 512 * 9;
    AgainstSets one{abrupt != 0, best != 0, static_cast<unsigned>(cells),
                    {wins + player * 512, wins + other * 512}, {chances + player * each, chances + other * each}};
    AgainstSets::Belief after, start{{0, 0, 1.0}};
    return player ? one.answer(0, 0, start, after, 0) : one.decide(0, 0, start, 0);
}

Game* make_game(int abrupt, int cells, const uint8_t* first_wins, const uint8_t* second_wins) {
    auto* game = new Game{abrupt != 0, static_cast<unsigned>(cells), {first_wins, second_wins}, {}, {}, {}, {}};
    for (int p = 0; p < 2; ++p) game->number(p, 0, 0, 0, NONE);
    return game;
}

void free_game(Game* game) { delete game; }

int64_t count_sequences(const Game* game, int player) { return static_cast<int64_t>(game->key[player].size()); }

void copy_sequences(const Game* game, int player, uint64_t* keys, uint8_t* legal) {
    std::copy(game->key[player].begin(), game->key[player].end(), keys);
    std::copy(game->legal[player].begin(), game->legal[player].end(), legal);
}

// Turn the probabilities of cells [n, 9, LANES] of both players into sf in place; write the first players' values and
// the values of both best responses to `values` [3, LANES].
void evaluate(const Game* game, double* first, double* second, double* values) {
    Lanes* sf[2] = {reinterpret_cast<Lanes*>(first), reinterpret_cast<Lanes*>(second)};
    std::vector<double> sums[2];
    Lanes* g[2];
    for (int p = 0; p < 2; ++p) {
        const auto count = static_cast<int64_t>(game->key[p].size());
        sums[p].assign(count * 9 * LANES, 0.0);
        g[p] = reinterpret_cast<Lanes*>(sums[p].data());
        for (int64_t id = 1; id < count; ++id)
            for (int cell = 0; cell < 9; ++cell) sf[p][id * 9 + cell] *= sf[p][game->parent[p][id]];
    }
    Walk walk{*game, {sf[0], sf[1]}, {g[0], g[1]}};
    if (game->abrupt)
        walk.visit<true, 0>(0, 0, 0, 0, 0, 0, 0);
    else
        walk.visit<false, 0>(0, 0, 0, 0, 0, 0, 0);
    Lanes value = {};
    for (size_t i = 0; i < game->key[0].size() * 9; ++i) value += sf[0][i] * g[0][i];
    for (int lane = 0; lane < LANES; ++lane) values[lane] = value[lane];
    for (int p = 0; p < 2; ++p)
        for (auto id = static_cast<int64_t>(game->key[p].size()) - 1; id >= 0; --id)
            for (int lane = 0; lane < LANES; ++lane) {
                double best = -1e300;
                for (int cell = 0; cell < 9; ++cell)
                    if (game->legal[p][id * 9 + cell]) best = std::max(best, double(g[p][id * 9 + cell][lane]));
                if (id)
                    g[p][game->parent[p][id]][lane] += best;
                else
                    values[(1 + p) * LANES + lane] = best;
            }
}
}
