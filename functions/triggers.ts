// From a trigger to a publish, in one process: remembers that the cluster changed, and reconciles under the lease that all
// processes share (see wake-ups.ts).

import { parseAddress, specialUse } from '../shared/address.ts';
import { type Head, RECONCILER } from '../shared/head.ts';
import { reconcile, type ReconcileInput } from './reconcile.ts';
import { OUR_CERTIFICATE_SERVES } from './router/default-certificate.ts';
import { type WakeUpOutcome, WakeUps } from './wake-ups.ts';

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
  const sayWhatServes = sayOnceWhatServes(input);
  let trigger = '';
  let published: Published | null = null;
  const wakeUps = new WakeUps({
    objects: store.objects,
    holder,
    lastMove: async () => timeOf((await store.readHead(signal))?.head),
    pass: async () => {
      try {
        const { version, sequence, changed, ourCertificateServes } = await reconcile({ ...input, trigger, author: RECONCILER });
        if (ourCertificateServes) sayWhatServes();
        published = { version, sequence, changed: changed || published?.changed === true };
        onPass(changed ? 'changed' : 'unchanged');
      } catch (thrown) {
        onPass('failed');
        throw thrown;
      }
    },
  });
  const serve = oneAtATime(async (why: string): Promise<{ readonly outcome: WakeUpOutcome; readonly published: Published | null }> => {
    trigger = why;
    published = null;
    return { outcome: await wakeUps.runIfDirty(), published };
  });
  return {
    mark: (delayMs) => wakeUps.mark(delayMs),
    serveMarks: async () => (await serve('wake-up')).published,
    async reconcile(why) {
      await wakeUps.mark();
      const served = await serve(why);
      if (served.outcome === 'busy') return null;
      // Clean: the mark was served by what ran when it was made.
      return served.published ?? publishedIn((await store.readHead(signal))?.head);
    },
  };
}

/** A router on loopback deceives nobody: that is no reason to warn. */
function sayOnceWhatServes({ options, logger }: TriggerOptions): () => void {
  const bound = parseAddress(options.router.bindAddress);
  const level = bound !== null && specialUse(bound) === 'loopback' ? 'info' : 'warn';
  let said = false;
  return () => {
    if (!said) logger[level](OUR_CERTIFICATE_SERVES);
    said = true;
  };
}

/** Calls during a run share the next one, which begins after all of them. */
function oneAtATime<T>(run: (why: string) => Promise<T>): (why: string) => Promise<T> {
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | null = null;
  return (why) => {
    if (next !== null) return next;
    const begun = running.then(() => {
      next = null;
      return run(why);
    });
    next = begun;
    running = begun.catch(() => undefined);
    return begun;
  };
}

function publishedIn(head: Head | undefined): Published | null {
  return head === undefined ? null : { version: head.target.number, sequence: head.sequence, changed: false };
}

function timeOf(head: Head | undefined): number | null {
  return head === undefined ? null : Date.parse(head.time);
}
