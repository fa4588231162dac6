/* Reads and writes the tensors of the model "$name" as a safetensors file, without allocating memory.
 *
 * A file must hold exactly these tensors, with their types and shapes. A file that is truncated, of another model or of
 * another format is refused before the block changes.
 */
#ifndef ${NAME}_FILE_H
#define ${NAME}_FILE_H

#include <stdio.h>
#include <string.h>

#include "$header"

enum {
    ${NAME}_FILE_OPEN = 10,
    ${NAME}_FILE_FORMAT = 11,
    ${NAME}_FILE_OTHER = 12,
    ${NAME}_FILE_SHORT = 13,
    ${NAME}_FILE_WRITE = 14
};

/* Return what an error code of this file, or of the model, means. */
static inline const char *${name}_file_message(int32_t code) {
    switch (code) {
    case ${NAME}_FILE_OPEN: return "the file cannot be opened";
    case ${NAME}_FILE_FORMAT: return "the file is no safetensors file of this format";
    case ${NAME}_FILE_OTHER: return "the file has the tensors of another model";
    case ${NAME}_FILE_SHORT: return "the file is truncated, or longer than its tensors";
    case ${NAME}_FILE_WRITE: return "the file cannot be written";
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

/* Read a string, with its escapes as they are; return whether there is one that fits. */
static inline int ${name}_take_text(${name}_reader *reader) {
    size_t length = 0;
    if (!${name}_take(reader, '"')) return 0;
    while (reader->next != '"') {
        int escaped = reader->next == '\\';
        for (int i = 0; i <= escaped; i++) {
            if (reader->next < 0 || length + 1 >= ${NAME}_LONGEST) return 0;
            reader->text[length++] = (char)reader->next;
            ${name}_advance(reader);
        }
    }
    reader->text[length] = 0;
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
        if (is_format && strcmp(reader->text, "$format") != 0) return ${NAME}_FILE_FORMAT;
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
            if (strcmp(reader->text, tensor->type) != 0) return ${NAME}_FILE_OTHER;
            found |= 1;
        } else if (strcmp(reader->text, "shape") == 0) {
            if (!${name}_take_numbers(reader)) return ${NAME}_FILE_FORMAT;
            if (strcmp(reader->text, tensor->shape) != 0) return ${NAME}_FILE_OTHER;
            found |= 2;
        } else if (strcmp(reader->text, "data_offsets") == 0) {
            const char *text = reader->text;
            int64_t end;
            if (!${name}_take_numbers(reader)) return ${NAME}_FILE_FORMAT;
            *start = ${name}_number(&text);
            if (*text++ != ',') return ${NAME}_FILE_FORMAT;
            end = ${name}_number(&text);
            if (*text != 0 || *start < 0 || end < *start) return ${NAME}_FILE_FORMAT;
            if (end - *start != tensor->bytes) return ${NAME}_FILE_OTHER;
            found |= 4;
        } else {
            return ${NAME}_FILE_FORMAT;
        }
    } while (${name}_take(reader, ','));
    return ${name}_take(reader, '}') && found == 7 ? 0 : ${NAME}_FILE_FORMAT;
}

/* Read the header: where the values of each tensor begin in the file. */
static inline int32_t ${name}_read_header(FILE *file, int64_t size, int64_t *starts) {
    ${name}_reader reader;
    unsigned char head[8];
    int64_t length = 0, total = 0;
    int count = 0;
    if (size < 8 || fread(head, 1, 8, file) != 8) return ${NAME}_FILE_SHORT;
    for (int i = 7; i >= 0; i--) {
        if (length > ${NAME}_LONGEST_HEADER) return ${NAME}_FILE_FORMAT;
        length = 256 * length + head[i];
    }
    if (length > ${NAME}_LONGEST_HEADER) return ${NAME}_FILE_FORMAT;
    if (length > size - 8) return ${NAME}_FILE_SHORT;
    for (int i = 0; i < ${NAME}_TENSORS; i++) starts[i] = -1;
    reader.file = file;
    reader.left = length;
    ${name}_advance(&reader);
    if (!${name}_take(&reader, '{')) return ${NAME}_FILE_FORMAT;
    do {
        int32_t code;
        int at = 0;
        if (!${name}_take_text(&reader) || !${name}_take(&reader, ':')) return ${NAME}_FILE_FORMAT;
        if (strcmp(reader.text, "__metadata__") == 0) {
            if ((code = ${name}_take_metadata(&reader))) return code;
            continue;
        }
        while (at < ${NAME}_TENSORS && strcmp(reader.text, ${name}_tensors[at].name) != 0) at++;
        if (at == ${NAME}_TENSORS) return ${NAME}_FILE_OTHER;
        if (starts[at] != -1) return ${NAME}_FILE_FORMAT;
        if ((code = ${name}_take_tensor(&reader, &${name}_tensors[at], &starts[at]))) return code;
        total += ${name}_tensors[at].bytes;
        count++;
    } while (${name}_take(&reader, ','));
    if (!${name}_take(&reader, '}')) return ${NAME}_FILE_FORMAT;
    if (count != ${NAME}_TENSORS) return ${NAME}_FILE_OTHER;
    if (size != 8 + length + total) return ${NAME}_FILE_SHORT;
    for (int i = 0; i < ${NAME}_TENSORS; i++) {
        if (starts[i] > total - ${name}_tensors[i].bytes) return ${NAME}_FILE_FORMAT;
        starts[i] += 8 + length;
    }
    return 0;
}

static inline int32_t ${name}_read(FILE *file, void *memory) {
    int64_t starts[${NAME}_TENSORS + 1], size;
    int32_t code;
    if (fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET)) return ${NAME}_FILE_SHORT;
    if ((code = ${name}_read_header(file, size, starts))) return code;
    for (int i = 0; i < ${NAME}_TENSORS; i++) {
        const ${name}_tensor *tensor = &${name}_tensors[i];
        if (fseek(file, (long)starts[i], SEEK_SET)) return ${NAME}_FILE_SHORT;
        if (fread((char *)memory + tensor->offset, 1, (size_t)tensor->bytes, file) != (size_t)tensor->bytes) {
            return ${NAME}_FILE_SHORT;
        }
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
    for (int i = 0; i < ${NAME}_TENSORS; i++) {
        const ${name}_tensor *tensor = &${name}_tensors[i];
        if (fwrite((const char *)memory + tensor->offset, 1, (size_t)tensor->bytes, file) != (size_t)tensor->bytes) {
            return ${NAME}_FILE_WRITE;
        }
    }
    return 0;
}

/* Write all tensors to a file, which Python reads too. A file that cannot be completed is removed. */
static inline int32_t ${name}_save(const void *memory, const char *path) {
    FILE *file;
    int32_t code;
    if (!memory || !path) return ${NAME}_FILE_OPEN;
    file = fopen(path, "wb");
    if (!file) return ${NAME}_FILE_OPEN;
    code = ${name}_write(file, memory);
    if (fclose(file) != 0) code = ${NAME}_FILE_WRITE;
    if (code) remove(path);
    return code;
}

#endif
