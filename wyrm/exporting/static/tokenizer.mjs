// The tokenizer of a model: byte-pair encoding of texts, and texts of tokens. Written by wyrm.

const UTF8 = new TextEncoder();

/** A string with a character for each byte of a text. */
const byteString = text => String.fromCharCode(...UTF8.encode(text));

/** The parts of a text that match a pattern, and those between them. */
function divided(text, pattern) {
  const found = [];
  let end = 0;
  for (const { 0: part, index } of text.matchAll(pattern)) {
    if (index > end) found.push(text.slice(end, index));
    if (part) found.push(part);
    end = index + part.length;
  }
  if (end < text.length) found.push(text.slice(end));
  return found;
}

export class Tokenizer {
  #table; #merges = new Map(); #numbers = new Map(); #splits; #added; #special; #bytes;

  /** `table` is what MODEL_tokenizer.json holds. */
  constructor(table) {
    this.#table = table;
    this.#splits = table.splits.map(each => new RegExp(each, 'gu'));
    this.#special = new Set(table.special);
    for (let i = 0; i < table.merges.length; i += 3) {
      this.#merges.set(this.#pair(table.merges[i], table.merges[i + 1]), [i, table.merges[i + 2]]);
    }
    const others = new Set([...Object.values(table.added), ...(table.fallback ? table.bytes : [])]);
    table.pieces.forEach((piece, number) => { if (!others.has(number)) this.#numbers.set(piece, number); });
    const texts = Object.keys(table.added).sort((a, b) => b.length - a.length);
    this.#added = new RegExp(`(${texts.map(each => each.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|') || '(?!)'})`, 'u');
    this.#bytes = table.pieces.map(piece => Uint8Array.from(piece, each => each.charCodeAt(0)));
  }

  /** The tokens that end a text. */
  get stop() {
    return this.#table.stop;
  }

  /** The tokens of a text; with `begins` the beginning of one, as the model was trained with it. */
  encode(text, { begins = false } = {}) {
    const found = begins ? [...this.#table.begins] : [];
    text.split(this.#added).forEach((part, place) => {
      if (place % 2) found.push(this.#table.added[part]);
      else if (part) for (const word of this.#words(part, place === 0)) found.push(...this.#encoded(word));
    });
    return found;
  }

  /** The text of tokens without special ones. */
  decode(tokens) {
    const next = this.decoder(), text = tokens.map(token => next(token)).join('') + next();
    return this.#table.prepend && text.startsWith(' ') ? text.slice(1) : text;
  }

  /** A function that takes the tokens one by one and returns the text of each: whole characters, so that some wait. */
  decoder() {
    const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
    return token => {
      if (token === undefined) return decoder.decode();
      return this.#special.has(token) ? '' : decoder.decode(this.#bytes[token], { stream: true });
    };
  }

  #pair(left, right) {
    return left * this.#table.pieces.length + right;
  }

  /** What is encoded alone. */
  #words(text, isFirst) {
    const { composed, spaces, prepend } = this.#table;
    if (composed) text = text.normalize('NFC');
    if (spaces) text = text.replaceAll('\u2581', ' ');
    const missing = !text.startsWith(' ');
    if (prepend === 'always' || (missing && (prepend === 'missing' || (prepend === 'first' && isFirst)))) text = ` ${text}`;
    return this.#splits.reduce((words, pattern) => words.flatMap(word => divided(word, pattern)), [text]);
  }

  /** The tokens of a word: neighbours are merged, those of the earliest merge first. */
  #encoded(word) {
    const whole = this.#table.whole ? this.#numbers.get(byteString(word)) : undefined;
    if (whole !== undefined) return [whole];
    const tokens = this.#symbols(word);
    for (;;) {
      let best, at;
      for (let i = 0; i + 1 < tokens.length; i++) {
        const merge = this.#merges.get(this.#pair(tokens[i], tokens[i + 1]));
        if (merge && !(best?.[0] <= merge[0])) [best, at] = [merge, i];
      }
      if (!best) return tokens;
      tokens.splice(at, 2, best[1]);
    }
  }

  /** The tokens of the bytes of a word, or of its characters, where those without a token are bytes or unknown. */
  #symbols(word) {
    const { bytes, fallback, unknown, fused } = this.#table;
    if (!fallback) return Array.from(UTF8.encode(word), byte => bytes[byte]).filter(token => token >= 0);
    const found = [];
    for (const character of word) {
      const token = this.#numbers.get(byteString(character));
      if (token !== undefined) found.push(token);
      else if (bytes.length) found.push(...Array.from(UTF8.encode(character), byte => bytes[byte]));
      else if (unknown >= 0 && !(fused && found.at(-1) === unknown)) found.push(unknown);
    }
    return found;
  }
}
