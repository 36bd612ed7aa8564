/** Calls a template function for the runner `salt.cmd`. */

import type { FactMap, WireMap, WireValue } from '#minion-protocol';
import { type PlainData, plainResult, type SaltFunction } from '#template';
import { GrainReads, TracedGrains } from './grains.ts';
import { isPillarMap } from './pillar-data.ts';
import { fromWire, toWire } from './pillar-wire.ts';
import { randomFunctions } from './random-functions.ts';
import { saltFunctions } from './template-functions.ts';
import { timeFunctions } from './time-functions.ts';

/** Data that the functions read. */
interface CallWorld {
  /** `id` of the master. It is the only grain that the functions can read. */
  readonly id: string;
  readonly pillar: FactMap;
  /** Options of the master that `config.get` returns, by their names in Salt. */
  readonly masterOptions: WireMap;
}

/** A call of a function that needs no files. */
export interface CallTask extends CallWorld {
  readonly fun: string;
  readonly args: readonly WireValue[];
  readonly kwargs: WireMap;
}

const names = new Set(Object.keys(functionsIn({ id: '', pillar: {}, masterOptions: {} })));

/** Whether {@link callFunction} knows the function. */
export function isCallable(fun: string): boolean {
  return names.has(fun);
}

/**
 * Calls a function. Can run on any thread.
 * @throws the error of the function
 */
export function callFunction({ fun, args, kwargs, ...world }: CallTask): WireValue {
  const found = new Map(Object.entries(functionsIn(world))).get(fun);
  const named: [string, PlainData][] = Object.entries(kwargs).map(([name, value]) => {
    return [name, fromWire(value)];
  });
  return toWire(plainResult(found?.(args.map(fromWire), Object.fromEntries(named))));
}

function functionsIn({
  id,
  pillar: given,
  masterOptions,
}: CallWorld): Readonly<Record<string, SaltFunction>> {
  const pillar = fromWire(given);
  return {
    ...saltFunctions({
      grains: new TracedGrains({ id }, new GrainReads()),
      setting: {
        pillar: isPillarMap(pillar) ? pillar : new Map(),
        raisesOnMissing: false,
        masterOptions,
      },
    }),
    ...randomFunctions(() => {}),
    ...timeFunctions(() => new Date()),
  };
}
