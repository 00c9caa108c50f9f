/* The whole step of a Llama-shaped decoder in one call: embed, layers, head, sample.
 *
 * A batch is a flat list of rows; a row is one token of one sequence at one position. Decoding
 * sequences bring one row, prefill chunks several; nothing below cares which. Work is split over
 * rows, panels or heads, never along a reduction, so the thread count does not change results.
 */
#include "attention.h"
#include "pool.h"
#include "product.h"
#include "sample.h"

typedef struct {
    const float *attention_norm, *mlp_norm;
    const bf16 *qkv, *out, *gate_up, *down;
} Layer;

typedef struct {
    int32_t layers, hidden, kv_heads, intermediate, vocab, blocks, context, max_rows, threads;
    float eps;
    const Layer *layer;
    const float *final_norm, *cosine, *sine; /* tables: [context][HEAD_DIM/2] */
    const bf16 *head;                        /* tied: also the embedding */
    bf16 *keys, *values;                     /* [layers][blocks][kv_heads][BLOCK_VALUES] */
} Model;

typedef struct {
    int32_t rows, chosen, table_width;
    const int32_t *tokens, *positions, *sequence; /* [rows] */
    const int32_t *tables;                        /* [sequences][table_width] */
    const int32_t *chosen_rows;                   /* [chosen]: rows whose logits are wanted */
    const Choice *choices;                        /* [chosen] */
    float *logits;                                /* [chosen][vocab] */
    int32_t *drawn;                               /* [chosen], or NULL: logits only */
} Batch;

typedef struct {
    float *scores, *weights;
    bf16 *softened;
    double *sums;
    Candidate *found;
} Desk; /* one thread's scratch */

typedef struct {
    Model model;
    const Batch *batch;
    Pool *pool;
    Desk *desks;
    float *x, *wide;
    bf16 *normed, *q, *mixed, *gated;
} Engine;

static void embed_row(const Model *m, int32_t token, float *x) {
    const bf16 *column = m->head + (size_t)(token / PANEL) * PANEL * m->hidden + token % PANEL * 2;
    for (int k = 0; k < m->hidden; k += 2) {
        x[k] = from_bf16(column[(size_t)k * PANEL]);
        x[k + 1] = from_bf16(column[(size_t)k * PANEL + 1]);
    }
}

static void normalise_row(const Model *m, const float *x, const float *weight, bf16 *to) {
    float sums[LANES] = {0}, sum = 0.0f;
    for (int k = 0; k < m->hidden; k += LANES)
        for (int l = 0; l < LANES; l++) sums[l] += x[k + l] * x[k + l];
    for (int l = 0; l < LANES; l++) sum += sums[l];
    float scale = 1.0f / sqrtf(sum / (float)m->hidden + m->eps);
    for (int k = 0; k < m->hidden; k++) to[k] = to_bf16(x[k] * scale * weight[k]);
}

/* Half-split rotary form: the pair of dimension i is i + HEAD_DIM/2. */
static void rotate(const float *from, const float *cosine, const float *sine, bf16 *to) {
    const int half = HEAD_DIM / 2;
    for (int i = 0; i < half; i++) {
        float a = from[i], b = from[i + half];
        to[i] = to_bf16(a * cosine[i] - b * sine[i]);
        to[i + half] = to_bf16(b * cosine[i] + a * sine[i]);
    }
}

static void write_kv(const Model *m, const Batch *b, int layer, int row, const float *k,
                     const float *v, const float *cosine, const float *sine) {
    int position = b->positions[row], slot = position % BLOCK;
    int block = b->tables[(size_t)b->sequence[row] * b->table_width + position / BLOCK];
    size_t at = ((size_t)layer * m->blocks + block) * m->kv_heads * BLOCK_VALUES;
    for (int h = 0; h < m->kv_heads; h++, at += BLOCK_VALUES) {
        bf16 turned[HEAD_DIM];
        rotate(k + h * HEAD_DIM, cosine, sine, turned);
        for (int d = 0; d < HEAD_DIM; d++) {
            m->keys[at + (d / 2 * BLOCK + slot) * 2 + d % 2] = turned[d];
            m->values[at + (slot / 2 * HEAD_DIM + d) * 2 + slot % 2] = to_bf16(v[h * HEAD_DIM + d]);
        }
    }
}

static void place_row(Engine *e, int layer, int row) {
    const Model *m = &e->model;
    int heads = m->kv_heads * GROUP;
    const float *qkv = e->wide + (size_t)row * (heads + 2 * m->kv_heads) * HEAD_DIM;
    size_t turn = (size_t)e->batch->positions[row] * (HEAD_DIM / 2);
    const float *cosine = m->cosine + turn, *sine = m->sine + turn;
    for (int h = 0; h < heads; h++)
        rotate(qkv + h * HEAD_DIM, cosine, sine, e->q + ((size_t)row * heads + h) * HEAD_DIM);
    const float *k = qkv + heads * HEAD_DIM;
    write_kv(m, e->batch, layer, row, k, k + m->kv_heads * HEAD_DIM, cosine, sine);
}

static void attend_row(Engine *e, int layer, int row, int kv_head, const Desk *desk) {
    const Model *m = &e->model;
    const Batch *b = e->batch;
    size_t first = (size_t)layer * m->blocks * m->kv_heads * BLOCK_VALUES;
    size_t at = first + (size_t)kv_head * BLOCK_VALUES;
    size_t stride = (size_t)m->kv_heads * BLOCK_VALUES;
    const int32_t *table = b->tables + (size_t)b->sequence[row] * b->table_width;
    size_t head = ((size_t)row * m->kv_heads + kv_head) * GROUP * HEAD_DIM;
    attend(e->q + head, (Paged){m->keys + at, table, stride}, (Paged){m->values + at, table, stride},
           b->positions[row] + 1, desk->scores, desk->softened, m->context + 2 * BLOCK,
           e->mixed + head);
}

static void run_layer(Engine *e, int index, int thread) {
    const Model *m = &e->model;
    const Layer *layer = &m->layer[index];
    int rows = e->batch->rows, threads = m->threads;
    int heads_wide = m->kv_heads * GROUP * HEAD_DIM;
    int qkv_wide = heads_wide + 2 * m->kv_heads * HEAD_DIM;

    for (int r = thread; r < rows; r += threads)
        normalise_row(m, e->x + (size_t)r * m->hidden, layer->attention_norm,
                      e->normed + (size_t)r * m->hidden);
    meet(e->pool);
    product(e->normed, rows, m->hidden, layer->qkv, qkv_wide, (Target){STORE, e->wide, qkv_wide},
            thread, threads);
    meet(e->pool);
    for (int r = thread; r < rows; r += threads) place_row(e, index, r);
    meet(e->pool);
    for (int i = thread; i < rows * m->kv_heads; i += threads)
        attend_row(e, index, i / m->kv_heads, i % m->kv_heads, &e->desks[thread]);
    meet(e->pool);
    product(e->mixed, rows, heads_wide, layer->out, m->hidden, (Target){ADD, e->x, m->hidden},
            thread, threads);
    meet(e->pool);
    for (int r = thread; r < rows; r += threads)
        normalise_row(m, e->x + (size_t)r * m->hidden, layer->mlp_norm,
                      e->normed + (size_t)r * m->hidden);
    meet(e->pool);
    product(e->normed, rows, m->hidden, layer->gate_up, 2 * m->intermediate,
            (Target){SILU_TIMES, e->gated, m->intermediate}, thread, threads);
    meet(e->pool);
    product(e->gated, rows, m->intermediate, layer->down, m->hidden, (Target){ADD, e->x, m->hidden},
            thread, threads);
    meet(e->pool);
}

static void run_step(void *arg, int thread) {
    Engine *e = arg;
    const Model *m = &e->model;
    const Batch *b = e->batch;
    const Desk *desk = &e->desks[thread];
    for (int r = thread; r < b->rows; r += m->threads)
        embed_row(m, b->tokens[r], e->x + (size_t)r * m->hidden);
    meet(e->pool);
    for (int layer = 0; layer < m->layers; layer++) run_layer(e, layer, thread);
    for (int i = thread; i < b->chosen; i += m->threads)
        normalise_row(m, e->x + (size_t)b->chosen_rows[i] * m->hidden, m->final_norm,
                      e->normed + (size_t)i * m->hidden);
    meet(e->pool);
    product(e->normed, b->chosen, m->hidden, m->head, m->vocab, (Target){STORE, b->logits, m->vocab},
            thread, m->threads);
    if (!b->drawn) return;
    meet(e->pool);
    for (int i = thread; i < b->chosen; i += m->threads)
        b->drawn[i] = sample(b->logits + (size_t)i * m->vocab, m->vocab, b->choices[i],
                             desk->weights, desk->sums, desk->found);
}

const char *trimtab_numeric_class(void) { return NUMERIC_CLASS; }

void trimtab_pack(const bf16 *from, int32_t n, int32_t k, bf16 *to) { pack(from, n, k, to); }

/* fp32 to[rows][n] = a[rows][k] x packed weights: the product alone, for tests and benchmarks. */
void trimtab_product(const bf16 *a, int32_t rows, int32_t k, const bf16 *weights, int32_t n,
                     float *to) {
    product(a, rows, k, weights, n, (Target){STORE, to, n}, 0, 1);
}

/* The uniform of (seed, position), for tests. */
double trimtab_uniform(uint64_t seed, int64_t position) { return uniform(seed, position); }

static void *scratch(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 64, bytes + 64)) abort();
    memset(memory, 0, bytes);
    return memory;
}

void *trimtab_open(const Model *model) {
    Engine *e = scratch(sizeof *e);
    const Model *m = &e->model;
    e->model = *model;
    size_t rows = (size_t)m->max_rows, heads = (size_t)m->kv_heads * GROUP * HEAD_DIM;
    size_t width = (size_t)(m->context + 2 * BLOCK) * GROUP;
    e->x = scratch(rows * m->hidden * sizeof(float));
    e->wide = scratch(rows * (heads + 2 * m->kv_heads * HEAD_DIM) * sizeof(float));
    e->normed = scratch(rows * m->hidden * sizeof(bf16));
    e->q = scratch(rows * heads * sizeof(bf16));
    e->mixed = scratch(rows * heads * sizeof(bf16));
    e->gated = scratch(rows * m->intermediate * sizeof(bf16));
    e->desks = scratch((size_t)m->threads * sizeof(Desk));
    for (int t = 0; t < m->threads; t++)
        e->desks[t] = (Desk){scratch(width * sizeof(float)), scratch(m->vocab * sizeof(float)),
                             scratch(width * sizeof(bf16)),
                             scratch((size_t)m->vocab / CHUNK * sizeof(double)),
                             scratch(m->vocab * sizeof(Candidate))};
    e->pool = open_pool(m->threads);
    return e;
}

void trimtab_step(void *engine, const Batch *batch) {
    Engine *e = engine;
    e->batch = batch;
    run_together(e->pool, run_step, e);
}

void trimtab_close(void *engine) {
    Engine *e = engine;
    for (int t = 0; t < e->model.threads; t++) {
        Desk *d = &e->desks[t];
        free(d->scores), free(d->weights), free(d->softened), free(d->sums), free(d->found);
    }
    close_pool(e->pool);
    free(e->x), free(e->wide), free(e->normed), free(e->q), free(e->mixed), free(e->gated);
    free(e->desks), free(e);
}
