/** Template functions that run on the main thread because they read files or call the master. */

import { hash } from 'node:crypto';
import { packLocal, type WireMap } from '#minion-protocol';
import type { PlainData, SaltFunction } from '#template';
import { toWire } from './pillar-wire.ts';
import { NotAnswered, type PillarTask } from './render-task.ts';

/** Keyword arguments of a call, by name. */
export type NamedData = Readonly<Record<string, PlainData>>;

/**
 * A function that templates call. Its result is plain data.
 * @throws an error ends the rendering, which then fails with the message of this error
 */
type AskedFunction = (args: readonly PlainData[], kwargs: NamedData) => Promise<PlainData>;

/** Functions by their full name. */
export type AskedFunctions = Readonly<Record<string, AskedFunction>>;

/**
 * Returns the functions in a form that templates can call. A call interrupts the rendering if its
 * answer is not in `answers` yet. The rendering starts again when the answer is known. Two equal
 * calls are executed separately, because functions may have effects.
 */
export function askingFunctions({
  asked,
  answers,
}: Pick<PillarTask, 'asked' | 'answers'>): Readonly<Record<string, SaltFunction>> {
  const counts = new Map<string, number>();
  const ask = (fun: string): SaltFunction => {
    return (args, kwargs) => {
      const call = markOf(fun, args, kwargs);
      const count = counts.get(call) ?? 0;
      counts.set(call, count + 1);
      const mark = `${call} ${count}`;
      const answer = answers.get(mark);
      if (answer === undefined) throw new NotAnswered({ mark, fun, args, kwargs });
      if ('error' in answer) throw new Error(answer.error);
      return answer.value;
    };
  };
  return Object.fromEntries(asked.map((fun) => [fun, ask(fun)]));
}

function markOf(fun: string, args: readonly PlainData[], kwargs: NamedData): string {
  const named: WireMap = Object.create(null);
  for (const [name, value] of Object.entries(kwargs)) named[name] = toWire(value);
  const packed = packLocal([fun, args.map(toWire), named]);
  return `${fun} ${hash('sha256', packed, 'base64')}`;
}
