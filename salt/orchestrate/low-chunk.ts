import type { WireMap } from '#minion-protocol';
import type { PlainData } from '#template';
import { orderChunks } from '../render/chunk-order.ts';
import { isList, isPillarMap } from '../render/pillar-data.ts';
import { textOf } from '../render/pillar-wire.ts';
import { argumentsOf, type Body, firstOf, type High } from './high-data.ts';

/** One call of a state's function. */
export interface Chunk {
  readonly state: string;
  readonly fun: string;
  readonly id: string;
  /** Value of `name`. It is a text, unless the list `names` contains an entry of another type. */
  readonly name: PlainData;
  readonly sls: string | null;
  readonly saltenv: string;
  readonly includedFrom: readonly string[];
  /** Arguments that no other property contains: requisites, and the arguments of the function. */
  readonly args: ReadonlyMap<string, PlainData>;
}

/** Returns the tag of a chunk. The result of the chunk is stored under this key. */
export function tagOf({ state, id, name, fun }: Chunk): string {
  return `${state}_|-${id}_|-${textOf(name)}_|-${fun}`;
}

/** Returns the SLS and the id of a chunk, which the event with the chunk's result contains. */
export function placeOf({ id, sls }: Pick<Chunk, 'id' | 'sls'>): WireMap {
  return { __sls__: sls, __id__: id };
}

/** Compiles high data to chunks, in the order in which they run. */
export function compileChunks({ bodies }: High): Chunk[] {
  const chunks = [...bodies].flatMap(([id, body]) =>
    [...body.states.keys()]
      .filter((state) => !state.startsWith('__'))
      .flatMap((state) => chunksOf(String(id), state, body)),
  );
  const inOrder = orderChunks(chunks, ({ args, nameOrder, state, name, fun }) => ({
    order: args.get('order'),
    nameOrder,
    text: `${state}${textOf(name)}${fun}`,
  }));
  return inOrder.map(({ nameOrder: _, ...chunk }) => chunk);
}

/**
 * Chunk (one state to run), with its position among the chunks that its option `names` has
 * produced. The first position is 1.
 */
interface Numbered extends Chunk {
  readonly nameOrder: number;
}

function chunksOf(id: string, state: string, body: Body): Numbered[] {
  const { sls, saltenv, includedFrom } = body;
  const args = new Map<string, PlainData>();
  const names: PlainData[] = [];
  const functions = new Set<string>();
  for (const argument of argumentsOf(body, state)) {
    if (typeof argument === 'string') functions.add(argument);
    if (!isPillarMap(argument)) continue;
    for (const [key, value] of argument) {
      if (key === 'names') names.push(...(isList(value) ? value : []));
      else if (key !== 'state') args.set(textOf(key), value);
    }
  }
  const given = args.get('name');
  args.delete('name');
  const common = { id, state, sls, saltenv, includedFrom };
  const named = [...new Set(names)].map((entry) => withName(entry, args));
  const single = { name: typeof given === 'string' ? given : id, args };
  return [...functions].flatMap((fun) =>
    (named.length === 0 ? [single] : named).map((one, index) => {
      return { ...common, ...one, fun, nameOrder: named.length === 0 ? 0 : index + 1 };
    }),
  );
}

/** Reads an entry of `names`: a name, or a name with its own arguments. */
function withName(
  entry: PlainData,
  common: ReadonlyMap<string, PlainData>,
): Pick<Chunk, 'name' | 'args'> {
  const [name, own] = firstOf(entry) ?? [entry, []];
  const added = (isList(own) ? own : []).filter(isPillarMap).flatMap((map) => [...map]);
  const args = new Map(common);
  for (const [key, value] of added) args.set(textOf(key), value);
  return { name, args };
}
