/**
 * Implements `salt.parallel_runners`: runs several runners at the same time
 * [salt/states/saltmod.py].
 */

import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import type { PlainData } from '#template';
import { isList, isPillarMap } from '../render/pillar-data.ts';
import { textOf } from '../render/pillar-wire.ts';
import type { OrchestrationContext } from './orchestration-context.ts';
import { mapOf, runRunner } from './salt-runner.ts';
import type { StateFunction } from './state-function.ts';
import { failed, type Outcome } from './state-result.ts';

/** A runner in the list of `salt.parallel_runners`. */
interface NamedRunner {
  readonly id: string;
  readonly fun: string;
  readonly kwarg: WireMap;
}

/** Returned value of a runner, and whether the runner failed. */
interface Returned {
  readonly id: string;
  readonly value: WireValue;
  readonly hasFailed: boolean;
}

export function parallelRunners(context: OrchestrationContext): StateFunction {
  return {
    required: ['runners'],
    takesMore: true,
    call: async (call) => {
      const { given } = call;
      const runners = readRunners(given.get('runners') ?? null);
      if (runners === undefined) {
        return failed('The runners parameter must be a string or dict.');
      }
      const work = runners.map(async ({ id, fun, kwarg }): Promise<Returned> => {
        const result = await runRunner(context, call, { fun, arg: [], kwarg });
        return {
          id,
          value: result.return,
          hasFailed: !result.success || exitCodeOf(result.return) !== 0,
        };
      });
      const settled = await Promise.allSettled(work);
      const broken = settled.find((one) => one.status === 'rejected');
      if (broken !== undefined) throw broken.reason;
      return parallelRunnersOutcome(
        settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : [])),
      );
    },
  };
}

function readRunners(said: PlainData): readonly NamedRunner[] | undefined {
  if (typeof said === 'string') return [{ id: said, fun: said, kwarg: {} }];
  if (!isPillarMap(said)) return undefined;
  return Array.from(said, ([key, list]) => {
    const members = isList(list) ? list.filter(isPillarMap).flatMap((map) => [...map]) : [];
    const config = new Map(members);
    const id = textOf(key);
    return { id, fun: textOf(config.get('name') ?? id), kwarg: mapOf(config.get('kwarg')) };
  });
}

function exitCodeOf(value: WireValue): WireValue {
  return isWireMap(value) ? (value.exit_code ?? 0) : 0;
}

function parallelRunnersOutcome(returned: readonly Returned[]): Outcome {
  const failed = returned.filter(({ hasFailed }) => hasFailed).map(({ id }) => id);
  return { result: failed.length === 0, changes: changesOf(returned), comment: commentOn(failed) };
}

function commentOn(failed: readonly string[]): string {
  if (failed.length === 0) return 'All runner functions executed successfully.';
  return failed.length === 1
    ? `Runner ${failed[0]} failed.`
    : `Runners ${failed.join(', ')} failed.`;
}

/**
 * Returns the `changes` of the state: the changes of nested orchestrations, and the returned values
 * of other runners.
 */
function changesOf(returned: readonly Returned[]): WireMap {
  const all: WireMap = Object.create(null);
  if (!returned.every(({ value }) => isHighstate(value))) {
    for (const { id, value } of returned) all[id] = value;
    return { ret: all };
  }
  for (const { id, value } of returned) {
    const changes = changesIn(isWireMap(value) ? (value.data ?? null) : null);
    if (isWireMap(changes) && Object.keys(changes).length > 0) all[id] = changes;
  }
  return all;
}

function isHighstate(value: WireValue): boolean {
  return isWireMap(value) && value.outputter === 'highstate' && value.data !== undefined;
}

function changesIn(value: WireValue): WireValue {
  if (!isWireMap(value)) return {};
  const { changes } = value;
  if (changes !== undefined) {
    const isNested = isWireMap(changes) && changes.out === 'highstate';
    return isNested ? (changes.ret ?? changes) : changes;
  }
  const found: WireMap = Object.create(null);
  for (const [key, inner] of Object.entries(value)) {
    const change = changesIn(inner);
    if (isWireMap(change) && Object.keys(change).length > 0) found[key] = change;
  }
  return found;
}
