/* Parquet pages at chosen positions: page headers, RLE/bit-packed indices, plain values, each read within bounds;
 * and whether a footer is one that pyarrow survives.
 *
 * The bytes come from files that others wrote. Every offset and length is checked against the buffer that it
 * points into before it is used, and whatever this file does not know is refused with ValueError, so that the
 * caller can leave the column to pyarrow. Format: Apache Parquet, "Encodings" and "parquet.thrift"; Thrift's
 * compact protocol. */

#include "entry_index.h"
#include <stddef.h>
#include <stdlib.h>

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Span;

/* ---- Thrift's compact protocol ------------------------------------------------------------------------ */

static int read_varint(Span *in, uint64_t *value)
{
    uint64_t found = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (in->at >= in->end)
            return 0;
        uint8_t octet = *in->at++;
        found |= (uint64_t)(octet & 0x7f) << shift;
        if (!(octet & 0x80)) {
            *value = found;
            return 1;
        }
    }
    return 0;
}

static int read_int(Span *in, int64_t *value)
{
    uint64_t raw;
    if (!read_varint(in, &raw))
        return 0;
    *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return 1;
}

static int skip_octets(Span *in, uint64_t count)
{
    if (count > (uint64_t)(in->end - in->at))
        return 0;
    in->at += count;
    return 1;
}

enum { STOP = 0, YES = 1, NO = 2, BYTE = 3, I16 = 4, I32 = 5, I64 = 6, DOUBLE = 7, BINARY = 8, LIST = 9, SET = 10,
       STRUCT = 12 };

static int read_field(Span *in, int64_t *id, int *type)
{
    if (in->at >= in->end)
        return 0;
    uint8_t head = *in->at++;
    *type = head & 0x0f;
    if (*type == STOP)
        return head == 0;
    if (head >> 4)
        *id += head >> 4;
    else if (!read_int(in, id))
        return 0;
    return *id >= 0 && *id <= INT16_MAX;
}

static int skip_value(Span *in, int type, int depth)
{
    uint64_t count;
    int64_t ignored = 0;
    int inner;
    if (depth > 8)
        return 0;
    switch (type) {
    case YES:
    case NO:
        return 1;
    case BYTE:
        return skip_octets(in, 1);
    case I16:
    case I32:
    case I64:
        return read_varint(in, &count);
    case DOUBLE:
        return skip_octets(in, 8);
    case BINARY:
        return read_varint(in, &count) && skip_octets(in, count);
    case STRUCT:
        for (;;) {
            if (!read_field(in, &ignored, &inner))
                return 0;
            if (inner == STOP)
                return 1;
            if (!skip_value(in, inner, depth + 1))
                return 0;
        }
    default: /* lists, sets and maps have no place in a page header */
        return 0;
    }
}

/* ---- Page headers ------------------------------------------------------------------------------------- */

enum { V1 = 0, DICTIONARY = 2, V2 = 3 };
enum { PLAIN = 0, PLAIN_DICTIONARY = 2, INDEXED = 8 }; /* encodings; of a dictionary page, the first two mean PLAIN */

typedef struct {
    int64_t kind, raw_size, packed_size, values, encoding, levels, repetition, definition_octets, repetition_octets,
        nulls, packed;
} Header;

/* The numbered 32-bit fields of a page header's inner struct; Booleans are written as 0 or 1. */
static int read_inner(Span *in, int64_t *const *places, int count)
{
    int64_t id = 0, value;
    int type;
    for (;;) {
        if (!read_field(in, &id, &type))
            return 0;
        if (type == STOP)
            return 1;
        int64_t *place = id >= 1 && id <= count ? places[id - 1] : NULL;
        if (place == NULL) {
            if (!skip_value(in, type, 0))
                return 0;
        } else if (type == YES || type == NO) {
            *place = type == YES;
        } else if (type == I32) {
            if (!read_int(in, &value))
                return 0;
            *place = value;
        } else {
            return 0;
        }
    }
}

static int read_header(Span *in, Header *header)
{
    int64_t id = 0;
    int type, inner = -1;
    *header = (Header){-1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 1};
    int64_t *const first[] = {&header->values, &header->encoding, &header->levels, &header->repetition};
    int64_t *const dictionary[] = {&header->values, &header->encoding};
    int64_t *const second[] = {&header->values, &header->nulls, NULL, &header->encoding, &header->definition_octets,
                               &header->repetition_octets, &header->packed};
    for (;;) {
        if (!read_field(in, &id, &type))
            return 0;
        if (type == STOP)
            break;
        if (id == 1 && type == I32) {
            if (!read_int(in, &header->kind))
                return 0;
        } else if (id == 2 && type == I32) {
            if (!read_int(in, &header->raw_size))
                return 0;
        } else if (id == 3 && type == I32) {
            if (!read_int(in, &header->packed_size))
                return 0;
        } else if (id == 5 && type == STRUCT && inner < 0) {
            inner = V1;
            if (!read_inner(in, first, 4))
                return 0;
        } else if (id == 7 && type == STRUCT && inner < 0) {
            inner = DICTIONARY;
            if (!read_inner(in, dictionary, 2))
                return 0;
        } else if (id == 8 && type == STRUCT && inner < 0) {
            inner = V2;
            if (!read_inner(in, second, 7))
                return 0;
        } else if (!skip_value(in, type, 0)) {
            return 0;
        }
    }
    const int64_t limit = INT32_MAX;
    const int64_t checked[] = {header->raw_size, header->packed_size, header->values, header->encoding,
                               header->definition_octets, header->repetition_octets, header->nulls};
    for (size_t place = 0; place < sizeof(checked) / sizeof(checked[0]); place++)
        if (checked[place] < 0 || checked[place] > limit)
            return 0;
    return inner == header->kind;
}

/* Whether some bytes are one zstd frame and nothing else, which says how long it is when unpacked (RFC 8878, sections
 * 3.1.1 and 3.1.1.2). Frames that stand in a row are then unpacked together as they are one by one. */
static int frame_agrees(Span in, uint64_t raw)
{
    static const unsigned dictionary_octets[] = {0, 1, 2, 4};
    if (in.end - in.at < 6 || memcmp(in.at, "\x28\xb5\x2f\xfd", 4) != 0)
        return 0;
    unsigned flags = in.at[4], single = flags >> 5 & 1, size_code = flags >> 6;
    unsigned size_octets = size_code ? 1u << size_code : single;
    uint64_t said = 0;
    if (size_octets == 0 || !skip_octets(&in, 5 + !single + dictionary_octets[flags & 3]) ||
        in.end - in.at < (ptrdiff_t)size_octets)
        return 0;
    memcpy(&said, in.at, size_octets);
    in.at += size_octets;
    if (said + (size_octets == 2 ? 256 : 0) != raw)
        return 0;
    for (unsigned last = 0; !last;) {
        if (in.end - in.at < 3)
            return 0;
        uint32_t head = in.at[0] | (uint32_t)in.at[1] << 8 | (uint32_t)in.at[2] << 16;
        unsigned type = head >> 1 & 3;
        last = head & 1;
        in.at += 3;
        if (type == 3 || !skip_octets(&in, type == 1 ? 1 : head >> 3)) /* an octet that repeats, or so many octets */
            return 0;
    }
    return skip_octets(&in, flags & 4 ? 4 : 0) && in.at == in.end; /* a checksum */
}

/* Whether a compressed page says itself how long it is when unpacked, and says the same as its header; the
 * codecs check that against what they produce, and an output buffer is then never left partly unwritten. */
static int size_agrees(int codec, const uint8_t *page, int64_t packed, uint64_t raw)
{
    Span in = {page, page + packed};
    uint64_t said = 0;
    if (codec == 0)
        return (uint64_t)packed == raw;
    if (codec == 1) /* snappy: a varint */
        return read_varint(&in, &said) && said == raw;
    if (codec == 2) { /* gzip: the last four octets of its one member */
        uint32_t tail;
        if (packed < 18 || page[0] != 0x1f || page[1] != 0x8b)
            return 0;
        memcpy(&tail, page + packed - 4, 4);
        return tail == raw;
    }
    if (codec == 6)
        return frame_agrees(in, raw);
    return 0;
}

/* The first place from `place` on whose position is not below `limit`. */
static int64_t first_from(const int64_t *positions, int64_t place, int64_t total, int64_t limit)
{
    while (place < total) {
        int64_t middle = place + (total - place) / 2;
        if (positions[middle] < limit)
            place = middle + 1;
        else
            total = middle;
    }
    return place;
}

static PyObject *page_headers(PyObject *self, PyObject *args)
{
    Py_buffer chunk, positions;
    long long records;
    int codec;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*Liy*", &chunk, &records, &codec, &positions))
        return NULL;
    PyObject *pages = PyList_New(0);
    Span in = {chunk.buf, (const uint8_t *)chunk.buf + chunk.len};
    const uint8_t *origin = chunk.buf;
    int64_t seen = 0, chosen = 0, total = positions.len / 8;
    int sound = pages != NULL && positions.len % 8 == 0, begun = 0;
    while (sound && seen < records) {
        Header header;
        if (!read_header(&in, &header) || header.packed_size > in.end - in.at) {
            sound = 0;
            break;
        }
        if (header.kind == DICTIONARY ? begun || (header.encoding != PLAIN && header.encoding != PLAIN_DICTIONARY)
                                      : !begun || (header.encoding != PLAIN_DICTIONARY && header.encoding != INDEXED)) {
            sound = 0;
            break;
        }
        begun = 1;
        int64_t levels = 0;
        if (header.kind == V2) {
            levels = header.definition_octets + header.repetition_octets;
            if (header.repetition_octets || levels > header.packed_size || levels > header.raw_size)
                sound = 0;
        } else if (header.kind == V1 && header.levels != 3) {
            sound = 0; /* levels in the old bit-packed encoding */
        }
        int unpacked = codec == 0 || (header.kind == V2 && !header.packed);
        if (sound && (header.kind != V2 || header.packed_size > levels || header.raw_size > levels))
            sound = size_agrees(unpacked ? 0 : codec, in.at + levels, header.packed_size - levels,
                                (uint64_t)(header.raw_size - levels));
        int64_t first = chosen, start = seen;
        if (sound && header.kind != DICTIONARY) {
            seen += header.values;
            sound = seen <= records;
            chosen = first_from(positions.buf, chosen, total, seen);
        }
        if (sound && (header.kind == DICTIONARY || first < chosen)) {
            PyObject *page = Py_BuildValue("(iLLLLLiLLL)", header.kind == V2, (long long)(in.at - origin),
                                           (long long)header.packed_size, (long long)header.raw_size,
                                           (long long)header.values, (long long)levels, unpacked, (long long)first,
                                           (long long)chosen, (long long)start);
            sound = page != NULL && PyList_Append(pages, page) == 0;
            Py_XDECREF(page);
        }
        in.at += header.packed_size;
    }
    PyBuffer_Release(&chunk);
    PyBuffer_Release(&positions);
    if (sound)
        return pages;
    Py_XDECREF(pages);
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "these are not page headers that this reader knows");
    return NULL;
}

/* ---- RLE and bit-packed numbers ----------------------------------------------------------------------- */

static inline uint64_t unpack(const uint8_t *packed, int64_t octets, unsigned width, int64_t place)
{
    uint64_t word = 0;
    int64_t bit = place * (int64_t)width, octet = bit >> 3;
    if (octets - octet >= 8)
        memcpy(&word, packed + octet, 8);
    else
        memcpy(&word, packed + octet, (size_t)(octets - octet));
    return word >> (bit & 7) & (((uint64_t)1 << width) - 1);
}

typedef struct {
    int packed;          /* whether the run is bit-packed */
    uint64_t count;      /* numbers in the run */
    uint64_t value;      /* the number that repeats */
    const uint8_t *data; /* the packed numbers */
    int64_t octets;      /* their bytes */
} Run;

static int next_run(Span *in, unsigned width, Run *run)
{
    uint64_t head;
    if (!read_varint(in, &head) || head >> 32 || head < 2)
        return 0;
    run->packed = head & 1;
    if (run->packed) {
        uint64_t octets = (head >> 1) * width; /* below 2**37 */
        if (octets > (uint64_t)(in->end - in->at))
            return 0;
        run->count = (head >> 1) * 8;
        run->data = in->at;
        run->octets = (int64_t)octets;
        in->at += octets;
        return 1;
    }
    unsigned octets = (width + 7) / 8;
    if ((ptrdiff_t)octets > in->end - in->at)
        return 0;
    run->count = head >> 1;
    run->value = 0;
    memcpy(&run->value, in->at, octets);
    in->at += octets;
    return run->value >> width == 0;
}

/* Which value of the page each chosen record has: `ranks` gets its place among the values that are not null, -1
 * for a null. Returns the number of values, or -1 if the levels are not sound; `*dense` is set, and `ranks` left,
 * where no record is null. */
static int64_t rank(Span in, int64_t records, const int64_t *positions, int64_t chosen, int64_t origin, int64_t *ranks,
                    int *dense)
{
    int64_t start = 0, present = 0, place = 0;
    Run run;
    *dense = 0;
    while (start < records) {
        if (!next_run(&in, 1, &run))
            return -1;
        int64_t left = records - start;
        int64_t count = run.count < (uint64_t)left ? (int64_t)run.count : left;
        if (!run.packed) {
            if (start == 0 && count == records && run.value == 1) {
                *dense = 1;
                return records;
            }
            for (; place < chosen && positions[place] - origin < start + count; place++)
                ranks[place] = run.value ? present + (positions[place] - origin - start) : -1;
            present += run.value ? count : 0;
        } else {
            for (int64_t item = 0; item < count; item++) {
                int64_t level = (int64_t)(run.data[item >> 3] >> (item & 7) & 1);
                if (place < chosen && positions[place] - origin == start + item)
                    ranks[place++] = level ? present : -1;
                present += level;
            }
        }
        start += count;
    }
    return place == chosen ? present : -1;
}

/* ---- What a page's chosen records are ------------------------------------------------------------------ */

typedef struct {
    Py_buffer octets, table, out;
    long long first, last, origin, records, levels;
    int optional;
    const int64_t *chosen; /* places of the chosen records' values, or -1 */
    int together;          /* whether they are values in a row */
    int64_t origin_of_chosen, count, values;
    int64_t *ranks;
    Span body;
} Page;

/* Whether each position lies above the one before, without a branch in the loop. */
static int ascending(const int64_t *positions, int64_t total)
{
    int sound = 1;
    for (int64_t place = 1; place < total; place++)
        sound &= positions[place - 1] < positions[place];
    return sound;
}

/* Find the values of records positions[first:last] of a page that begins with record `origin`; levels is the
 * number of bytes that hold them, or -1 where the page begins with that number. All positions ascend. */
static const char *locate(Page *page, const int64_t *positions, int64_t total)
{
    int64_t dense = 1;
    page->body.at = page->octets.buf;
    page->body.end = page->body.at + page->octets.len;
    if (page->first < 0 || page->last < page->first || page->last > total || page->records < 0)
        return "the positions do not lie in the page";
    page->count = page->last - page->first;
    page->chosen = positions + page->first;
    page->origin_of_chosen = page->origin;
    page->values = page->records;
    if (page->count && (page->chosen[0] < page->origin || page->chosen[page->count - 1] - page->origin >= page->records))
        return "the positions do not lie in the page";
    page->together = page->count > 0 && page->chosen[page->count - 1] - page->chosen[0] == page->count - 1;
    if (!page->optional)
        return page->levels > 0 ? "a required column has no levels" : NULL;
    if (page->levels < 0) {
        uint32_t said;
        if (page->octets.len < 4)
            return "the levels are cut off";
        memcpy(&said, page->body.at, 4);
        page->body.at += 4;
        page->levels = said;
    }
    if (page->levels > page->body.end - page->body.at)
        return "the levels are cut off";
    Span levels = {page->body.at, page->body.at + page->levels};
    page->body.at = levels.end;
    page->ranks = malloc(page->count ? (size_t)page->count * 8 : 8);
    if (page->ranks == NULL)
        return "there is no memory";
    int all = 0;
    page->values = rank(levels, page->records, page->chosen, page->count, page->origin, page->ranks, &all);
    dense = all;
    if (page->values < 0)
        return "the levels are not sound";
    if (!dense) {
        page->chosen = page->ranks;
        page->origin_of_chosen = 0;
        page->together = 0;
    }
    return NULL;
}

/* Add to `out` the codes of values in a row of a packed run, from its value number `first` on. Eight of up to 8 bits lie
 * in one word, which is read where it lies in the run. Returns whether all are in the dictionary. */
static int add_row(const Run *run, unsigned width, int64_t first, int64_t count, const int64_t *table, uint64_t entries,
                   int64_t *out)
{
    const uint64_t mask = ((uint64_t)1 << width) - 1;
    const int64_t last = first + count;
    while (first < last) {
        int64_t octet = (first >> 3) * (int64_t)width;
        if (width > 8 || first & 7 || last - first < 8 || run->octets - octet < 8) {
            uint64_t index = unpack(run->data, run->octets, width, first++);
            if (index >= entries)
                return 0;
            *out++ += table[index];
            continue;
        }
        uint64_t word;
        memcpy(&word, run->data + octet, 8);
        for (const int64_t *stop = out + 8; out < stop; word >>= width) {
            uint64_t index = word & mask;
            if (index >= entries)
                return 0;
            *out++ += table[index];
        }
        first += 8;
    }
    return 1;
}

static const char *add_indexed(Page *page)
{
    const int64_t *table = page->table.buf;
    int64_t entries = page->table.len / 8 - 1, *out = (int64_t *)page->out.buf + page->first;
    const int64_t *chosen = page->chosen, origin = page->origin_of_chosen, count = page->count;
    int64_t start = 0, place = 0, null_code = table[entries];
    Span in = page->body;
    Run run;
    if (page->values == 0) {
        for (; place < count; place++)
            out[place] += null_code;
        return NULL;
    }
    if (in.at >= in.end)
        return "the indices are cut off";
    unsigned width = *in.at++;
    if (width > 32)
        return "the indices are too wide";
    while (start < page->values) {
        if (!next_run(&in, width, &run))
            return "the indices are not sound";
        int64_t left = page->values - start;
        int64_t count_of_run = run.count < (uint64_t)left ? (int64_t)run.count : left;
        int64_t stop = start + count_of_run;
        if (page->together && run.packed) {
            int64_t first = chosen[0] - origin + place;
            int64_t wanted = (stop < first + count - place ? stop : first + count - place) - first;
            if (wanted > 0) {
                if (!add_row(&run, width, first - start, wanted, table, (uint64_t)entries, out + place))
                    return "an index lies beyond the dictionary";
                place += wanted;
            }
        } else if (!run.packed) {
            if (run.value >= (uint64_t)entries)
                return "an index lies beyond the dictionary";
            int64_t code = table[run.value];
            for (; place < count && chosen[place] - origin < stop; place++)
                out[place] += chosen[place] < 0 ? null_code : code;
        } else {
            for (; place < count && chosen[place] - origin < stop; place++) {
                if (chosen[place] < 0) {
                    out[place] += null_code;
                    continue;
                }
                uint64_t index = unpack(run.data, run.octets, width, chosen[place] - origin - start);
                if (index >= (uint64_t)entries)
                    return "an index lies beyond the dictionary";
                out[place] += table[index];
            }
        }
        start = stop;
    }
    for (; place < count; place++) {
        if (chosen[place] >= 0)
            return "the indices are cut off";
        out[place] += null_code;
    }
    return NULL;
}

static const char *add_page(Page *page, const Py_buffer *positions)
{
    const char *fault;
    if (page->table.len < 8 || page->table.len % 8 || positions->len % 8 || page->out.len != positions->len)
        return "the arrays do not fit each other";
    fault = locate(page, positions->buf, positions->len / 8);
    if (fault == NULL)
        fault = add_indexed(page);
    free(page->ranks);
    return fault;
}

/* One call for many pages: letting other threads in, and coming back, costs as much as decoding a small page. */
static PyObject *add_codes(PyObject *self, PyObject *args)
{
    Py_buffer positions;
    PyObject *asked;
    const char *fault = NULL;
    Py_ssize_t count, taken = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!y*", &PyList_Type, &asked, &positions))
        return NULL;
    count = PyList_Size(asked);
    Page *pages = calloc(count ? (size_t)count : 1, sizeof(Page));
    for (; pages != NULL && taken < count; taken++) {
        Page *page = &pages[taken];
        PyObject *item = PyList_GetItem(asked, taken); /* borrowed */
        if (item == NULL || !PyTuple_Check(item)) {
            fault = "a page is described by a tuple";
            break;
        }
        if (!PyArg_ParseTuple(item, "y*LLLLLpy*w*", &page->octets, &page->first, &page->last, &page->origin,
                              &page->records, &page->levels, &page->optional, &page->table, &page->out))
            break;
    }
    if (pages == NULL) {
        PyErr_NoMemory();
    } else if (taken == count) {
        PyThreadState *others = PyEval_SaveThread();
        /* Once for all pages: their ends alone tell then whether positions lie in a page. */
        if (!ascending(positions.buf, positions.len / 8))
            fault = "the positions do not ascend";
        for (Py_ssize_t place = 0; fault == NULL && place < count; place++)
            fault = add_page(&pages[place], &positions);
        PyEval_RestoreThread(others);
    }
    while (taken > 0) {
        Page *page = &pages[--taken];
        PyBuffer_Release(&page->octets);
        PyBuffer_Release(&page->table);
        PyBuffer_Release(&page->out);
    }
    free(pages);
    PyBuffer_Release(&positions);
    if (fault != NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, fault);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* ---- Plain values -------------------------------------------------------------------------------------- */

static PyObject *plain_texts(PyObject *self, PyObject *args)
{
    Py_buffer page;
    long long count;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*L", &page, &count))
        return NULL;
    PyObject *offsets = NULL, *octets = NULL, *made = NULL;
    if (count < 0 || count > page.len / 4) {
        PyErr_SetString(PyExc_ValueError, "the texts are cut off");
        goto done;
    }
    offsets = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count + 1) * 8);
    octets = PyBytes_FromStringAndSize(NULL, page.len - (Py_ssize_t)count * 4);
    if (offsets == NULL || octets == NULL)
        goto done;
    char *offset = PyBytes_AsString(offsets), *target = PyBytes_AsString(octets);
    const uint8_t *at = page.buf, *end = at + page.len;
    int64_t written = 0;
    memcpy(offset, &written, 8);
    for (long long place = 0; place < count; place++) {
        uint32_t length;
        if (end - at < 4)
            goto cut;
        memcpy(&length, at, 4);
        at += 4;
        /* what is left in `octets` is never less than what is left in the page, less a length for each text to come */
        if ((int64_t)length > end - at || written + (int64_t)length > page.len - count * 4)
            goto cut;
        memcpy(target + written, at, length);
        at += length;
        written += length;
        memcpy(offset + (place + 1) * 8, &written, 8);
    }
    if (at != end)
        goto cut;
    made = Py_BuildValue("(OO)", offsets, octets);
    goto done;
cut:
    PyErr_SetString(PyExc_ValueError, "the texts are cut off, or followed by something else");
done:
    Py_XDECREF(offsets);
    Py_XDECREF(octets);
    PyBuffer_Release(&page);
    return made;
}

/* ---- Dictionary entries that are known ------------------------------------------------------------------ */

static PyObject *entry_index(PyObject *self, PyObject *args)
{
    PyObject *known, *entry, *of_entry, *made = NULL;
    Py_ssize_t place = 0;
    uint64_t slots = 1, size = 0, end = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "O!", &PyDict_Type, &known))
        return NULL;
    while (slots < 2 * (uint64_t)PyDict_Size(known) + 1)
        slots *= 2;
    while (PyDict_Next(known, &place, &entry, &of_entry)) {
        Py_ssize_t length = PyBytes_Size(entry);
        if (length < 0)
            return NULL;
        size += (uint64_t)length;
    }
    made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(8 + slots * sizeof(Slot) + size));
    if (made == NULL)
        return NULL;
    char *begin = PyBytes_AsString(made), *table = begin + 8, *octets = table + slots * sizeof(Slot);
    memset(begin, 0, 8 + slots * sizeof(Slot));
    memcpy(begin, &slots, 8);
    place = 0;
    while (PyDict_Next(known, &place, &entry, &of_entry)) {
        uint64_t length = (uint64_t)PyBytes_Size(entry), at;
        int64_t code = PyLong_AsLongLong(of_entry);
        memcpy(octets + end, PyBytes_AsString(entry), length);
        Slot slot = {hash_of((const uint8_t *)octets + end, length), length + 1, end, code}, other;
        for (at = slot.hash & (slots - 1);; at = (at + 1) & (slots - 1)) { /* fewer than half of them are taken */
            memcpy(&other, table + at * sizeof(Slot), sizeof(Slot));
            if (other.length == 0)
                break;
        }
        memcpy(table + at * sizeof(Slot), &slot, sizeof(Slot));
        end += length;
    }
    if (PyErr_Occurred()) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}

/* The codes of a dictionary page's entries, by an index of those that are known; then that of null. None where an
 * entry is unknown, or the page is not sound. `width` is that of an entry, 0 for texts. */
static PyObject *known_codes(PyObject *self, PyObject *args)
{
    Py_buffer page, known;
    long long count, width, null_code;
    PyObject *made = NULL;
    Index index;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*LLy*L", &page, &count, &width, &known, &null_code))
        return NULL;
    const uint8_t *at = page.buf, *end = at + page.len;
    long long place = 0;
    int64_t code = null_code;
    if (count < 0 || width < 0 || width > 8 || count > page.len / (width ? width : 4) || !read_index(&known, &index))
        goto done;
    made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count + 1) * 8);
    if (made == NULL)
        goto done;
    char *codes = PyBytes_AsString(made);
    memcpy(codes + count * 8, &code, 8);
    for (; place < count; place++) {
        uint32_t length = (uint32_t)width;
        if (width == 0) {
            if (end - at < 4)
                break;
            memcpy(&length, at, 4);
            at += 4;
        }
        if ((int64_t)length > end - at || !find_code(&index, at, length, &code))
            break;
        memcpy(codes + place * 8, &code, 8);
        at += length;
    }
done:
    PyBuffer_Release(&page);
    PyBuffer_Release(&known);
    if (made != NULL && place == count && at == end)
        return made;
    Py_XDECREF(made);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* ---- Footers ------------------------------------------------------------------------------------------- */

enum { MAP = 11, DEEPEST = 24, BYTE_ARRAY = 6, LAST_TYPE = 7, LAST_CODEC = 7 };

typedef struct {
    int64_t definition, repetition; /* deepest levels */
    int64_t physical;               /* type */
} Leaf;

typedef struct {
    Leaf *leaves;
    int64_t count, room;
} Leaves;

static int read_list(Span *in, int *type, uint64_t *count)
{
    if (in->at >= in->end)
        return 0;
    uint8_t head = *in->at++;
    *type = head & 0x0f;
    *count = head >> 4;
    if (*count == 15 && !read_varint(in, count))
        return 0;
    return *count <= (uint64_t)(in->end - in->at); /* no element is shorter than a byte */
}

/* Like skip_value, with the containers that a footer may have. */
static int skip_anything(Span *in, int type, int depth)
{
    uint64_t count;
    int64_t id = 0;
    int inner;
    if (depth > DEEPEST)
        return 0;
    if (type == STRUCT) {
        for (;;) {
            if (!read_field(in, &id, &inner))
                return 0;
            if (inner == STOP)
                return 1;
            if (!skip_anything(in, inner, depth + 1))
                return 0;
        }
    }
    if (type == LIST || type == SET) {
        if (!read_list(in, &inner, &count))
            return 0;
        for (; count; count--)
            if (inner == YES || inner == NO ? !skip_octets(in, 1) : !skip_anything(in, inner, depth + 1))
                return 0;
        return 1;
    }
    return type != MAP && skip_value(in, type, depth);
}

typedef int (*ReadStruct)(Span *in, void *about);

static int read_structs(Span *in, ReadStruct read, void *about)
{
    uint64_t count;
    int type;
    if (!read_list(in, &type, &count) || (count && type != STRUCT))
        return 0;
    for (; count; count--)
        if (!read(in, about))
            return 0;
    return 1;
}

typedef struct {
    Leaves *leaves;
    struct {
        int64_t children;
        Leaf levels;
    } open[DEEPEST]; /* groups whose children are still to come */
    int depth;
    int begun;
} Schema;

static int read_element(Span *in, void *about)
{
    Schema *schema = about;
    int64_t id = 0, physical = -1, repetition = 0, children = 0;
    int type;
    for (;;) {
        if (!read_field(in, &id, &type))
            return 0;
        if (type == STOP)
            break;
        int64_t *place = id == 1 ? &physical : id == 3 ? &repetition : id == 5 ? &children : NULL;
        if (place != NULL && type == I32 ? !read_int(in, place) : !skip_anything(in, type, 0))
            return 0;
    }
    if (children < 0 || repetition < 0 || repetition > 2 || (schema->begun && schema->depth == 0))
        return 0;
    Leaf levels = {0, 0, physical};
    if (schema->begun) {
        levels = schema->open[schema->depth - 1].levels;
        levels.physical = physical;
        levels.definition += repetition > 0;
        levels.repetition += repetition == 2;
        schema->open[schema->depth - 1].children--;
    }
    if (children || !schema->begun) {
        if (schema->depth == DEEPEST)
            return 0;
        schema->open[schema->depth].children = children;
        schema->open[schema->depth++].levels = levels;
    } else {
        Leaves *leaves = schema->leaves;
        if (leaves->count == leaves->room) {
            Leaf *more = realloc(leaves->leaves, (size_t)(2 * leaves->room + 16) * sizeof(Leaf));
            if (more == NULL)
                return 0;
            leaves->leaves = more;
            leaves->room = 2 * leaves->room + 16;
        }
        leaves->leaves[leaves->count++] = levels;
    }
    schema->begun = 1;
    while (schema->depth && schema->open[schema->depth - 1].children == 0)
        schema->depth--;
    return 1;
}

static int read_schema(Span *in, Leaves *leaves)
{
    Schema schema = {.leaves = leaves};
    leaves->count = 0;
    return read_structs(in, read_element, &schema) && schema.begun && schema.depth == 0;
}

/* Field 16 of a column's metadata: a histogram has an entry for each level, or none at all. */
static int read_sizes(Span *in, Leaf leaf, int64_t *octets)
{
    int64_t id = 0;
    uint64_t count;
    int type, inner;
    for (;;) {
        if (!read_field(in, &id, &type))
            return 0;
        if (type == STOP)
            return 1;
        if ((id == 2 || id == 3) && type == LIST) {
            Span list = *in;
            int64_t deepest = id == 2 ? leaf.repetition : leaf.definition;
            if (!read_list(&list, &inner, &count) || (count && count != (uint64_t)deepest + 1))
                return 0;
        } else if (id == 1) {
            *octets = 1;
        }
        if (!skip_anything(in, type, 0))
            return 0;
    }
}

static int read_column(Span *in, Leaf leaf)
{
    int64_t id = 0, physical = -1, codec = -1, octets = 0;
    int type;
    for (;;) {
        if (!read_field(in, &id, &type))
            return 0;
        if (type == STOP)
            return physical >= 0 && physical <= LAST_TYPE && physical == leaf.physical && codec >= 0 &&
                   codec <= LAST_CODEC && (!octets || physical == BYTE_ARRAY);
        if ((id == 1 || id == 4) && type == I32) {
            if (!read_int(in, id == 1 ? &physical : &codec))
                return 0;
        } else if (id == 16 && type == STRUCT) {
            if (!read_sizes(in, leaf, &octets))
                return 0;
        } else if (!skip_anything(in, type, 0)) {
            return 0;
        }
    }
}

typedef struct {
    const Leaves *leaves;
    int64_t column;
} Columns;

static int read_part(Span *in, void *about)
{
    Columns *columns = about;
    int64_t id = 0;
    int type, found = 0;
    if (columns->column == columns->leaves->count)
        return 0;
    for (;;) {
        if (!read_field(in, &id, &type))
            return 0;
        if (type == STOP)
            break;
        if (id == 3 && type == STRUCT) {
            found = 1;
            if (!read_column(in, columns->leaves->leaves[columns->column]))
                return 0;
        } else if (id == 8 || id == 9) { /* encrypted */
            return 0;
        } else if (!skip_anything(in, type, 0)) {
            return 0;
        }
    }
    columns->column++;
    return found;
}

static int read_row_group(Span *in, void *about)
{
    Columns columns = {about, 0};
    int64_t id = 0;
    int type;
    for (;;) {
        if (!read_field(in, &id, &type))
            return 0;
        if (type == STOP)
            return columns.column == columns.leaves->count;
        if (id == 1 && type == LIST) {
            columns.column = 0;
            if (!read_structs(in, read_part, &columns))
                return 0;
        } else if (!skip_anything(in, type, 0)) {
            return 0;
        }
    }
}

/* Whether pyarrow can look at every column of a footer: some of what it finds there it only throws, past Python. */
static PyObject *sound_footer(PyObject *self, PyObject *args)
{
    Py_buffer footer;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*", &footer))
        return NULL;
    Span in = {footer.buf, (const uint8_t *)footer.buf + footer.len};
    Leaves leaves = {NULL, 0, 0};
    int64_t id = 0;
    int type, schema = 0, sound;
    for (;;) {
        sound = read_field(&in, &id, &type);
        if (!sound || type == STOP)
            break;
        if (id == 2 && type == LIST)
            sound = !schema && (schema = read_schema(&in, &leaves));
        else if (id == 4 && type == LIST)
            sound = schema && read_structs(&in, read_row_group, &leaves);
        else
            sound = id != 8 && skip_anything(&in, type, 0); /* 8: encrypted */
        if (!sound)
            break;
    }
    free(leaves.leaves);
    PyBuffer_Release(&footer);
    return PyBool_FromLong(sound && schema);
}

static PyMethodDef methods[] = {
    {"page_headers", page_headers, METH_VARARGS, NULL},
    {"add_codes", add_codes, METH_VARARGS, NULL},
    {"plain_texts", plain_texts, METH_VARARGS, NULL},
    {"entry_index", entry_index, METH_VARARGS, NULL},
    {"known_codes", known_codes, METH_VARARGS, NULL},
    {"sound_footer", sound_footer, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "page_decoder",
    .m_doc = "Parquet pages at chosen positions.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_page_decoder(void)
{
    return PyModuleDef_Init(&module);
}
