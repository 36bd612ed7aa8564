/** Validates a chunk, with Salt's messages [salt/state.py verify_data]. */

import { textOf } from '../render/pillar-wire.ts';
import { matchesGlob, typeName } from './high-data.ts';
import type { Chunk } from './low-chunk.ts';
import { requisitesOf } from './requisites.ts';
import type { StateTable } from './state-function.ts';

export function verifyChunk(chunk: Chunk, table: StateTable): string[] {
  return [...nameProblems(chunk), ...functionProblems(chunk, table), ...circleProblems(chunk)];
}

function nameProblems({ name, sls }: Chunk): string[] {
  if (typeof name === 'string') return [];
  const place = sls === null ? '' : `in SLS '${sls}' `;
  return [`ID '${textOf(name)}' ${place}is not formed as a string, but is a ${typeName(name)}`];
}

function functionProblems({ state, fun, sls, args }: Chunk, table: StateTable): string[] {
  const full = `${state}.${fun}`;
  const found = table.get(full);
  if (found === undefined) {
    return sls === null
      ? [`Specified state '${full}' was not found`]
      : [`State '${full}' was not found in SLS '${sls}'`, `Reason: '${full}' is not available.`];
  }
  return (found.required ?? [])
    .filter((name) => !args.has(name))
    .map((name) => `Missing parameter ${name} for state ${full}`);
}

function circleProblems(chunk: Chunk): string[] {
  const kind = chunk.args.has('watch') ? 'watch' : 'require';
  return requisitesOf(chunk, kind)
    .filter(({ kind: state, name }) => state === chunk.state && isItself(chunk, name))
    .map(({ kind: state, name }) => {
      const requisite = textOf(new Map([[state, name]]));
      return `Recursive require detected in SLS ${chunk.sls} for require ${requisite} in ID ${chunk.id}`;
    });
}

function isItself({ id, name }: Chunk, pattern: string): boolean {
  return matchesGlob(textOf(name), pattern) || matchesGlob(id, pattern);
}
