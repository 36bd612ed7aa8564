/** Validates the chunks of a reactor file and returns them in the order of the calls. */

import type { PlainData } from '#template';
import { orderChunks } from '../render/chunk-order.ts';
import { isList, isPillarMap } from '../render/pillar-data.ts';
import { textOf } from '../render/pillar-wire.ts';

/** Arguments of one call by name: `state`, `fun`, `name`, `tgt`, `args` and so on. */
export type Chunk = ReadonlyMap<PlainData, PlainData>;

/**
 * Content of one id in a reactor file. Each key is a state, such as `local`. Its value is a list of
 * the arguments and the name of the function.
 */
type Body = ReadonlyMap<PlainData, PlainData>;

/** Error for a file that is not a valid reactor file. */
export class FormError extends Error {
  constructor(problem: string) {
    super(problem);
    this.name = new.target.name;
  }
}

/** Names of Salt's requisites. In reactor files they have no effect, but their form is checked. */
const requisites: ReadonlySet<PlainData> = new Set(['require', 'watch', 'prereq', 'onchanges']);

/**
 * Reads the chunks of a reactor file. Each chunk describes one call.
 * @throws FormError if any part of the file is invalid; no call is made in this case
 */
export function chunksOf(data: PlainData): Chunk[] {
  if (!isPillarMap(data))
    throw new FormError('the reactor file must contain a map whose keys are ids of reactions');
  const bodies = Array.from(data, ([id, body]) => [id, padded(id, body)] as const);
  const isOwn = ([id]: readonly [PlainData, Body]): boolean => {
    return typeof id === 'string' && id.startsWith('__');
  };
  const high = bodies.filter((entry) => !isOwn(entry));
  for (const [id, body] of high) verify(id, body);
  return orderChunks(
    high.flatMap(([id, body]) => compile(id, body)),
    (chunk) => ({
      order: chunk.get('order'),
      nameOrder: Number(chunk.get('name_order') ?? 0),
      text: ['state', 'name', 'fun'].map((part) => textOf(chunk.get(part) ?? null)).join(''),
    }),
  );
}

/** Converts a declaration such as `local.cmd.run: [args]` to `local: [args, cmd.run]`. */
function padded(id: PlainData, body: PlainData): Body {
  if (typeof body === 'string' && body.includes('.')) {
    const [state, fun] = split(body);
    return new Map([[state, [fun]]]);
  }
  if (!isPillarMap(body))
    throw new FormError(`the value of ${named(id)} in the reactor file must be a map`);
  const result = new Map(body);
  const seen = new Set<string>();
  const keys = [...body.keys()];
  if (!keys.every((key) => typeof key === 'string')) {
    throw new FormError(`the value of ${named(id)} in the reactor file has a key that is not text`);
  }
  for (const key of keys.sort()) {
    const args = body.get(key);
    if (key.startsWith('_') || !isList(args)) continue;
    const [state, fun] = split(key);
    if (fun === '') seen.add(key);
    // As in Salt, a second declaration of the same kind has no effect and is not converted.
    if (fun === '' || seen.has(state)) continue;
    result.delete(key);
    result.set(state, [...args, fun]);
    seen.add(state);
  }
  return result;
}

function split(name: string): [state: string, fun: string] {
  const [state = '', ...rest] = name.split('.');
  return [state, rest.join('.')];
}

function verify(id: PlainData, body: Body): void {
  if (typeof id !== 'string')
    throw new FormError(`${named(id)} in the reactor file must be text; add quotes`);
  for (const [state, args] of body) {
    if (String(state).startsWith('__')) continue;
    if (!isList(args))
      throw new FormError(`${named(id)}: the value of ${String(state)} must be a list`);
    verifyFunctions(`${named(id)}: ${String(state)}`, String(state), args);
    for (const arg of args) verifyRequisite(named(id), arg);
  }
}

function verifyFunctions(place: string, state: string, args: readonly PlainData[]): void {
  const names = args.filter((arg) => typeof arg === 'string');
  if (names.some((name) => name.trim().includes(' '))) {
    throw new FormError(
      `${place}: the name of the function contains a space; add the missing colon`,
    );
  }
  const count = names.length + (state.includes('.') ? 1 : 0);
  if (count === 0 && state !== 'require' && state !== 'watch') {
    throw new FormError(`${place}: the name of the function is missing`);
  }
  if (count > 1) throw new FormError(`${place}: the list names more than one function`);
}

function verifyRequisite(place: string, arg: PlainData): void {
  if (!isPillarMap(arg)) return;
  const [[name, value] = [null, null]] = arg;
  if (!requisites.has(name)) return;
  const isForm = isList(value) && arg.size === 1 && value.every(isRequisite);
  if (!isForm) throw new FormError(`${place}: the value of ${String(name)} must be a list of ids`);
}

function isRequisite(item: PlainData): boolean {
  if (typeof item === 'string') return true;
  const [[kind] = ['']] = isPillarMap(item) ? item : [];
  return isPillarMap(item) && typeof kind === 'string' && !kind.includes('.');
}

function compile(id: PlainData, body: Body): Map<PlainData, PlainData>[] {
  return [...body].flatMap(([state, args]) => {
    if (String(state).startsWith('__') || !isList(args)) return [];
    const fun = args.find((arg) => typeof arg === 'string');
    if (fun === undefined) return [];
    const maps = args.filter(isPillarMap);
    const fields = new Map<PlainData, PlainData>([
      ['state', state],
      ['name', id],
      ['__id__', id],
      ...maps.flatMap((map) => [...map].filter(([name]) => name !== 'names')),
    ]);
    const names = maps.map((map) => map.get('names') ?? []).flatMap((it) => (isList(it) ? it : []));
    if (names.length === 0) return [fields.set('fun', fun)];
    return names.map((name, place) => namedChunk(fields, name, place + 1).set('fun', fun));
  });
}

/** Returns the chunk for one entry of `names`. An entry may have its own arguments. */
function namedChunk(
  fields: ReadonlyMap<PlainData, PlainData>,
  name: PlainData,
  place: number,
): Map<PlainData, PlainData> {
  const chunk = new Map(fields);
  const [[own, more] = [name, []]] = isPillarMap(name) ? name : [];
  const maps = isList(more) ? more.filter(isPillarMap) : [];
  chunk.set('name', own);
  for (const [key, value] of maps.flatMap((map) => [...map])) chunk.set(key, value);
  return chunk.set('name_order', place);
}

function named(id: PlainData): string {
  return `the id ${JSON.stringify(textOf(id).slice(0, 100))}`;
}
