// What Headgate needs of storage, and nothing more: read, write under a condition, list, delete. Implementations:
// directory.ts (a folder), s3.ts (S3-compatible servers). All of them must pass the same contract suite.

/** An object's opaque tag: changes whenever its bytes do. */
export type Etag = string;

export interface StoredObject {
  readonly bytes: Uint8Array;
  readonly etag: Etag;
}

/** `absent`: create, never overwrite. `{etag}`: replace exactly that state. Absent condition: write whatever is there. */
export type WriteCondition = 'absent' | { readonly etag: Etag };

/** `conflict`: the condition did not hold and nothing was written. */
export type WriteResult = { readonly outcome: 'written'; readonly etag: Etag } | { readonly outcome: 'conflict' };

/**
 * Keys are relative paths with `/`, of segments of `[A-Za-z0-9._:-]`. Every method throws HeadgateError (stage `store`) when the store
 * cannot be reached or refuses; `null` means that it said the object is not there. After a write resolves, it is durable.
 */
export interface ObjectStore {
  /** The store's URL without credentials, for messages. */
  readonly url: string;
  get(key: string, signal?: AbortSignal): Promise<StoredObject | null>;
  /** The object only if its tag differs from `etag`; `unchanged` otherwise. Cheaper than get: followers poll with it. */
  getIfChanged(key: string, etag: Etag, signal?: AbortSignal): Promise<StoredObject | 'unchanged' | null>;
  put(key: string, bytes: Uint8Array, condition?: WriteCondition, signal?: AbortSignal): Promise<WriteResult>;
  /** Deleting what is absent is no error. */
  delete(key: string, signal?: AbortSignal): Promise<void>;
  /** Keys that begin with the prefix, in ascending order. */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<string>;
}
