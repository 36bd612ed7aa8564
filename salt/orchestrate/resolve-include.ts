/** Resolves `include` [salt/state.py render_state]. */

import type { PlainData } from '#template';
import { isPillarMap } from '../render/pillar-data.ts';
import { textOf } from '../render/pillar-wire.ts';
import { matchesGlob } from './high-data.ts';
import type { SlsPlace } from './sls-declarations.ts';

/** Names of the environments and SLS files. */
export interface SlsNames {
  /** Returns the names of all environments. */
  envs(): readonly string[];
  /** Returns the sorted names of the SLS of an environment. */
  names(saltenv: string): Promise<ReadonlySet<string>>;
}

/** The SLS that contains the include. */
interface IncludingSls extends SlsPlace {
  /** Whether the file of this SLS is named `init.sls`. */
  readonly isInit: boolean;
  /** Salt environment (`saltenv`) of the run. */
  readonly runEnv: string;
}

/** SLS to render, or an error. */
type Included = readonly SlsPlace[] | { readonly error: string };

const ofTheRun = '_xenv';

export async function resolveInclude(
  item: PlainData,
  from: IncludingSls,
  files: SlsNames,
): Promise<Included> {
  const [asked, written] = readItem(item, from);
  const place = `'${from.saltenv}:${from.sls}'`;
  if (asked !== ofTheRun && !files.envs().includes(asked)) {
    return {
      error: `Nonexistent saltenv '${asked}' found in include of '${written}' within SLS ${place}`,
    };
  }
  const sls = written.startsWith('.') ? relativeTo(from, written) : written;
  if (sls === undefined) {
    const reason = 'goes beyond top level package ';
    return { error: `Attempted relative include of '${written}' within SLS ${place} ${reason}` };
  }
  const saltenv = asked === ofTheRun ? from.runEnv : asked;
  const found = matching(await files.names(saltenv), sls);
  if (found.length === 0 && (asked === ofTheRun || saltenv !== from.runEnv)) {
    return {
      error: `Unknown include: Specified SLS ${asked}: ${sls} is not available on the salt master in saltenv(s): ${saltenv} `,
    };
  }
  return (found.length === 0 ? [sls] : found).map((name) => ({ sls: name, saltenv }));
}

/** Returns the names that match a glob, in their order. */
export function matching(names: ReadonlySet<string>, glob: string): string[] {
  if (names.has(glob)) return [glob];
  return [...names].filter((name) => matchesGlob(name, glob));
}

function readItem(item: PlainData, { saltenv }: SlsPlace): readonly [saltenv: string, sls: string] {
  if (!isPillarMap(item)) return [saltenv, textOf(item)];
  const [[key, sls] = ['', '']] = item;
  return [textOf(key), textOf(sls)];
}

/**
 * Resolves the leading dots of an included name. One dot stands for the package of the including
 * SLS, and each further dot for its parent. Returns `undefined` if the package does not exist.
 */
function relativeTo({ sls, isInit }: IncludingSls, written: string): string | undefined {
  const [dots = ''] = /^\.+/.exec(written) ?? [];
  const parts = [...sls.split('.'), ...(isInit ? ['init'] : [])];
  if (dots.length > parts.length) return undefined;
  return [...parts.slice(0, -dots.length), written.slice(dots.length)].join('.');
}
