// Blobs as the stream sends them, read from the store once for many nodes: the frame is made once and the least recently
// used ones are forgotten.

import type { Digest } from '../shared/digest.ts';
import type { VersionStore } from '../shared/version-store.ts';

/** Bytes of frames kept in memory. */
const CAPACITY = 64 * 1024 * 1024;

export class BlobFrames {
  readonly #store: Pick<VersionStore, 'readBlob'>;
  readonly #capacity: number;
  readonly #kept = new Map<Digest, Buffer>();
  readonly #reading = new Map<Digest, Promise<Buffer | null>>();
  #size = 0;

  constructor(store: Pick<VersionStore, 'readBlob'>, capacity: number = CAPACITY) {
    this.#store = store;
    this.#capacity = capacity;
  }

  /** The 32-byte digest and the stored gzip; null when the blob is gone. */
  async frame(digest: Digest, generation: number): Promise<Buffer | null> {
    const kept = this.#kept.get(digest);
    if (kept !== undefined) {
      this.#kept.delete(digest);
      this.#kept.set(digest, kept);
      return kept;
    }
    const reading = this.#reading.get(digest) ?? this.#read(digest, generation);
    this.#reading.set(digest, reading);
    return reading;
  }

  async #read(digest: Digest, generation: number): Promise<Buffer | null> {
    try {
      const stored = await this.#store.readBlob({ digest, generation });
      if (stored === null) return null;
      const frame = Buffer.concat([Buffer.from(digest, 'hex'), stored]);
      this.#keep(digest, frame);
      return frame;
    } finally {
      this.#reading.delete(digest);
    }
  }

  #keep(digest: Digest, frame: Buffer): void {
    this.#kept.set(digest, frame);
    this.#size += frame.length;
    for (const [oldest, { length }] of this.#kept) {
      if (this.#size <= this.#capacity) return;
      this.#kept.delete(oldest);
      this.#size -= length;
    }
  }
}
