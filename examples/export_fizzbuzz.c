/* Trains FizzBuzz where Python has stopped, without Python. The argument is a number of epochs. */
#include <stdio.h>
#include <stdlib.h>

#include "fizzbuzz_file.h"

enum { FIRST = 101, LAST = 1023, ROWS = LAST - FIRST + 1, BITS = 10, BATCH = 32, TEST = 100 };

static void check(int32_t code) {
    if (code == 0) return;
    fprintf(stderr, "%s\n", fizzbuzz_file_message(code));
    exit(1);
}

static void encode(int number, float *bits) {
    for (int i = 0; i < BITS; i++) bits[i] = number >> i & 1 ? 1.0f : -1.0f;
}

static int64_t classify(int number) {
    return (number % 3 == 0) + 2 * (number % 5 == 0);
}

int main(int count, char **arguments) {
    static float bits[ROWS * BITS], test[TEST * BITS];
    static int64_t words[ROWS], order[ROWS], answers[BATCH];
    int epochs = count > 1 ? atoi(arguments[1]) : 1, right = 0;
    double loss;
    void *memory = aligned_alloc(FIZZBUZZ_ALIGNMENT, FIZZBUZZ_MEMORY_BYTES);
    if (!memory) return 1;
    check(fizzbuzz_init(memory, FIZZBUZZ_MEMORY_BYTES));
    check(fizzbuzz_load(memory, "fizzbuzz.safetensors"));
    for (int row = 0; row < ROWS; row++) {
        encode(FIRST + row, bits + row * BITS);
        words[row] = classify(FIRST + row);
    }
    for (int epoch = 0; epoch < epochs; epoch++) {
        check(fizzbuzz_epoch(memory, bits, words, ROWS, BATCH, 1, 0, order, &loss));
        printf("%.9f\n", loss);
    }
    for (int number = 1; number <= TEST; number++) encode(number, test + (number - 1) * BITS);
    for (int first = 0; first < TEST; first += BATCH) {
        int rows = TEST - first < BATCH ? TEST - first : BATCH;
        check(fizzbuzz_predict(memory, test + first * BITS, rows, answers));
        for (int row = 0; row < rows; row++) right += answers[row] == classify(first + row + 1);
    }
    check(fizzbuzz_save(memory, "trained.safetensors"));
    printf("%d\n", right);
    free(memory);
    return 0;
}
