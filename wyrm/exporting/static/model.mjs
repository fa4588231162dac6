// A model as WebAssembly: it trains and predicts without a server. Written by wyrm; `load` is where to begin.

const INTERFACE = /* interface */ null;

const TYPES = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, int16: Int16Array,
  int8: Int8Array, uint64: BigUint64Array, uint32: Uint32Array, uint16: Uint16Array, uint8: Uint8Array, bool: Uint8Array,
};
const WHOLE_64 = new Set(['int64', 'uint64']);
// What is passed as a number, and not as an array.
const NUMBERS = new Set(['NUMBER', 'TOKEN', 'COUNT', 'SEED']);
const LINE = 64; // the block of memory, and each array, begins at a cache line
const PAGE = 65536;

/** An error of a call: `code` is its number, and `key` its name, such as "INDEX". */
export class ModelError extends Error {
  constructor(key, code, message) {
    super(message);
    Object.assign(this, { name: 'ModelError', key, code });
  }
}

/** Compile and start the model. `wasm` and `weights` are bytes, a URL, or a Response; without weights, see `read`. */
export async function load(
  wasm = new URL(INTERFACE.files.wasm, import.meta.url),
  weights = INTERFACE.files.weights && new URL(INTERFACE.files.weights, import.meta.url),
) {
  const module = await WebAssembly.compile(await bytesOf(wasm));
  const env = Object.fromEntries(WebAssembly.Module.imports(module).map(({ name }) => [name, mathFunction(name)]));
  const { exports } = await WebAssembly.instantiate(module, { env });
  const model = new Model(exports);
  if (weights) model.read(await bytesOf(weights));
  return model;
}

/** The bytes behind a URL or a path, of a Response, or bytes themselves. */
async function bytesOf(source) {
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return source;
  if (typeof Response !== 'undefined' && source instanceof Response) return source.arrayBuffer();
  const url = source instanceof URL ? source : new URL(source, import.meta.url);
  if (url.protocol === 'file:' && typeof process !== 'undefined') {
    const { readFile } = await import('node:fs/promises');
    return readFile(url);
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} cannot be read: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

/** The functions of the C library that `Math` does not have. */
const MORE = {
  fmod: (x, y) => x % y,

  /** The series of positive terms, Abramowitz and Stegun 7.1.6. */
  erf(x) {
    if (!(Math.abs(x) < 6)) return Number.isNaN(x) ? NaN : Math.sign(x);
    let term = x, sum = x;
    for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
      term *= 2 * x * x / (2 * n + 1);
      sum += term;
    }
    return 2 / Math.sqrt(Math.PI) * Math.exp(-x * x) * sum;
  },

  /** Lanczos' approximation with g = 7. */
  tgamma(x) {
    if (x < 0.5) return Math.PI / (Math.sin(Math.PI * x) * MORE.tgamma(1 - x));
    const [sum, t] = lanczos(x);
    return Math.sqrt(2 * Math.PI) * t ** ((x - 0.5) / 2) * Math.exp(-t) * t ** ((x - 0.5) / 2) * sum;
  },

  lgamma(x) {
    if (x < 0.5) return Math.log(Math.PI / Math.abs(Math.sin(Math.PI * x))) - MORE.lgamma(1 - x);
    const [sum, t] = lanczos(x);
    return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
  },
};

function lanczos(x) {
  const weights = [
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
  ];
  return [weights.reduce((sum, weight, i) => sum + weight / (x + i), 0.99999999999980993), x + 6.5];
}

/** A function of the C library; names that end with f compute in single precision. */
export function mathFunction(name) {
  const own = MORE[name] ?? Math[name];
  if (own) return own;
  const double = name.endsWith('f') && (MORE[name.slice(0, -1)] ?? Math[name.slice(0, -1)]);
  if (double) return (...values) => Math.fround(double(...values));
  throw new Error(`the model needs the function ${name}, which JavaScript does not have`);
}

/** A model with its memory. Each exported function is a method; it takes arrays by the names of inputs. */
class Model {
  #wasm; #top; #places = new Map(); #block;

  constructor(wasm) {
    this.#wasm = wasm;
    this.#top = Number(wasm.__heap_base.value);
    this.#block = this.#take(INTERFACE.memory);
    this.#check(wasm[`${INTERFACE.name}_init`](this.#block, BigInt(INTERFACE.memory)));
    for (const each of INTERFACE.functions) this[each.method] = (...given) => this.#call(each, ...given);
  }

  /** The parameters and the optimizer's state by name, as arrays in the model's memory: writing to them sets them. */
  get tensors() {
    return Object.fromEntries(INTERFACE.tensors.map(({ name, dtype, offset, length }) => [
      name, new TYPES[dtype](this.#wasm.memory.buffer, this.#block + offset, length),
    ]));
  }

  /** Tell the model that `tensors` were written to, if they were not read from a file. */
  ready() {
    this.#check(this.#wasm[`${INTERFACE.name}_ready`](this.#block));
  }

  /** Take over the tensors of a safetensors file. An error changes nothing. */
  read(file) {
    const { entries, data } = safetensors(file);
    for (const { name, type, shape, length, dtype } of INTERFACE.tensors) {
      const found = entries[name];
      if (!found) throw new ModelError('FILE', -1, `the file has no ${name}: it is of another model`);
      if (found.dtype !== type || `${found.shape}` !== `${shape}`) {
        throw new ModelError('FILE', -1, `${name} is ${found.dtype} [${found.shape}] in the file, not ${type} [${shape}]`);
      }
      const [start, stop] = found.data_offsets;
      if (stop - start !== length * TYPES[dtype].BYTES_PER_ELEMENT || stop > data.length) {
        throw new ModelError('FILE', -1, `the file is damaged: ${name} is not where its header says`);
      }
    }
    const own = this.tensors;
    const before = Object.fromEntries(Object.entries(own).map(([name, array]) => [name, array.slice()]));
    for (const { name } of INTERFACE.tensors) {
      bytes(own[name]).set(data.subarray(...entries[name].data_offsets));
    }
    try {
      this.ready();
    } catch (error) {
      for (const [name, array] of Object.entries(before)) own[name].set(array);
      throw error;
    }
  }

  /** The tensors as the bytes of a safetensors file, for `read`, C programs and Python. */
  write() {
    const head = new TextEncoder().encode(INTERFACE.fileHeader);
    const arrays = Object.values(this.tensors).map(bytes);
    const found = new Uint8Array(8 + head.length + arrays.reduce((sum, each) => sum + each.length, 0));
    new DataView(found.buffer).setBigUint64(0, BigInt(head.length), true);
    found.set(head, 8);
    let place = 8 + head.length;
    for (const each of arrays) {
      found.set(each, place);
      place += each.length;
    }
    return found.buffer;
  }

  #call(spec, data = {}, options = {}) {
    const given = spec.parameters.filter(each => each.role === 'INPUT');
    const known = spec.parameters.filter(each => each.role === 'INPUT' || NUMBERS.has(each.role)).map(each => each.name);
    const strange = Object.keys(data).find(name => !known.includes(name));
    if (strange) throw new ModelError('ARGUMENT', 4, `${spec.method} has no input ${strange}; it takes ${known.join(', ')}`);
    const rows = this.#rows(spec, given, data);
    if (spec.splits && rows > INTERFACE.most) return this.#inParts(spec, given, data, rows);
    const batch = Number(options.batch ?? Math.min(rows, INTERFACE.most));
    const values = [], read = [];
    for (const each of spec.parameters) {
      const elements = each.length * (each.byRows ? rows : 1);
      if (each.role === 'MEMORY') values.push(this.#block);
      else if (each.role === 'INPUT') values.push(this.#write(each, data[each.name], elements));
      else if (each.role === 'ROWS') values.push(BigInt(rows));
      else if (each.role === 'BATCH') values.push(BigInt(spec.parameters.some(p => p.role === 'ROWS') ? batch : rows));
      else if (each.role === 'FLAG') values.push(Number(options[each.name] ?? true));
      else if (NUMBERS.has(each.role)) values.push(this.#number(spec, each, options[each.name] ?? data[each.name]));
      else {
        const dtype = each.role === 'OUTPUT' ? each.dtype : each.role === 'ORDER' ? 'int64' : 'float64';
        const length = each.role === 'ORDER' ? rows : each.role === 'RESULTS' ? spec.results.length : elements;
        values.push(this.#place(each.name, Math.max(1, length) * TYPES[dtype].BYTES_PER_ELEMENT));
        read.push({ ...each, dtype, length, place: values.at(-1) });
      }
    }
    this.#check(this.#wasm[spec.name](...values));
    const found = {};
    for (const { name, role, dtype, length, place, scalar } of read) {
      const array = new TYPES[dtype](this.#wasm.memory.buffer, place, length).slice();
      if (role === 'OUTPUT') found[name] = scalar ? Number(array[0]) : array;
      if (role === 'RESULTS') spec.results.forEach((result, position) => { found[result] = array[position]; });
    }
    return found;
  }

  /** A number as the module takes it; seeds and counts are 0 unless they are given. */
  #number(spec, { name, role }, value) {
    if (value === undefined && (role === 'NUMBER' || role === 'TOKEN')) {
      throw new ModelError('ARGUMENT', 4, `${spec.method} needs the number ${name}`);
    }
    return role === 'NUMBER' ? Number(value) : BigInt(value ?? 0);
  }

  /** The outputs for more rows than a call takes, from calls with parts of them. */
  #inParts(spec, given, data, rows) {
    const found = {};
    for (let first = 0; first < rows; first += INTERFACE.most) {
      const part = Object.fromEntries(given.map(({ name, length, byRows }) => [
        name, byRows ? data[name].slice(first * length, (first + INTERFACE.most) * length) : data[name],
      ]));
      for (const [name, array] of Object.entries(this.#call(spec, part))) {
        found[name] ??= new array.constructor(array.length / Math.min(rows, INTERFACE.most) * rows);
        found[name].set(array, found[name].length / rows * first);
      }
    }
    return found;
  }

  /** The number of rows of the data; an error if inputs differ in it, or have incomplete rows. */
  #rows(spec, given, data) {
    let rows = null;
    for (const { name, length, byRows } of given) {
      const size = data[name]?.length;
      if (size === undefined) throw new ModelError('ARGUMENT', 4, `${spec.method} needs the input ${name}`);
      const count = byRows ? size / length : null;
      if (byRows ? !Number.isInteger(count) : size !== length) {
        throw new ModelError('ARGUMENT', 4, `${name} has ${size} numbers, not ${byRows ? 'a multiple of ' : ''}${length}`);
      }
      if (byRows && rows !== null && rows !== count) {
        throw new ModelError('ARGUMENT', 4, `${name} has ${count} rows, and other inputs ${rows}`);
      }
      rows = count ?? rows;
    }
    return rows ?? 1;
  }

  #write({ name, dtype }, array, length) {
    const place = this.#place(name, Math.max(1, length) * TYPES[dtype].BYTES_PER_ELEMENT);
    const own = new TYPES[dtype](this.#wasm.memory.buffer, place, length);
    if (WHOLE_64.has(dtype) && !(array instanceof BigInt64Array || array instanceof BigUint64Array)) {
      for (let i = 0; i < length; i++) own[i] = BigInt(array[i]);
    } else {
      own.set(array);
    }
    return place;
  }

  /** Memory for an argument, kept for later calls. */
  #place(name, size) {
    const kept = this.#places.get(name);
    if (kept && kept.size >= size) return kept.place;
    const place = this.#take(size);
    this.#places.set(name, { place, size });
    return place;
  }

  #take(size) {
    const { memory } = this.#wasm, place = Math.ceil(this.#top / LINE) * LINE;
    this.#top = place + size;
    const missing = this.#top - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / PAGE));
    return place;
  }

  #check(code) {
    if (code === 0) return;
    const [key, [, message]] = Object.entries(INTERFACE.errors).find(([, [own]]) => own === code) ?? ['UNKNOWN', [code, `error ${code}`]];
    throw new ModelError(key, code, message);
  }
}

function bytes(array) {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** The header and the data of a safetensors file. */
export function safetensors(file) {
  const whole = ArrayBuffer.isView(file) ? bytes(file) : new Uint8Array(file);
  const damaged = what => new ModelError('FILE', -1, `this is no safetensors file: ${what}`);
  if (whole.length < 8) throw damaged('it ends early');
  const size = Number(new DataView(whole.buffer, whole.byteOffset).getBigUint64(0, true));
  if (size > whole.length - 8) throw damaged('its header is longer than the file');
  let entries;
  try {
    entries = JSON.parse(new TextDecoder().decode(whole.subarray(8, 8 + size)));
  } catch {
    throw damaged('its header cannot be read');
  }
  return { entries, data: whole.subarray(8 + size) };
}

/** The columns of a safetensors file by name, as typed arrays. */
export function columns(file) {
  const { entries, data } = safetensors(file);
  const names = { F32: 'float32', F64: 'float64', I64: 'int64', I32: 'int32', U8: 'uint8', BOOL: 'bool' };
  const found = {};
  for (const [name, { dtype, data_offsets }] of Object.entries(entries)) {
    if (name !== '__metadata__') found[name] = new TYPES[names[dtype]](data.slice(...data_offsets).buffer);
  }
  return found;
}

export const description = INTERFACE;
