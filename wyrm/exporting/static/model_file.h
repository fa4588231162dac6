/* Reads and writes the tensors of the model "$name" as a safetensors file, without allocating memory.
 *
 * A file must hold exactly these tensors, with their types and shapes, one behind the other, and no NaN or infinity. Any
 * other file is refused before the block changes.
 */
#ifndef ${NAME}_FILE_H
#define ${NAME}_FILE_H

#include <stdio.h>
#include <string.h>

#include "$header"

#if ${NAME}_VERSION != UINT64_C($version)
#error "$header is of another export than this file"
#endif

enum {
$codes
};

/* Return what an error code of this file, or of the model, means. */
static inline const char *${name}_file_message(int32_t code) {
    switch (code) {
$messages
    default: return ${name}_message(code);
    }
}

/* The longest text in the header of a file: a name, a shape or metadata. */
#define ${NAME}_LONGEST 1024
/* The longest header of a file that is read. */
#define ${NAME}_LONGEST_HEADER INT64_C(100000000)

typedef struct {
    FILE *file;
    int64_t left; /* bytes of the header that were not read */
    int next;     /* the next character, or -1 at the end */
    char text[${NAME}_LONGEST];
} ${name}_reader;

static inline void ${name}_advance(${name}_reader *reader) {
    reader->next = reader->left > 0 ? fgetc(reader->file) : -1;
    reader->left--;
}

static inline void ${name}_skip_spaces(${name}_reader *reader) {
    while (reader->next == ' ' || reader->next == '\n' || reader->next == '\t' || reader->next == '\r') {
        ${name}_advance(reader);
    }
}

/* Go past a character, and return whether it was there. */
static inline int ${name}_take(${name}_reader *reader, int character) {
    ${name}_skip_spaces(reader);
    if (reader->next != character) return 0;
    ${name}_advance(reader);
    return 1;
}

/* Add a byte to the text; a text that is too long for any name becomes empty at its end. */
static inline void ${name}_put(${name}_reader *reader, size_t *length, unsigned byte) {
    if (*length < ${NAME}_LONGEST) reader->text[*length] = (char)byte;
    if (*length <= ${NAME}_LONGEST) (*length)++;
}

/* Read four hexadecimal digits; return -1 if they are not there. */
static inline int32_t ${name}_take_unit(${name}_reader *reader) {
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        const char *found = reader->next > 0 ? strchr(digits, reader->next) : NULL;
        if (!found) return -1;
        value = 16 * value + (int32_t)((found - digits) % 16);
        ${name}_advance(reader);
    }
    return value;
}

/* Read what follows a backslash in a string, and add its UTF-8 to the text; return whether it is an escape of JSON. */
static inline int ${name}_take_escape(${name}_reader *reader, size_t *length) {
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *found = reader->next > 0 ? strchr(letters, reader->next) : NULL;
    int32_t unit = 0, second;
    int more = 0;
    if (found) ${name}_put(reader, length, (unsigned char)meant[found - letters]);
    else if (reader->next != 'u') return 0;
    ${name}_advance(reader);
    if (found) return 1;
    unit = ${name}_take_unit(reader);
    if (unit <= 0 || (unit >= 0xDC00 && unit < 0xE000)) return 0; /* no text here has a zero */
    if (unit >= 0xD800 && unit < 0xDC00) { /* two units are one character */
        if (reader->next != '\\') return 0;
        ${name}_advance(reader);
        if (reader->next != 'u') return 0;
        ${name}_advance(reader);
        second = ${name}_take_unit(reader);
        if (second < 0xDC00 || second >= 0xE000) return 0;
        unit = 0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00);
    }
    if (unit >= 0x80) more = unit < 0x800 ? 1 : unit < 0x10000 ? 2 : 3;
    ${name}_put(reader, length, (unsigned)(more ? (0xFF00 >> (more + 1) & 0xFF) | unit >> 6 * more : unit));
    while (more--) ${name}_put(reader, length, (unsigned)(0x80 | (unit >> 6 * more & 0x3F)));
    return 1;
}

/* Read a string as UTF-8; return whether there is one. */
static inline int ${name}_take_text(${name}_reader *reader) {
    size_t length = 0;
    if (!${name}_take(reader, '"')) return 0;
    while (reader->next != '"') {
        int character = reader->next;
        if (character < ' ') return 0; /* a control character, or the end */
        ${name}_advance(reader);
        if (character != '\\') ${name}_put(reader, &length, (unsigned)character);
        else if (!${name}_take_escape(reader, &length)) return 0;
    }
    reader->text[length < ${NAME}_LONGEST ? length : 0] = 0;
    ${name}_advance(reader);
    return 1;
}

/* Read an array of whole numbers as its text without spaces; return whether there is one that fits. */
static inline int ${name}_take_numbers(${name}_reader *reader) {
    size_t length = 0;
    if (!${name}_take(reader, '[')) return 0;
    for (${name}_skip_spaces(reader); reader->next != ']'; ${name}_skip_spaces(reader)) {
        if ((reader->next < '0' || reader->next > '9') && reader->next != ',') return 0;
        if (length + 1 >= ${NAME}_LONGEST) return 0;
        reader->text[length++] = (char)reader->next;
        ${name}_advance(reader);
    }
    reader->text[length] = 0;
    ${name}_advance(reader);
    return 1;
}

/* Read a whole number of the text, and go past it; return -1 if there is none or it is too large. */
static inline int64_t ${name}_number(const char **text) {
    int64_t value = 0;
    if (**text < '0' || **text > '9') return -1;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        if (value > INT64_MAX / 10 - 10) return -1;
        value = 10 * value + (**text - '0');
    }
    return value;
}

/* Read metadata, and check the format that it tells. */
static inline int32_t ${name}_take_metadata(${name}_reader *reader) {
    if (!${name}_take(reader, '{')) return ${NAME}_FILE_FORMAT;
    if (${name}_take(reader, '}')) return 0;
    do {
        int is_format;
        if (!${name}_take_text(reader) || !${name}_take(reader, ':')) return ${NAME}_FILE_FORMAT;
        is_format = strcmp(reader->text, "wyrm") == 0;
        if (!${name}_take_text(reader)) return ${NAME}_FILE_FORMAT;
        if (is_format && strcmp(reader->text, "$format") != 0) return ${NAME}_FILE_VERSION;
    } while (${name}_take(reader, ','));
    return ${name}_take(reader, '}') ? 0 : ${NAME}_FILE_FORMAT;
}

/* Read what the header says of one tensor, and where its values begin behind the header. */
static inline int32_t ${name}_take_tensor(${name}_reader *reader, const ${name}_tensor *tensor, int64_t *start) {
    int found = 0;
    if (!${name}_take(reader, '{')) return ${NAME}_FILE_FORMAT;
    do {
        if (!${name}_take_text(reader) || !${name}_take(reader, ':')) return ${NAME}_FILE_FORMAT;
        if (strcmp(reader->text, "dtype") == 0) {
            if (!${name}_take_text(reader)) return ${NAME}_FILE_FORMAT;
            if (strcmp(reader->text, tensor->type) != 0) return ${NAME}_FILE_TYPE;
            found |= 1;
        } else if (strcmp(reader->text, "shape") == 0) {
            if (!${name}_take_numbers(reader)) return ${NAME}_FILE_FORMAT;
            if (strcmp(reader->text, tensor->shape) != 0) return ${NAME}_FILE_SHAPE;
            found |= 2;
        } else if (strcmp(reader->text, "data_offsets") == 0) {
            const char *text = reader->text;
            int64_t end;
            if (!${name}_take_numbers(reader)) return ${NAME}_FILE_FORMAT;
            *start = ${name}_number(&text);
            if (*text++ != ',') return ${NAME}_FILE_FORMAT;
            end = ${name}_number(&text);
            if (*text != 0 || *start < 0 || end < 0) return ${NAME}_FILE_FORMAT;
            if (end - *start != tensor->bytes) return ${NAME}_FILE_OFFSETS;
            found |= 4;
        } else {
            return ${NAME}_FILE_FORMAT;
        }
    } while (${name}_take(reader, ','));
    return ${name}_take(reader, '}') && found == 7 ? 0 : ${NAME}_FILE_FORMAT;
}

/* Read the header's JSON: where the values of each tensor begin behind it. */
static inline int32_t ${name}_take_tensors(${name}_reader *reader, int64_t *starts) {
    int count = 0;
    if (!${name}_take(reader, '{')) return ${NAME}_FILE_FORMAT;
    do {
        int32_t code;
        int at = 0;
        if (!${name}_take_text(reader) || !${name}_take(reader, ':')) return ${NAME}_FILE_FORMAT;
        if (strcmp(reader->text, "__metadata__") == 0) {
            if ((code = ${name}_take_metadata(reader))) return code;
            continue;
        }
        while (at < ${NAME}_TENSOR_COUNT && strcmp(reader->text, ${name}_tensors[at].name) != 0) at++;
        if (at == ${NAME}_TENSOR_COUNT) return ${NAME}_FILE_OTHER;
        if (starts[at] != -1) return ${NAME}_FILE_FORMAT;
        if ((code = ${name}_take_tensor(reader, &${name}_tensors[at], &starts[at]))) return code;
        count++;
    } while (${name}_take(reader, ','));
    if (!${name}_take(reader, '}')) return ${NAME}_FILE_FORMAT;
    ${name}_skip_spaces(reader);
    if (reader->next >= 0) return ${NAME}_FILE_FORMAT;
    return count == ${NAME}_TENSOR_COUNT ? 0 : ${NAME}_FILE_OTHER;
}

/* Read the header, and how long it is. */
static inline int32_t ${name}_read_header(FILE *file, int64_t *length, int64_t *starts) {
    ${name}_reader reader;
    unsigned char head[8];
    int32_t code;
    *length = 0;
    if (fread(head, 1, 8, file) != 8) return ${NAME}_FILE_SHORT;
    for (int i = 7; i >= 0; i--) {
        if (*length > ${NAME}_LONGEST_HEADER) return ${NAME}_FILE_FORMAT;
        *length = 256 * *length + head[i];
    }
    if (*length > ${NAME}_LONGEST_HEADER) return ${NAME}_FILE_FORMAT;
    for (int i = 0; i < ${NAME}_TENSOR_COUNT; i++) starts[i] = -1;
    reader.file = file;
    reader.left = *length;
    ${name}_advance(&reader);
    code = ${name}_take_tensors(&reader, starts);
    return code && feof(file) ? ${NAME}_FILE_SHORT : code;
}

/* Whether the numbers of a tensor may be set: floats are finite, and counts of a training not negative. */
static inline int ${name}_are_good(const ${name}_tensor *tensor, const unsigned char *bytes, size_t size) {
    int floats = strcmp(tensor->type, "F32") == 0, doubles = strcmp(tensor->type, "F64") == 0;
    int counts = strcmp(tensor->type, "I64") == 0 &&
        (strncmp(tensor->name, "$OPTIMIZER", strlen("$OPTIMIZER")) == 0 ||
         strncmp(tensor->name, "$PROGRAM", strlen("$PROGRAM")) == 0);
    for (size_t i = 3; floats && i < size; i += 4) {
        if ((bytes[i] & 0x7F) == 0x7F && bytes[i - 1] & 0x80) return 0;
    }
    for (size_t i = 7; (doubles || counts) && i < size; i += 8) {
        if (doubles ? (bytes[i] & 0x7F) == 0x7F && (bytes[i - 1] & 0xF0) == 0xF0 : bytes[i] & 0x80) return 0;
    }
    return 1;
}

/* Read the values of a tensor; without a place for them, check them. */
static inline int32_t ${name}_read_values(FILE *file, const ${name}_tensor *tensor, unsigned char *place) {
    unsigned char room[4096];
    for (int64_t done = 0; done < tensor->bytes;) {
        size_t size = tensor->bytes - done < (int64_t)sizeof room ? (size_t)(tensor->bytes - done) : sizeof room;
        if (fread(place ? place + done : room, 1, size, file) != size) return ${NAME}_FILE_SHORT;
        if (!place && !${name}_are_good(tensor, room, size)) return ${NAME}_TENSORS;
        done += (int64_t)size;
    }
    return 0;
}

/* Read the values behind the header in the order of the file; `block` is where they go, or NULL to check them. */
static inline int32_t ${name}_read_data(FILE *file, const int64_t *starts, unsigned char *block) {
    int64_t position = 0, total = 0;
    int32_t code;
    for (int i = 0; i < ${NAME}_TENSOR_COUNT; i++) total += ${name}_tensors[i].bytes;
    for (int i = 0; i < ${NAME}_TENSOR_COUNT; i++) {
        if (starts[i] > total - ${name}_tensors[i].bytes) return ${NAME}_FILE_OFFSETS;
    }
    while (position < total) {
        const ${name}_tensor *tensor = NULL;
        for (int i = 0; i < ${NAME}_TENSOR_COUNT && !tensor; i++) {
            if (starts[i] == position && ${name}_tensors[i].bytes) tensor = &${name}_tensors[i];
        }
        if (!tensor) return ${NAME}_FILE_OFFSETS;
        if ((code = ${name}_read_values(file, tensor, block ? block + tensor->offset : NULL))) return code;
        position += tensor->bytes;
    }
    return fgetc(file) == EOF ? 0 : ${NAME}_FILE_SHORT;
}

/* Check the whole file, and then read it again into the block. */
static inline int32_t ${name}_read(FILE *file, void *memory) {
    int64_t starts[${NAME}_TENSOR_COUNT + 1], length;
    int32_t code;
    if ((code = ${name}_read_header(file, &length, starts))) return code;
    if ((code = ${name}_read_data(file, starts, NULL))) return code;
    if (fseek(file, (long)(8 + length), SEEK_SET)) return ${NAME}_FILE_OPEN;
    if ((code = ${name}_read_data(file, starts, (unsigned char *)memory))) {
        ${name}_init(memory, ${NAME}_MEMORY_BYTES); /* the file has changed in between: no state is good */
        return code;
    }
    return ${name}_ready(memory);
}

/* Read all tensors from a file into a block that ${name}_init has prepared. */
static inline int32_t ${name}_load(void *memory, const char *path) {
    FILE *file = memory && path ? fopen(path, "rb") : NULL;
    int32_t code;
    if (!file) return ${NAME}_FILE_OPEN;
    code = ${name}_read(file, memory);
    fclose(file);
    return code;
}

static inline int32_t ${name}_write(FILE *file, const void *memory) {
    static const char *const header = $file_header;
    uint64_t length = strlen(header);
    for (int i = 0; i < 8; i++) {
        if (fputc((int)(length >> 8 * i & 255), file) == EOF) return ${NAME}_FILE_WRITE;
    }
    if (fputs(header, file) == EOF) return ${NAME}_FILE_WRITE;
    for (int i = 0; i < ${NAME}_TENSOR_COUNT; i++) {
        const ${name}_tensor *tensor = &${name}_tensors[i];
        if (fwrite((const char *)memory + tensor->offset, 1, (size_t)tensor->bytes, file) != (size_t)tensor->bytes) {
            return ${NAME}_FILE_WRITE;
        }
    }
    return 0;
}

/* Write all tensors to a file, which Python reads too.
 *
 * They are written beside it, to a file whose name has ".tmp" at its end, which replaces it once it is complete. */
static inline int32_t ${name}_save(const void *memory, const char *path) {
    char beside[FILENAME_MAX];
    FILE *file;
    int32_t code;
    if (!memory || !path || strlen(path) + sizeof ".tmp" > sizeof beside) return ${NAME}_FILE_OPEN;
    strcpy(beside, path);
    strcat(beside, ".tmp");
    file = fopen(beside, "wb");
    if (!file) return ${NAME}_FILE_OPEN;
    code = ${name}_write(file, memory);
    if (fclose(file) != 0) code = ${NAME}_FILE_WRITE;
#ifdef _WIN32
    if (!code) remove(path); /* a name that is taken cannot be given there */
#endif
    if (!code && rename(beside, path) != 0) code = ${NAME}_FILE_WRITE;
    if (code) remove(beside);
    return code;
}

#endif
