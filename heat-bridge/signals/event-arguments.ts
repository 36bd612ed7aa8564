/**
 * Reads signals from the arguments of Salt's `event.send`, if an event has no data. `event.send`
 * drops data that the minion cannot parse as YAML. The job, or the return of `salt-call`, still
 * contains the text of the data.
 */

import type { Events } from '#master';
import { isWireMap, type WireValue } from '#minion-protocol';
import { parseJson } from '#runtime';
import { type ParsedSignal, parseSignal } from './signal.ts';

const fun = 'event.send';

/** Maximum time to wait for the return of `salt-call`, in milliseconds. */
const maxWaitMs = 5_000;

/** Source of the arguments of `event.send` for an event: the job, or the return of `salt-call`. */
export type ArgumentsSource =
  | { readonly kind: 'job'; readonly args: readonly WireValue[] }
  | { readonly kind: 'return' };

/**
 * Returns where to find the arguments of the `event.send` call that fired an event: in its job, or
 * in the return of `salt-call`. Returns `undefined` if the event was fired in another way.
 * @param body - the whole event
 */
export function argumentsSourceOf(body: WireValue | undefined): ArgumentsSource | undefined {
  const data = isWireMap(body) ? body.data : undefined;
  if (!isWireMap(data) || data.__pub_fun !== fun) return undefined;
  if (Array.isArray(data.__pub_arg)) return { kind: 'job', args: data.__pub_arg };
  return data.__pub_tgt === 'salt-call' ? { kind: 'return' } : undefined;
}

/** Parses a signal from the arguments of `event.send`. */
export function signalOfArguments(args: readonly WireValue[], maxBytes: number): ParsedSignal {
  const data = args
    .slice(1)
    .map(dataArgument)
    .find((it) => it !== undefined);
  if (typeof data !== 'string') return parseSignal(data, maxBytes);
  if (data.trim() === '') return parseSignal(undefined, maxBytes);
  try {
    return parseSignal(parseJson(data), maxBytes);
  } catch {
    return { ok: false, complaint: 'unreadable' };
  }
}

/**
 * Returns the value of an argument of `event.send` if the argument can be its parameter `data`;
 * otherwise `undefined`. Callers can pass `data` by position or by name.
 */
function dataArgument(arg: WireValue): WireValue | undefined {
  if (isWireMap(arg)) return arg.__kwarg__ === true ? arg.data : arg;
  if (typeof arg !== 'string') return arg;
  const [, name, value] = /^([A-Za-z_]\w*)=(.*)$/s.exec(arg) ?? [];
  if (name === undefined) return arg;
  return name === 'data' ? value : undefined;
}

/**
 * Waits for the next return of `event.send` with this tag, and returns the arguments in it. Returns
 * `undefined` if no return arrives in time.
 */
export async function awaitReturnedArguments(
  events: Pick<Events['bus'], 'subscribe'>,
  { minion, tag, closing }: { minion: string; tag: string; closing: AbortSignal },
): Promise<readonly WireValue[] | undefined> {
  const end = `/ret/${minion}`;
  const signal = AbortSignal.any([closing, AbortSignal.timeout(maxWaitMs)]);
  const returns = events.subscribe({
    signal,
    accepts: (it) => it.startsWith('salt/job/') && it.endsWith(end),
  });
  try {
    for await (const { data } of returns) {
      const { fun: called, fun_args: args } = data;
      if (called === fun && Array.isArray(args) && args[0] === tag) return args;
    }
  } catch {
    // A return that exceeds the size limit has no arguments.
  }
  return undefined;
}
