/**
 * Built-in functions of the embedded minion, with the names and results of Salt's functions. Tests,
 * the demo and small appliances need them [salt/modules/test.py, grains.py, event.py, saltutil.py].
 */

import { sleepUntilAborted } from '#runtime';
import { isWireMap, type WireMap, type WireValue } from '../wire-value.ts';

/** Positional and keyword arguments of a call. */
export interface CallArguments {
  readonly args: readonly WireValue[];
  readonly kwargs: Readonly<Record<string, WireValue>>;
}

/** State and operations of the minion that a function may use. */
export interface FunctionContext {
  readonly id: string;
  readonly grains: WireMap;
  /** Pillar that the minion received last. */
  readonly pillar: WireMap;
  /** Id of the job that runs the function. */
  readonly jid: string;
  /**
   * Sends an event to the master, whose policy decides whether it is published. Resolves with the
   * id of the signal, if the bridge stores the event as a signal for a handle, and otherwise with
   * `undefined`.
   */
  readonly fire: (tag: string, data: WireMap) => Promise<string | undefined>;
  /**
   * Returns the publication loads of all jobs that are running on this minion, including the
   * current job.
   */
  readonly running: () => readonly WireMap[];
  /**
   * Stops a running job.
   * @returns whether the job was running
   */
  readonly kill: (jid: string) => boolean;
  /** Aborted when the job is killed or the minion is stopped. */
  readonly signal: AbortSignal;
  /** Returns the names of all functions that this minion provides. */
  readonly functionNames: () => readonly string[];
}

/**
 * A function that the master may call by name. If it throws, the minion returns a failed result.
 */
export type MinionFunction = (
  call: CallArguments,
  context: FunctionContext,
) => WireValue | Promise<WireValue>;

const version = 'saltbridge minion';

/** Built-in functions by name. */
export const builtInFunctions: ReadonlyMap<string, MinionFunction> = new Map<
  string,
  MinionFunction
>([
  ['test.ping', () => true],
  ['test.true', () => true],
  ['test.false', () => false],
  ['test.version', () => version],
  ['test.echo', ({ args: [text], kwargs }) => text ?? kwargs.text ?? ''],
  ['test.arg', ({ args, kwargs }) => ({ args: [...args], kwargs: { ...kwargs } })],
  ['test.kwarg', ({ kwargs }) => ({ ...kwargs })],
  ['test.sleep', async ({ args: [seconds = 0] }, { signal }) => sleep(Number(seconds), signal)],
  [
    'test.exception',
    ({ args: [message = 'Test Exception'] }) => {
      throw new Error(String(message));
    },
  ],
  ['grains.items', (_call, { grains }) => grains],
  ['grains.ls', (_call, { grains }) => Object.keys(grains).sort()],
  ['grains.item', ({ args }, { grains }) => pick(grains, args)],
  [
    'grains.get',
    ({ args: [path = '', fallback = ''] }, { grains }) => find(grains, path) ?? fallback,
  ],
  ['pillar.items', (_call, { pillar }) => pillar],
  [
    'pillar.get',
    ({ args: [path = '', fallback = ''] }, { pillar }) => find(pillar, path) ?? fallback,
  ],
  [
    'event.send',
    async ({ args: [tag = ''], kwargs }, { fire }) => {
      const data = kwargs.data;
      await fire(String(tag), isWireMap(data) ? data : {});
      return true;
    },
  ],
  ['saltutil.running', (_call, { running, jid }) => running().filter((job) => job.jid !== jid)],
  [
    'saltutil.find_job',
    ({ args: [jid] }, { running }) => running().find((job) => job.jid === jid) ?? {},
  ],
  [
    'saltutil.kill_job',
    ({ args: [jid] }, { kill }) => (kill(String(jid)) ? `Signal 9 sent to job ${String(jid)}` : ''),
  ],
  ['sys.list_functions', (_call, { functionNames }) => [...functionNames()].sort()],
]);

async function sleep(seconds: number, signal: AbortSignal): Promise<boolean> {
  await sleepUntilAborted(seconds * 1000, signal);
  if (signal.aborted) throw new Error('the job was killed');
  return true;
}

function pick(map: WireMap, names: readonly WireValue[]): WireMap {
  return Object.fromEntries(names.map((name) => [String(name), map[String(name)] ?? '']));
}

/** Returns the value at a path such as `a:b:c`, or `undefined` if there is none. */
function find(map: WireMap, path: WireValue): WireValue | undefined {
  let value: WireValue | undefined = map;
  for (const name of String(path).split(':')) {
    value = isWireMap(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  }
  return value;
}
