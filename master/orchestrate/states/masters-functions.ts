/** `salt.runner` and `salt.wheel`: functions of the master [salt/states/saltmod.py]. */
import { isWireMap, type WireMap, type WireValue } from '../../../minion-protocol/index.ts';
import type { PlainData } from '../../../template/index.ts';
import { inTime } from '../../in-time.ts';
import { toWire } from '../../pillar/wire.ts';
import type { FunctionResult } from '../../runners/caller.ts';
import { isList, textOf } from '../data.ts';
import type { Outcome } from '../result.ts';
import { requester, tellArguments, type World } from '../world.ts';
import type { StateCall, StateFunction } from './state-function.ts';

/** Functions that tell what they do under the orchestration that they are part of. */
const orchestrations: ReadonlySet<string> = new Set([
  'state.orchestrate',
  'state.orch',
  'state.sls',
]);

export function saltRunner(world: World): StateFunction {
  return {
    takesMore: true,
    call: async (call) => {
      if (call.test) return untouched(`Runner function '${call.name}' would be executed.`);
      const { arg, kwarg, ...more } = Object.fromEntries(call.given);
      const given = { arg: listOf(arg), kwarg: { ...mapOf(kwarg), ...toWireMap(more) } };
      return outcomeOf('Runner', call, await runRunner(world, call.name, given, call.saltenv));
    },
  };
}

export function saltWheel(world: World): StateFunction {
  return {
    takesMore: true,
    call: async (call) => {
      const { name, saltenv } = call;
      if (call.test) return untouched(`Wheel function '${name}' would be executed.`);
      const kwarg = toWireMap(Object.fromEntries(call.given));
      if (world.wheel.declares(name, 'saltenv')) kwarg.saltenv = saltenv;
      tellArguments(world, { type: 'wheel', name, args: kwarg });
      const result = await ended(world, world.wheel.run({ fun: name, kwarg, ...requester(world) }));
      return outcomeOf('Wheel', call, result);
    },
  };
}

/** What a runner is called with. */
export interface RunnerArguments {
  readonly arg: readonly WireValue[];
  readonly kwarg: WireMap;
}

/** [salt/modules/saltutil.py runner] @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS */
export function runRunner(
  world: World,
  fun: string,
  { arg, kwarg }: RunnerArguments,
  saltenv: string,
): Promise<FunctionResult> {
  const { runners, jid } = world;
  const given: WireMap = { ...kwarg };
  if (runners.declares(fun, 'saltenv')) given.saltenv = saltenv;
  if (orchestrations.has(fun) && jid !== undefined) given.orchestration_jid = jid;
  tellArguments(world, { type: 'runner', name: fun, args: [...arg], kwargs: given });
  return ended(world, runners.run({ fun, arg, kwarg: given, ...requester(world) }));
}

/** Waits for no longer than the orchestration may take. @throws what its signal says */
async function ended({ signal }: World, work: Promise<FunctionResult>): Promise<FunctionResult> {
  const result = await inTime(work, signal);
  if (result !== undefined) return result;
  signal.throwIfAborted();
  throw new TypeError('a function of the master returned nothing');
}

function outcomeOf(
  kind: 'Runner' | 'Wheel',
  { name }: StateCall,
  { jid, return: value, success }: FunctionResult,
): Outcome {
  const hasFailed = !success || (isWireMap(value) && Object.hasOwn(value, 'Error'));
  return {
    result: !hasFailed,
    changes: { return: value },
    comment: `${kind} function '${name}' ${hasFailed ? 'failed' : 'executed'}.`,
    more: { __jid__: jid },
  };
}

function untouched(comment: string): Outcome {
  return { result: null, changes: {}, comment };
}

function toWireMap(values: Readonly<Record<string, PlainData>>): WireMap {
  const map: WireMap = {};
  for (const [name, value] of Object.entries(values)) {
    if (!name.startsWith('__')) map[name] = toWire(value);
  }
  return map;
}

/** Keywords in one map. */
export function mapOf(value: PlainData | undefined): WireMap {
  return value instanceof Map
    ? toWireMap(Object.fromEntries(Array.from(value, ([name, one]) => [textOf(name), one])))
    : {};
}

function listOf(value: PlainData | undefined): WireValue[] {
  return isList(value) ? value.map(toWire) : [];
}
