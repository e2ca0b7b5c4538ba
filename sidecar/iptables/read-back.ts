// Reads the rules of a node back, of all its families, line by line: the text of a large table is never held at once.

import { isOwnChain } from '../../shared/iptables/chain-names.ts';
import type { RunProgram } from '../run-program.ts';
import { type PerFamily, perFamily } from './family-plans.ts';
import { LeftOverReader, type LeftOvers } from './kube-proxy-left-overs.ts';
import { type SavedRules, SaveReader } from './save.ts';
import { saveLines, type Tool } from './tool.ts';

export interface ReadBack {
  readonly saved: PerFamily<SavedRules>;
  readonly leftOvers: PerFamily<LeftOvers>;
}

/** What is read of a node that holds nothing. */
export const NOTHING: ReadBack = found(readers(isOwnChain));

/** @param ours which chains are read as ours. Throws as `saveLines` does */
export async function readBack(run: RunProgram, tool: Tool, signal?: AbortSignal, ours = isOwnChain): Promise<ReadBack> {
  const reading = readers(ours);
  for (const family of tool.families) {
    const { rules, leftOvers } = reading[family];
    const onLine = (line: string): void => {
      rules.line(line);
      leftOvers.line(line);
    };
    await saveLines(run, tool.backEnd, family, onLine, signal);
  }
  return found(reading);
}

type Readers = PerFamily<{ readonly rules: SaveReader; readonly leftOvers: LeftOverReader }>;

function readers(ours: (chain: string) => boolean): Readers {
  return perFamily((family) => ({ rules: new SaveReader(family, ours), leftOvers: new LeftOverReader(family) }));
}

function found(reading: Readers): ReadBack {
  return {
    saved: perFamily((family) => reading[family].rules.rules()),
    leftOvers: perFamily((family) => reading[family].leftOvers.leftOvers()),
  };
}
