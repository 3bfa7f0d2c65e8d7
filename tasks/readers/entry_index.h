/* Codes by an entry's bytes: an index that Python keeps as bytes, read within bounds by whoever looks an entry up. */

#ifndef CROWDBLEND_ENTRY_INDEX_H
#define CROWDBLEND_ENTRY_INDEX_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "numbers are read as little-endian; without this module the readers use numpy and pyarrow alone"
#endif

/* An index of entries: the number of slots, a power of two, the slots, and the entries' octets one after the other. */
typedef struct {
    uint64_t hash;
    uint64_t length; /* one more than that; 0 where the slot is free */
    uint64_t offset; /* among the entries' octets */
    int64_t code;
} Slot;

typedef struct {
    const uint8_t *slots;
    uint64_t mask;
    const uint8_t *octets;
    uint64_t size;
} Index;

enum { MOST_PROBES = 64 }; /* what is farther away counts as unknown, so that no choice of entries takes long */

/* Up to seven bytes as a word, different for different bytes of one length: bytes may stand in it twice. */
static inline uint64_t short_word(const uint8_t *at, uint64_t length)
{
    if (length >= 4) {
        uint32_t first, last;
        memcpy(&first, at, 4);
        memcpy(&last, at + length - 4, 4);
        return (uint64_t)last << 32 | first;
    }
    return length ? at[0] | (uint64_t)at[length / 2] << 8 | (uint64_t)at[length - 1] << 16 : 0;
}

static inline uint64_t hash_of(const uint8_t *at, uint64_t length)
{
    uint64_t hash = length + 0x9e3779b97f4a7c15u, word;
    for (;; at += 8, length -= 8) {
        if (length >= 8)
            memcpy(&word, at, 8);
        else
            word = short_word(at, length);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
        if (length <= 8)
            break;
    }
    hash *= 0xc4ceb9fe1a85ec53u; /* texts that differ in a few digits are neighbours until here */
    return hash ^ hash >> 29;
}

static inline int same_bytes(const uint8_t *one, const uint8_t *other, uint64_t length)
{
    uint64_t word, with;
    for (; length >= 8; one += 8, other += 8, length -= 8) {
        memcpy(&word, one, 8);
        memcpy(&with, other, 8);
        if (word != with)
            return 0;
    }
    return short_word(one, length) == short_word(other, length);
}

static int read_index(const Py_buffer *from, Index *index)
{
    uint64_t slots;
    const uint8_t *begin = from->buf;
    if (from->len < 8)
        return 0;
    memcpy(&slots, begin, 8);
    if (slots == 0 || slots & (slots - 1) || slots > ((uint64_t)from->len - 8) / sizeof(Slot))
        return 0;
    index->slots = begin + 8;
    index->mask = slots - 1;
    index->octets = begin + 8 + slots * sizeof(Slot);
    index->size = (uint64_t)from->len - 8 - slots * sizeof(Slot);
    return 1;
}

static int find_code(const Index *index, const uint8_t *entry, uint64_t length, int64_t *code)
{
    uint64_t hash = hash_of(entry, length);
    for (uint64_t probe = 0; probe < MOST_PROBES && probe <= index->mask; probe++) {
        Slot slot;
        memcpy(&slot, index->slots + ((hash + probe) & index->mask) * sizeof(slot), sizeof(slot));
        if (slot.length == 0)
            return 0;
        if (slot.hash == hash && slot.length == length + 1 && slot.offset <= index->size &&
            length <= index->size - slot.offset && same_bytes(index->octets + slot.offset, entry, length)) {
            *code = slot.code;
            return 1;
        }
    }
    return 0;
}

#endif
