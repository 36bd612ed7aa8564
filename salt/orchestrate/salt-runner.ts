/** Implements `salt.runner` and `salt.wheel`: functions of the master [salt/states/saltmod.py]. */

import type { FunctionResult } from '#master';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { inTime } from '#runtime';
import type { PlainData } from '#template';
import { isList } from '../render/pillar-data.ts';
import { textOf, toWire } from '../render/pillar-wire.ts';
import type { BegunWork } from './journal.ts';
import { fireArguments, type OrchestrationContext, requester } from './orchestration-context.ts';
import { beginOnce, type StateCall, type StateFunction } from './state-function.ts';
import { type Outcome, untouched } from './state-result.ts';

/**
 * Runners that start a nested orchestration. Its events have the jid of the outer orchestration.
 */
const orchestrations: ReadonlySet<string> = new Set([
  'state.orchestrate',
  'state.orch',
  'state.sls',
]);

export function saltRunner(context: OrchestrationContext): StateFunction {
  return {
    takesMore: true,
    call: async (call) => {
      if (call.test) return untouched(`Runner function '${call.name}' would be executed.`);
      const { arg, kwarg, ...more } = Object.fromEntries(call.given);
      const given = { arg: listOf(arg), kwarg: { ...mapOf(kwarg), ...toWireMap(more) } };
      return masterFunctionOutcome(
        'Runner',
        call,
        await runRunner(context, call, { fun: call.name, ...given }),
      );
    },
  };
}

export function saltWheel(context: OrchestrationContext): StateFunction {
  return {
    takesMore: true,
    call: async (call) => {
      const { name } = call;
      if (call.test) return untouched(`Wheel function '${name}' would be executed.`);
      const kwarg = toWireMap(Object.fromEntries(call.given));
      return masterFunctionOutcome(
        'Wheel',
        call,
        await runWheel(context, call, { name, arg: [], kwarg }),
      );
    },
  };
}

/**
 * Runs a wheel function [salt/modules/saltutil.py wheel].
 * @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS
 */
export async function runWheel(
  context: OrchestrationContext,
  { step, saltenv }: Pick<StateCall, 'step' | 'saltenv'>,
  {
    name,
    arg,
    kwarg,
  }: { readonly name: string; readonly arg: readonly WireValue[]; readonly kwarg: WireMap },
): Promise<FunctionResult> {
  const given: WireMap = { ...kwarg };
  if (context.wheel.declares(name, 'saltenv')) given.saltenv = saltenv;
  const begun = await beginOnce(step, name);
  fireArguments(context, { type: 'wheel', name, args: given });
  const call = { fun: name, arg, kwarg: given, ...jidOf(begun), ...requester(context) };
  return ended(context, context.wheel.run(call));
}

/** A runner with its arguments. */
interface RunnerCall {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: WireMap;
}

/**
 * Runs a runner [salt/modules/saltutil.py runner].
 * @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS
 */
export async function runRunner(
  context: OrchestrationContext,
  { step, saltenv }: Pick<StateCall, 'step' | 'saltenv'>,
  { fun, arg, kwarg }: RunnerCall,
): Promise<FunctionResult> {
  const { runners, jid } = context;
  const given: WireMap = { ...kwarg };
  if (runners.declares(fun, 'saltenv')) given.saltenv = saltenv;
  if (orchestrations.has(fun) && jid !== undefined) given.orchestration_jid = jid;
  // If a nested orchestration was interrupted, it continues after its last finished step.
  const begun = orchestrations.has(fun) ? await step?.begin() : await beginOnce(step, fun);
  fireArguments(context, { type: 'runner', name: fun, args: [...arg], kwargs: given });
  // The operator wrote the files of the orchestration, so its runners have all rights.
  const requireWheel = async (): Promise<void> => {};
  const origin = { ...requester(context), requesterJobs: context.jobs, requireWheel };
  const call = { fun, arg, kwarg: given, ...jidOf(begun), ...origin };
  return ended(context, runners.run(call, { isResumed: begun?.wasBegun === true }));
}

function jidOf(begun: BegunWork | undefined): { readonly jid?: string } {
  return begun === undefined ? {} : { jid: begun.jid };
}

/**
 * Waits until the function has ended, or until the orchestration's abort signal is aborted.
 * @throws the reason of the signal, if it is aborted first
 */
async function ended(
  { signal }: OrchestrationContext,
  work: Promise<FunctionResult>,
): Promise<FunctionResult> {
  const result = await inTime(work, signal);
  if (result !== undefined) return result;
  signal.throwIfAborted();
  throw new TypeError('internal error: a runner or wheel function ended without a result');
}

function masterFunctionOutcome(
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

function toWireMap(values: Readonly<Record<string, PlainData>>): WireMap {
  const map: WireMap = {};
  for (const [name, value] of Object.entries(values)) {
    if (!name.startsWith('__')) map[name] = toWire(value);
  }
  return map;
}

/** Converts keyword arguments to a wire map. */
export function mapOf(value: PlainData | undefined): WireMap {
  return value instanceof Map
    ? toWireMap(Object.fromEntries(Array.from(value, ([name, one]) => [textOf(name), one])))
    : {};
}

function listOf(value: PlainData | undefined): WireValue[] {
  return isList(value) ? value.map(toWire) : [];
}
