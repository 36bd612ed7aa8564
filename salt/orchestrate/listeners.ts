/** Implements `listen` [salt/state.py call_listen]. */

import type { PlainData } from '#template';
import { isList, isPillarMap } from '../render/pillar-data.ts';
import { textOf } from '../render/pillar-wire.ts';
import { type Chunk, tagOf } from './low-chunk.ts';
import { requisiteKinds } from './state-keywords.ts';
import { hasChanges, type Results, type StateResult } from './state-result.ts';

/** States to call because of `listen`, and errors about references to unknown states. */
export interface Listening {
  readonly chunks: readonly Chunk[];
  readonly errors: ReadonlyMap<string, StateResult>;
}

/** Reference to a state: its module, and its id or name. */
interface Reference {
  readonly state: string;
  readonly name: string;
}

/** A state with `listen`, and the reference to the state that it listens to. */
interface Listener {
  readonly listener: Reference;
  readonly to: PlainData;
}

export function listenersOf(chunks: readonly Chunk[], results: Results): Listening {
  const called: Chunk[] = [];
  const errors = new Map<string, StateResult>();
  const byName = chunksByName(chunks);
  const find = (reference: Reference): readonly Chunk[] => {
    const { state, name } = reference;
    const found = [...(byName.get(name) ?? [])].filter((chunk) => chunk.state === state);
    if (found.length === 0) noteMissing(errors, reference);
    return found;
  };
  for (const { listener, to } of chunks.flatMap(readListeners)) {
    for (const reference of referencesOf(to, byName)) {
      const changed = find(reference).filter((chunk) => {
        const result = results.get(tagOf(chunk));
        return result !== undefined && hasChanges(result);
      });
      for (const _ of changed) called.push(...find(listener).map(toWatch));
    }
  }
  return { chunks: called, errors };
}

function readListeners({ state, id, args }: Chunk): Listener[] {
  const own = { state, name: id };
  const listens = listOf(args.get('listen')).map((to) => ({ listener: own, to }));
  const listenIns = listOf(args.get('listen_in')).flatMap((item) =>
    mapEntries(item).map((listener) => ({ listener, to: new Map([[state, id]]) })),
  );
  return [...listens, ...listenIns];
}

/** Returns the chunks by id and by name, in the order of the run. */
function chunksByName(chunks: readonly Chunk[]): ReadonlyMap<PlainData, ReadonlySet<Chunk>> {
  const byName = new Map<PlainData, Set<Chunk>>();
  for (const chunk of chunks) {
    for (const name of [chunk.id, chunk.name]) {
      const named = byName.get(name);
      if (named === undefined) byName.set(name, new Set([chunk]));
      else named.add(chunk);
    }
  }
  return byName;
}

function referencesOf(
  to: PlainData,
  byName: ReadonlyMap<PlainData, ReadonlySet<Chunk>>,
): readonly Reference[] {
  if (isPillarMap(to)) return mapEntries(to);
  const found = [...(byName.get(to) ?? [])].at(-1);
  return found === undefined ? [] : [{ state: found.state, name: found.id }];
}

function mapEntries(item: PlainData): Reference[] {
  if (!isPillarMap(item)) return [];
  return Array.from(item, ([state, name]) => ({ state: textOf(state), name: textOf(name) }));
}

function toWatch(chunk: Chunk): Chunk {
  const args = [...chunk.args].filter(([name]) => !requisiteKinds.has(name));
  return { ...chunk, fun: 'mod_watch', id: `listener_${chunk.id}`, args: new Map(args) };
}

function noteMissing(errors: Map<string, StateResult>, { state, name }: Reference): void {
  const tag = `Listen_Error_|-listen_${name}_|-listen_${state}_|-Listen_Error`;
  const comment = `Referenced state ${state}: ${name} does not exist`;
  errors.set(tag, {
    name: `listen_${state}:${name}`,
    outcome: { result: false, changes: {}, comment },
    facts: {},
    didRun: true,
  });
}

function listOf(value: PlainData | undefined): readonly PlainData[] {
  return isList(value) ? value : [];
}
