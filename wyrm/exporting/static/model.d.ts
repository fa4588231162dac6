// The types of the model's functions. Written by wyrm.

type Bytes = ArrayBuffer | ArrayBufferView | Response | URL | string;

/** The parameters and the optimizer's state, in the model's memory. */
export interface Tensors {
/* tensors */
}

export interface Model {
/* methods */
  readonly tensors: Tensors;
  /** Tell the model that `tensors` were written to. After an error nothing can be computed until they are good. */
  ready(): void;
  /** Take over the tensors of a safetensors file. An error changes nothing. */
  read(file: ArrayBuffer | ArrayBufferView): void;
  /** The tensors as the bytes of a safetensors file, for `read`, C programs and Python. */
  write(): ArrayBuffer;
}

/** An error of a call, with its name, such as "INDEX", and its number. */
export declare class ModelError extends Error {
  readonly key: string;
  readonly code: number;
}

/** Compile and start the model; by default from the files beside this one. */
export declare function load(wasm?: Bytes, weights?: Bytes | null): Promise<Model>;

/** The columns of a safetensors file by name, as typed arrays. */
export declare function columns(file: ArrayBuffer | ArrayBufferView): Record<string, ArrayLike<number>>;
