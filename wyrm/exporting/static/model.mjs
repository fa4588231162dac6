// A model as WebAssembly: it trains and predicts without a server. Written by wyrm; `load` is where to begin.

const INTERFACE = /* interface */ null;

const TYPES = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, int16: Int16Array,
  int8: Int8Array, uint64: BigUint64Array, uint32: Uint32Array, uint16: Uint16Array, uint8: Uint8Array, bool: Uint8Array,
};
// The arrays of JavaScript by the types of safetensors files, which have no other ones here.
const FILE_TYPES = {
  F32: Float32Array, F64: Float64Array, I64: BigInt64Array, I32: Int32Array, I16: Int16Array, I8: Int8Array,
  U64: BigUint64Array, U32: Uint32Array, U16: Uint16Array, U8: Uint8Array, BOOL: Uint8Array,
};
const LINE = 64; // the block of memory, and each array, begins at a cache line
const PAGE = 65536;

/** An error of a call: `code` is its number, and `key` its name, such as "INDEX". */
export class ModelError extends Error {
  constructor(key, code, message) {
    super(message);
    Object.assign(this, { name: 'ModelError', key, code });
  }
}

/** An error of the table of codes, with a message that says more. */
function failure(key, message = INTERFACE.errors[key][1]) {
  return new ModelError(key, INTERFACE.errors[key][0], message);
}

/** Compile and start the model. `wasm` and `weights` are bytes, a URL, or a Response; without weights, see `read`. */
export async function load(
  wasm = new URL(INTERFACE.files.wasm, import.meta.url),
  weights = INTERFACE.files.weights && new URL(INTERFACE.files.weights, import.meta.url),
) {
  const module = await WebAssembly.compile(await bytesOf(wasm));
  const env = Object.fromEntries(WebAssembly.Module.imports(module).map(({ name }) => [name, mathFunction(name)]));
  const { exports } = await WebAssembly.instantiate(module, { env });
  if (!exports[INTERFACE.init]) {
    throw failure('STATE', `${INTERFACE.files.wasm} is of another export than this file: take both from one folder`);
  }
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
  #wasm; #block; #arguments; #top; #ready = false;

  constructor(wasm) {
    this.#wasm = wasm;
    this.#top = Number(wasm.__heap_base.value);
    this.#block = this.#take(INTERFACE.memory);
    this.#arguments = this.#top;
    this.#check(wasm[INTERFACE.init](this.#block, BigInt(INTERFACE.memory)));
    for (const each of INTERFACE.functions) this[each.method] = (...given) => this.#call(each, ...given);
  }

  /** The parameters and the optimizer's state by name, as arrays in the model's memory: writing to them sets them. */
  get tensors() {
    return Object.fromEntries(INTERFACE.tensors.map(({ name, dtype, offset, length }) => [
      name, new TYPES[dtype](this.#wasm.memory.buffer, this.#block + offset, length),
    ]));
  }

  /** Tell the model that `tensors` were written to. After an error nothing can be computed until they are good. */
  ready() {
    this.#ready = false;
    this.#check(this.#wasm[`${INTERFACE.name}_ready`](this.#block));
    this.#ready = true;
  }

  /** Take over the tensors of a safetensors file. An error changes nothing. */
  read(file) {
    const { entries, data } = safetensors(file), own = this.tensors, known = new Set(Object.keys(own));
    for (const { name, type, shape } of INTERFACE.tensors) {
      const found = entries.get(name);
      if (!found) throw failure('FILE_OTHER', `the file has no ${name}: it is of another model`);
      if (found.dtype !== type) throw failure('FILE_TYPE', `${name} is ${found.dtype} in the file, not ${type}`);
      if (`${found.shape}` !== `${shape}`) {
        throw failure('FILE_SHAPE', `${name} has the shape [${found.shape}] in the file, not [${shape}]`);
      }
    }
    const strange = [...entries.keys()].find(name => !known.has(name));
    if (strange !== undefined) throw failure('FILE_OTHER', `the file has ${strange}, which this model does not have`);
    const before = Object.entries(own).map(([name, array]) => [name, array.slice()]), ready = this.#ready;
    for (const [name, array] of Object.entries(own)) bytes(array).set(data.subarray(...entries.get(name).data_offsets));
    try {
      this.ready();
    } catch (error) {
      for (const [name, array] of before) own[name].set(array);
      if (ready) this.ready();
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
    this.#known(spec, 'input', data, spec.data);
    this.#known(spec, 'option', options, spec.options);
    const given = spec.parameters.filter(each => each.role === 'INPUT');
    const { rows, entries } = this.#sizes(spec, data);
    if (spec.splits && rows > INTERFACE.most) return this.#inParts(spec, given, data, rows);
    this.#top = this.#arguments;
    const values = [], read = [];
    for (const each of spec.parameters) {
      const elements = each.length * (each.byRows ? rows : each.role !== 'OFFSETS' && each.along ? entries[each.along] : 1);
      if (each.role === 'MEMORY') values.push(this.#block);
      else if (each.role === 'INPUT') values.push(this.#write(each, data[each.name], elements));
      else if (each.role === 'OFFSETS') values.push(this.#write(each, data[each.name], data[each.name].length));
      else if (each.role === 'ENTRIES') values.push(BigInt(entries[each.name]));
      else if (each.role === 'ROWS') values.push(BigInt(rows));
      else if (each.role === 'BATCH' && !spec.options.includes(each.name)) values.push(BigInt(rows));
      else if (each.role === 'LIST') values.push(this.#list(each, options[each.name]));
      else if (each.role === 'LISTED') values.push(BigInt(options[spec.options.find(name => `${name}s` === each.name)]?.length ?? 0));
      else if (spec.data.includes(each.name)) values.push(number(spec, each, data[each.name]));
      else if (spec.options.includes(each.name)) values.push(option(each, options[each.name], rows));
      else {
        const dtype = each.role === 'OUTPUT' ? each.dtype : each.role === 'ORDER' ? 'int64' : 'float64';
        const length = each.role === 'ORDER' ? rows : each.role === 'RESULTS' ? spec.results.length : elements;
        values.push(this.#take(Math.max(1, length) * TYPES[dtype].BYTES_PER_ELEMENT));
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

  /** Refuse what is no object, and keys that the function does not have. */
  #known({ method }, what, given, names) {
    const listed = names.join(', ') || 'none';
    if (typeof given !== 'object' || given === null) {
      throw failure('ARGUMENT', `${method} takes an object with each ${what} by its name (${listed}), not ${given}`);
    }
    const strange = Object.keys(given).find(name => !names.includes(name));
    if (strange !== undefined) throw failure('ARGUMENT', `${method} has no ${what} ${strange}; it has ${listed}`);
  }

  /** The outputs for more rows than a call takes, from calls with parts of them. */
  #inParts(spec, given, data, rows) {
    const found = {};
    for (let first = 0; first < rows; first += INTERFACE.most) {
      const part = Object.fromEntries(given.map(({ name, length, byRows }) => [
        name, byRows ? part_of(data[name], first * length, (first + INTERFACE.most) * length) : data[name],
      ]));
      for (const [name, array] of Object.entries(this.#call(spec, part))) {
        found[name] ??= new array.constructor(array.length / Math.min(rows, INTERFACE.most) * rows);
        found[name].set(array, found[name].length / rows * first);
      }
    }
    return found;
  }

  /** The numbers of rows, and of entries along each axis; an error if inputs differ in them, or have incomplete rows. */
  #sizes(spec, data) {
    const entries = {};
    let rows = null;
    for (const { name, role, length, byRows, along } of spec.parameters) {
      if (role !== 'INPUT' && role !== 'OFFSETS') continue;
      if (!Object.hasOwn(data, name)) throw failure('ARGUMENT', `${spec.method} needs the input ${name}`);
      const size = typeof data[name] === 'object' ? data[name]?.length : undefined;
      if (!Number.isSafeInteger(size) || size < 0) {
        throw failure('ARGUMENT', `${name} must be an array, or a typed array, of numbers`);
      }
      const offsets = role === 'OFFSETS', many = byRows || (along && !offsets);
      const count = !many ? null : offsets ? size - 1 : size / length;
      if (many ? !Number.isInteger(count) || count < 0 : size !== length) {
        const wanted = !many ? length : offsets ? 'one more than there are rows' : `a multiple of ${length}`;
        throw failure('ARGUMENT', `${name} has ${size} numbers, not ${wanted}`);
      }
      const [what, before] = along && !offsets ? ['entries', entries[along] ?? count] : ['rows', rows ?? count];
      if (count !== null && before !== count) {
        throw failure('ARGUMENT', `${name} has ${count} ${what}, and other inputs ${before}`);
      }
      if (what === 'entries') entries[along] = count;
      else rows = before;
    }
    return { rows: rows ?? 1, entries };
  }

  /** An array that may be left out. */
  #list(each, given) {
    if (given === undefined) return 0;
    if (typeof given !== 'object' || !Number.isSafeInteger(given?.length)) {
      throw failure('ARGUMENT', `${each.name} must be an array of whole numbers, not ${shown(given)}`);
    }
    return this.#write(each, given, given.length);
  }

  #write({ name, dtype }, array, length) {
    const place = this.#take(Math.max(1, length) * TYPES[dtype].BYTES_PER_ELEMENT);
    const own = new TYPES[dtype](this.#wasm.memory.buffer, place, length);
    const floats = own instanceof Float32Array || own instanceof Float64Array;
    const numbers = ArrayBuffer.isView(array) && !(array instanceof BigInt64Array || array instanceof BigUint64Array);
    if (array.constructor === own.constructor || (floats && numbers)) {
      own.set(array);
      return place;
    }
    for (let i = 0; i < length; i++) {
      const value = typeof array[i] === 'boolean' ? Number(array[i]) : array[i];
      if (floats ? typeof value !== 'number' : !isWhole(value)) {
        throw failure('ARGUMENT', `${name}[${i}] must be a ${floats ? '' : 'whole '}number, not ${shown(array[i])}`);
      }
      own[i] = typeof own[i] === 'bigint' ? BigInt(value) : Number(value);
      if (!floats && BigInt(own[i]) !== BigInt(value)) {
        throw failure('ARGUMENT', `${name}[${i}] must be of the type ${dtype}, and ${shown(array[i])} is beyond it`);
      }
    }
    return place;
  }

  /** Memory behind what was taken before; that of arguments is taken anew by each call. */
  #take(size) {
    const { memory } = this.#wasm, place = Math.ceil(this.#top / LINE) * LINE;
    const missing = place + size - memory.buffer.byteLength;
    if (missing > 0) {
      try {
        memory.grow(Math.ceil(missing / PAGE));
      } catch {
        throw failure('MEMORY', `the arrays of a call need ${missing} more bytes than WebAssembly can have here`);
      }
    }
    this.#top = place + size;
    return place;
  }

  #check(code) {
    if (code === 0) return;
    const key = Object.keys(INTERFACE.errors).find(each => INTERFACE.errors[each][0] === code);
    throw key ? failure(key) : new ModelError('UNKNOWN', code, `error ${code}`);
  }
}

function bytes(array) {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

function part_of(array, first, end) {
  return ArrayBuffer.isView(array) ? array.subarray(first, end) : Array.prototype.slice.call(array, first, end);
}

/** A value in messages. */
function shown(value) {
  return typeof value === 'bigint' ? `${value}n` : typeof value === 'string' ? JSON.stringify(value) : String(value);
}

/** Whether a value is a whole number that is exact. */
function isWhole(value) {
  return typeof value === 'bigint' || Number.isSafeInteger(value);
}

/** A whole number from `low` on as 64 bits. */
function whole(name, value, low) {
  if (!isWhole(value) || value < low || value >= 2n ** 63n) {
    throw failure('ARGUMENT', `${name} must be a whole number of at least ${low}, of 63 bits, not ${shown(value)}`);
  }
  return BigInt(value);
}

/** A number that a function needs, as the module takes it. */
function number({ method }, { name, role }, value) {
  if (value === undefined) throw failure('ARGUMENT', `${method} needs the number ${name}`);
  if (role === 'TOKEN') return whole(name, value, 0);
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw failure('ARGUMENT', `${name} must be a finite number, not ${shown(value)}`);
}

/** An option as the module takes it; numbers are 0 unless they are given. */
function option({ name, role }, value, rows) {
  if (role === 'BATCH') return whole(name, value ?? Math.min(Math.max(rows, 1), INTERFACE.most), 1);
  if (role === 'PART' || role === 'FACTOR') {
    if (typeof (value ?? 0) === 'number' && Number.isFinite(value ?? 0)) return value ?? 0;
    throw failure('ARGUMENT', `${name} must be a finite number, not ${shown(value)}`);
  }
  if (role !== 'FLAG') return whole(name, value ?? 0, 0);
  if (typeof (value ?? true) === 'boolean') return Number(value ?? true);
  throw failure('ARGUMENT', `${name} must be true or false, not ${shown(value)}`);
}

/** The header's entries by name, and the data, of a safetensors file whose header fits it. */
export function safetensors(file) {
  if (!(file instanceof ArrayBuffer || ArrayBuffer.isView(file))) {
    throw failure('FILE_OPEN', 'a file must be given as an ArrayBuffer or a typed array of its bytes');
  }
  const all = ArrayBuffer.isView(file) ? bytes(file) : new Uint8Array(file);
  if (all.length < 8) throw failure('FILE_SHORT');
  const size = Number(new DataView(all.buffer, all.byteOffset).getBigUint64(0, true));
  if (size > all.length - 8) throw failure('FILE_SHORT', 'the header of the file is longer than the file');
  let header;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(all.subarray(8, 8 + size)));
  } catch {
    throw failure('FILE_FORMAT');
  }
  const data = all.subarray(8 + size);
  return { entries: checkedEntries(header, data.length), data };
}

/** The entries of a header; an error unless each has its type, its shape and its bytes, one behind the other. */
function checkedEntries(header, length) {
  if (!isRecord(header)) throw failure('FILE_FORMAT');
  const { __metadata__: metadata, ...others } = header, entries = new Map(Object.entries(others));
  if (metadata !== undefined) {
    if (!isRecord(metadata) || Object.values(metadata).some(each => typeof each !== 'string')) throw failure('FILE_FORMAT');
    if (Object.hasOwn(metadata, 'wyrm') && metadata.wyrm !== INTERFACE.format) throw failure('FILE_VERSION');
  }
  for (const [name, entry] of entries) {
    if (!isRecord(entry) || Object.keys(entry).sort().join() !== 'data_offsets,dtype,shape') {
      throw failure('FILE_FORMAT', `the header of the file has no type, shape and data_offsets of ${name}`);
    }
    const { dtype, shape, data_offsets: offsets } = entry;
    if (!areSizes(shape) || !areSizes(offsets) || offsets.length !== 2) {
      throw failure('FILE_FORMAT', `the shape or the data_offsets of ${name} are no whole numbers`);
    }
    if (typeof dtype !== 'string' || !Object.hasOwn(FILE_TYPES, dtype)) {
      throw failure('FILE_TYPE', `${name} has the type ${dtype} in the file, which is not known here`);
    }
    const size = shape.reduce((product, each) => product * each, FILE_TYPES[dtype].BYTES_PER_ELEMENT);
    if (offsets[1] - offsets[0] !== size) {
      throw failure('FILE_OFFSETS', `${name} has ${offsets[1] - offsets[0]} bytes in the file, and its shape ${size}`);
    }
  }
  const places = [...entries.values()].map(each => each.data_offsets).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let end = 0;
  for (const [start, stop] of places) {
    if (start !== end) throw failure('FILE_OFFSETS');
    end = stop;
  }
  if (end !== length) throw failure('FILE_SHORT');
  return entries;
}

function isRecord(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function areSizes(values) {
  return Array.isArray(values) && values.every(each => Number.isSafeInteger(each) && each >= 0);
}

/** The columns of a safetensors file by name, as typed arrays. */
export function columns(file) {
  const { entries, data } = safetensors(file);
  return Object.fromEntries([...entries].map(([name, { dtype, data_offsets: offsets }]) => [
    name, new FILE_TYPES[dtype](data.slice(...offsets).buffer),
  ]));
}

export const description = INTERFACE;
