// From a trigger to a publish, in one process: remembers that the cluster changed, and reconciles under the lease that all
// processes share (see wake-ups.ts).

import { type Head, RECONCILER } from '../shared/head.ts';
import { reconcile, type ReconcileInput } from './reconcile.ts';
import { WakeUps } from './wake-ups.ts';

export interface Published {
  /** What nodes run. */
  readonly version: number;
  readonly sequence: number;
  readonly changed: boolean;
}

export interface Triggers {
  /** Remembers that the cluster changes within `delayMs`. */
  mark(delayMs: number): Promise<void>;
  /** Remembers that it changed, and reconciles; null when somebody else does. */
  reconcile(trigger: string): Promise<Published | null>;
  /** Reconciles if a trigger of anybody is not served; null when there is none, or somebody else does. */
  serveMarks(): Promise<Published | null>;
}

/** `changed`: the head was moved. */
export type PassOutcome = 'changed' | 'unchanged' | 'failed';

export interface TriggerOptions extends Pick<ReconcileInput, 'store' | 'cluster' | 'options' | 'sealingKey' | 'logger' | 'signal'> {
  /** Names this process among those that share the store. */
  readonly holder: string;
  /** A look at the cluster has ended. */
  readonly onPass: (outcome: PassOutcome) => void;
}

export function clusterTriggers(input: TriggerOptions): Triggers {
  const { store, holder, onPass, signal } = input;
  let trigger = 'wake-up';
  let last: Published | null = null;
  const wakeUps = new WakeUps({
    objects: store.objects,
    holder,
    lastMove: async () => timeOf((await store.readHead(signal))?.head),
    pass: async () => {
      try {
        const { version, sequence, changed } = await reconcile({ ...input, trigger, author: RECONCILER });
        last = { version, sequence, changed };
        onPass(changed ? 'changed' : 'unchanged');
      } catch (thrown) {
        onPass('failed');
        throw thrown;
      }
    },
  });
  const serve = async (why: string): Promise<Published | null> => {
    trigger = why;
    const outcome = await wakeUps.runIfDirty();
    return outcome === 'served' ? last : null;
  };
  return {
    mark: (delayMs) => wakeUps.mark(delayMs),
    serveMarks: () => serve('wake-up'),
    async reconcile(why) {
      await wakeUps.mark();
      return serve(why);
    },
  };
}

function timeOf(head: Head | undefined): number | null {
  return head === undefined ? null : Date.parse(head.time);
}
