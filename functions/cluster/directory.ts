// A cluster that is a folder of manifests, one manifest, or standard input.

import { readFile } from 'node:fs/promises';
import { addAbortSignal, type Readable } from 'node:stream';
import { type Digest, digestOf } from '../../shared/digest.ts';
import { HeadgateError } from '../../shared/error.ts';
import { clusterState } from './cluster-state.ts';
import { listManifestFiles, unreadable } from './manifest-files.ts';
import { readManifests } from './manifests.ts';
import type { ClusterSource } from './objects.ts';
import type { Projection } from './project.ts';

export { type DirectoryWatch, watchDirectory } from './watch-directory.ts';

/** Bytes: the largest manifest that is read. A string in V8 holds twice as much at most. */
const LARGEST = 256 * 1024 * 1024;

/**
 * The cluster in the manifests at a path; `-`: on standard input, which is read once. A file whose content has not changed
 * since the last reading is not parsed again.
 * @param others files and folders that hold no manifests though they may lie in the folder
 */
export function directoryCluster(path: string, stdin: Readable = process.stdin, others: readonly string[] = []): ClusterSource {
  return path === '-' ? standardInput(stdin) : folder(path, others);
}

function folder(path: string, others: readonly string[]): ClusterSource {
  let known = new Map<string, Parsed>();
  return {
    async read(signal) {
      const parsed = new Map<string, Parsed>();
      for (const file of listManifestFiles(path, others).files) {
        signal?.throwIfAborted();
        if (file.size > LARGEST) throw badManifest(file.path, `larger than ${LARGEST} bytes; split it`);
        const text = textOf(await bytesOf(file.path, signal), file.path);
        parsed.set(file.path, parse(text, file.path, known.get(file.path)));
      }
      known = parsed;
      return clusterState([...parsed.values()].flatMap((file) => file.projections));
    },
  };
}

function standardInput(stdin: Readable): ClusterSource {
  let text: Promise<string> | undefined;
  return {
    async read(signal) {
      text ??= textOfStream(signal === undefined ? stdin : addAbortSignal(signal, stdin));
      if ((await text).trim() === '') throw emptyInput();
      return clusterState(readManifests(await text, 'stdin'));
    },
  };
}

/** Nothing at all is what a failed command leaves in a pipe: never the wish for a cluster without objects. */
function emptyInput(): HeadgateError {
  return new HeadgateError(
    'empty-input',
    'read-cluster',
    'standard input is empty: did the command before the pipe fail? A cluster without objects is `{apiVersion: v1, kind: List, items: []}`',
  );
}

interface Parsed {
  readonly digest: Digest;
  readonly projections: readonly Projection[];
}

function parse(text: string, file: string, known: Parsed | undefined): Parsed {
  const digest = digestOf(text);
  return known?.digest === digest ? known : { digest, projections: readManifests(text, file) };
}

async function bytesOf(file: string, signal: AbortSignal | undefined): Promise<Uint8Array> {
  try {
    return await readFile(file, { signal });
  } catch (cause) {
    signal?.throwIfAborted();
    throw unreadable(file, cause);
  }
}

async function textOfStream(stdin: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of stdin) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > LARGEST) throw badManifest('stdin', `larger than ${LARGEST} bytes; use a folder of files`);
    chunks.push(bytes);
  }
  return textOf(Buffer.concat(chunks), 'stdin');
}

function textOf(bytes: Uint8Array, file: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new HeadgateError('bad-manifest', 'read-cluster', `${file}:${firstBadLine(bytes)}: not UTF-8`, { cause });
  }
}

function firstBadLine(bytes: Uint8Array): number {
  const valid = Buffer.from(bytes).toString('utf8').split('\uFFFD', 1)[0] ?? '';
  return valid.split('\n').length;
}

function badManifest(file: string, message: string): HeadgateError {
  return new HeadgateError('bad-manifest', 'read-cluster', `${file}:1: ${message}`);
}
