/* Delimited text: which line feeds end a record, and the codes of fields whose bytes are known.
 *
 * What is not simple is left to the caller: quotes that open within a field, doubled quotes, fields that no index
 * knows. Every offset that comes from Python is checked against its buffer before it is used. RFC 4180, and for what
 * it leaves open the states of Python's csv module (csv_quotes.py). */

#include "entry_index.h"
#include <stdlib.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---- Quotes and line feeds, 64 bytes at a time -------------------------------------------------------------- */

typedef struct {
    uint64_t quotes, separators, feeds; /* a bit for each of 64 bytes, the first in the lowest */
} Marks;

#ifdef __SSE2__
/* A bit for each of 64 bytes that is equal to `wanted`. */
static inline uint64_t equal_bits(const uint8_t *at, uint8_t wanted)
{
    const __m128i every = _mm_set1_epi8((char)wanted);
    uint64_t bits = 0;
    for (unsigned place = 0; place < 4; place++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(at + 16 * place));
        bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, every)) << 16 * place;
    }
    return bits;
}
#else
static inline uint64_t equal_bits(const uint8_t *at, uint8_t wanted)
{
    const uint64_t low = 0x7f7f7f7f7f7f7f7fu, every = 0x0101010101010101u * wanted;
    uint64_t bits = 0;
    for (unsigned place = 0; place < 8; place++) {
        uint64_t word;
        memcpy(&word, at + 8 * place, 8);
        word ^= every;
        word = ~(((word & low) + low) | word | low); /* the high bit of each byte that was equal */
        bits |= ((word >> 7) * 0x0102040810204080u >> 56) << 8 * place;
    }
    return bits;
}
#endif

static inline Marks marks_of(const uint8_t *at, uint8_t separator)
{
    return (Marks){equal_bits(at, '"'), equal_bits(at, separator), equal_bits(at, '\n')};
}

/* At each bit whether an odd number of bits is set up to it, itself included. */
static inline uint64_t odd_until(uint64_t bits)
{
    for (unsigned distance = 1; distance < 64; distance *= 2)
        bits ^= bits << distance;
    return bits;
}

typedef struct {
    int64_t *offsets;
    size_t count, room;
} Offsets;

static int add_offsets(Offsets *found, uint64_t bits, int64_t from)
{
    if (found->room - found->count < 64) {
        size_t room = 2 * found->room + 1024;
        int64_t *larger = realloc(found->offsets, room * sizeof(int64_t));
        if (larger == NULL)
            return 0;
        found->offsets = larger;
        found->room = room;
    }
    while (bits) {
        found->offsets[found->count++] = from + __builtin_ctzll(bits);
        bits &= bits - 1;
    }
    return 1;
}

typedef struct {
    int proper; /* every quote outside of quotes begins a field, or doubles the one before it */
    int merges; /* a quote, neither the first byte nor the last, stands alone behind what begins no field */
    int inside; /* whether the end lies within quotes */
} Followed;

/* As `Quotes` of csv_quotes.py does it, for a block that begins within quotes or not. */
static int follow(const Py_buffer *block, uint8_t separator, int inside, int fresh, Offsets *ends, Followed *followed)
{
    const uint8_t *at = block->buf;
    uint64_t odd = inside ? ~(uint64_t)0 : 0, before_first = 1, may_open = fresh != 0;
    uint64_t waiting = 0; /* whether the last byte of the word before is a quote that stands behind no beginning */
    *followed = (Followed){1, 0, inside};
    for (Py_ssize_t from = 0; from < block->len; from += 64) {
        Py_ssize_t left = block->len - from;
        uint8_t padded[64];
        Marks marks;
        if (left >= 64) {
            marks = marks_of(at + from, separator);
        } else {
            uint64_t within = ((uint64_t)1 << left) - 1;
            memset(padded, 0, sizeof(padded));
            memcpy(padded, at + from, (size_t)left);
            marks = marks_of(padded, separator);
            marks.quotes &= within;
            marks.separators &= within;
            marks.feeds &= within;
        }
        uint64_t begins = marks.quotes | marks.separators | marks.feeds;
        uint64_t within_quotes = odd_until(marks.quotes) ^ odd;
        if (marks.quotes & within_quotes & ~(begins << 1 | may_open))
            followed->proper = 0;
        /* A quote with another byte than a quote behind it: the block's last byte has none. */
        uint64_t last = left > 64 ? 0 : (uint64_t)1 << (left - 1);
        uint64_t alone = marks.quotes & ~(begins << 1 | before_first) & ~(marks.quotes >> 1) & ~last;
        if ((waiting && !(marks.quotes & 1)) || alone & ~((uint64_t)1 << 63))
            followed->merges = 1;
        waiting = left > 64 ? alone >> 63 : 0;
        before_first = may_open = begins >> 63;
        odd = (uint64_t)-(int64_t)(within_quotes >> 63);
        if (left <= 64)
            followed->inside = within_quotes >> (left - 1) & 1;
        if (ends != NULL && !add_offsets(ends, marks.feeds & ~within_quotes, from))
            return 0;
    }
    return 1;
}

static PyObject *follow_quotes(PyObject *self, PyObject *args)
{
    Py_buffer block;
    unsigned char separator;
    int inside, fresh, wanted, enough;
    Offsets ends = {NULL, 0, 0};
    Followed followed;
    PyObject *made = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*bppp", &block, &separator, &inside, &fresh, &wanted))
        return NULL;
    PyThreadState *others = PyEval_SaveThread();
    enough = follow(&block, separator, inside, fresh, wanted ? &ends : NULL, &followed);
    PyEval_RestoreThread(others);
    if (enough)
        made = Py_BuildValue("(NNNy#)", PyBool_FromLong(followed.proper), PyBool_FromLong(followed.merges),
                             PyBool_FromLong(followed.inside), ends.count ? (const char *)ends.offsets : "",
                             (Py_ssize_t)(ends.count * sizeof(int64_t)));
    else
        PyErr_NoMemory();
    free(ends.offsets);
    PyBuffer_Release(&block);
    return made;
}

/* ---- Fields ------------------------------------------------------------------------------------------------- */

typedef struct {
    Py_buffer known, out;
    Index index;
    long long position; /* among the fields of a record */
    int64_t code;       /* of the record at hand */
} Column;

typedef struct {
    const uint8_t *text;
    const int64_t *starts, *ends;
    int64_t records, fields;
    Column **wanted; /* for each field its column, or NULL */
    uint8_t separator;
    int quoted;
} Records;

/* Whether a record has as many fields as it should, none with more quotes than two around it, and all codes known. */
static int find_codes(const Records *records, int64_t record)
{
    const uint8_t *at = records->text + records->starts[record], *end = records->text + records->ends[record];
    for (int64_t field = 0; field < records->fields; field++) {
        const uint8_t *begin = at, *stop;
        if (records->quoted && at < end && *at == '"') {
            begin = at + 1;
            stop = memchr(begin, '"', (size_t)(end - begin));
            if (stop == NULL)
                return 0;
            at = stop + 1;
            if (at < end && *at != records->separator)
                return 0;
        } else {
            while (at < end && *at != records->separator)
                at++;
            stop = at;
        }
        Column *column = records->wanted[field];
        if (column != NULL && !find_code(&column->index, begin, (uint64_t)(stop - begin), &column->code))
            return 0;
        if (at == end)
            return field == records->fields - 1;
        at++;
    }
    return 0; /* more fields than there should be */
}

static const char *add_known(const Records *records, Column *columns, Py_ssize_t count, int64_t length, char *left)
{
    for (int64_t record = 0; record < records->records; record++) {
        int64_t start = records->starts[record], end = records->ends[record];
        if (start < 0 || end < start || end > length)
            return "a record lies outside of its block";
        left[record] = !find_codes(records, record);
        if (left[record])
            continue;
        for (Py_ssize_t place = 0; place < count; place++) {
            int64_t *sum = (int64_t *)columns[place].out.buf + record;
            *sum = (int64_t)((uint64_t)*sum + (uint64_t)columns[place].code);
        }
    }
    return NULL;
}

static PyObject *add_known_fields(PyObject *self, PyObject *args)
{
    Py_buffer text, starts, ends;
    PyObject *asked, *left = NULL;
    unsigned char separator;
    long long fields;
    int quoted;
    const char *fault = NULL;
    Py_ssize_t taken = 0, count;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*bpLO!", &text, &starts, &ends, &separator, &quoted, &fields, &PyList_Type,
                          &asked))
        return NULL;
    count = PyList_Size(asked);
    int64_t records = starts.len / 8;
    Column *columns = calloc(count ? (size_t)count : 1, sizeof(Column));
    Column **wanted = fields > 0 && fields <= INT32_MAX ? calloc((size_t)fields, sizeof(Column *)) : NULL;
    if (starts.len % 8 || ends.len != starts.len || fields <= 0 || fields > INT32_MAX)
        fault = "the arrays do not fit each other";
    else if (columns == NULL || wanted == NULL)
        PyErr_NoMemory();
    for (; fault == NULL && !PyErr_Occurred() && taken < count; taken++) {
        Column *column = &columns[taken];
        PyObject *item = PyList_GetItem(asked, taken); /* borrowed */
        if (item == NULL || !PyTuple_Check(item)) {
            fault = "a column is described by a tuple";
            break;
        }
        if (!PyArg_ParseTuple(item, "Ly*w*", &column->position, &column->known, &column->out))
            break;
        if (column->position < 0 || column->position >= fields || wanted[column->position] != NULL ||
            column->out.len != starts.len || !read_index(&column->known, &column->index)) {
            fault = "the arrays do not fit each other";
            taken++; /* its buffers are held */
            break;
        }
        wanted[column->position] = column;
    }
    if (fault == NULL && !PyErr_Occurred())
        left = PyBytes_FromStringAndSize(NULL, records);
    if (left != NULL) {
        Records all = {text.buf, starts.buf, ends.buf, records, fields, wanted, separator, quoted};
        char *flags = PyBytes_AsString(left);
        PyThreadState *others = PyEval_SaveThread();
        fault = add_known(&all, columns, count, text.len, flags);
        PyEval_RestoreThread(others);
    }
    while (taken > 0) {
        Column *column = &columns[--taken];
        PyBuffer_Release(&column->known);
        PyBuffer_Release(&column->out);
    }
    free(columns);
    free(wanted);
    PyBuffer_Release(&text);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&ends);
    if (fault != NULL)
        PyErr_SetString(PyExc_ValueError, fault);
    if (PyErr_Occurred()) {
        Py_XDECREF(left);
        return NULL;
    }
    return left;
}

static PyMethodDef methods[] = {
    {"follow_quotes", follow_quotes, METH_VARARGS, NULL},
    {"add_known_fields", add_known_fields, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "csv_decoder",
    .m_doc = "Records of delimited text.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_csv_decoder(void)
{
    return PyModuleDef_Init(&module);
}
