/** Implements `module.run`, the state that calls functions of templates [salt/states/module.py]. */

import type { WireMap } from '#minion-protocol';
import { type PlainData, plainResult } from '#template';
import type { NamedData } from '../render/asked-functions.ts';
import { isList, isPillarMap } from '../render/pillar-data.ts';
import { textOf, toWire } from '../render/pillar-wire.ts';
import { insteadOfFunction } from '../render/unserved-functions.ts';
import type { MasterFunctions } from './master-functions.ts';
import { beginOnce, type StateCall, type StateFunction } from './state-function.ts';
import { failed, type Outcome, untouched } from './state-result.ts';

/** A function with its arguments. */
interface ModuleCall {
  readonly fun: string;
  readonly args: readonly PlainData[];
  readonly kwargs: NamedData;
}

export function moduleRun(functions: MasterFunctions): StateFunction {
  return {
    takesMore: true,
    call: (call) => {
      const isNewStyle = call.given.size > 0 && [...call.given.keys()].every(isFunctionName);
      return isNewStyle ? runAll(call, functions) : runNamed(call, functions);
    },
  };
}

/**
 * Whether an argument names a function. A colon and any suffix may follow the name, so that a list
 * can contain a function twice.
 */
function isFunctionName(name: string): boolean {
  return name.includes('.');
}

/** Runs a state that lists its functions, such as `- network.ip_addrs: [{interface: eth0}]`. */
async function runAll(call: StateCall, functions: MasterFunctions): Promise<Outcome> {
  const calls = Array.from(call.given, ([key, args]) => ({ key, ...argumentsOf(key, args) }));
  const missing = calls.filter(({ fun }) => !functions.has(fun));
  if (missing.length > 0) return failed(missing.map(({ fun }) => unavailable(fun)).join(' '));
  const names = calls.map(({ fun }) => fun).join(', ');
  if (call.test)
    return untouched(`Function${calls.length > 1 ? 's' : ''} ${names} to be executed.`);
  await beginOnce(call.step, names);
  const changes: WireMap = Object.create(null);
  const [failures, successes]: [string[], string[]] = [[], []];
  for (const { key, ...one } of calls) {
    const { value, problem } = await tryCall(functions, one);
    if (problem !== undefined) failures.push(`'${key}' failed: ${problem}`);
    else if (hasFailed(value)) failures.push(failureText(key, value));
    else {
      changes[key] = toWire(value);
      successes.push(
        `${key}: ${commentOf(value) ?? (isPillarMap(value) ? 'Success' : textOf(value))}`,
      );
    }
  }
  const comment = [...failures, ...successes].join(', ');
  return { result: failures.length === 0, changes, comment };
}

/**
 * Runs a state whose `name` is the function to call, such as `name: test.ping`. All other arguments
 * of the state are passed to the function.
 */
async function runNamed(call: StateCall, functions: MasterFunctions): Promise<Outcome> {
  const { name: fun, given } = call;
  if (!functions.has(fun)) return failed(unavailable(fun));
  if (call.test) return untouched(`Module function ${fun} is set to execute`);
  const { args, kwargs, ...named } = Object.fromEntries(given);
  const entries = Object.entries(named).map(([key, value]) => [key.replace(/^m_/, ''), value]);
  const more = isPillarMap(kwargs) ? [...kwargs].map(([key, value]) => [textOf(key), value]) : [];
  await beginOnce(call.step, fun);
  const { value, problem } = await tryCall(functions, {
    fun,
    args: isList(args) ? args : [],
    kwargs: Object.fromEntries([...entries, ...more]),
  });
  if (problem !== undefined) {
    return failed(`Module function ${fun} threw an exception. Exception: ${problem}`);
  }
  const comment = `Module function ${fun} executed`;
  return { result: !hasFailed(value), changes: { ret: toWire(value) }, comment };
}

/**
 * Splits the arguments of a function into positional and keyword arguments. Maps in the list are
 * keyword arguments [salt/utils/functools.py call_function].
 * @param key - name of the function, to which a colon and a suffix may be appended
 * @param given - arguments of the function: a list, one value, or `null`
 */
function argumentsOf(key: string, given: PlainData): ModuleCall {
  const [fun = ''] = key.split(':', 1);
  const list = isList(given) ? given : given === null ? [] : [given];
  const keywords = list.filter(isPillarMap).flatMap((one) => [...one]);
  return {
    fun,
    args: list.filter((one) => !isPillarMap(one)),
    kwargs: Object.fromEntries(keywords.map(([name, value]) => [textOf(name), value])),
  };
}

async function tryCall(
  functions: MasterFunctions,
  { fun, args, kwargs }: ModuleCall,
): Promise<{ readonly value: PlainData; readonly problem: string | undefined }> {
  try {
    const value = plainResult(await functions.get(fun)?.(args, kwargs));
    return { value, problem: undefined };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { value: null, problem: error.message };
  }
}

function unavailable(fun: string): string {
  return `The function ${fun} is not served on the master: ${insteadOfFunction(fun)}; see docs/orchestration.md.`;
}

function failureText(key: string, value: PlainData): string {
  if (!isPillarMap(value)) return `'${key}': ${textOf(value)}`;
  return `'${key}' failed: ${commentOf(value) ?? '(error message N/A)'}`;
}

function commentOf(value: PlainData): string | undefined {
  const comment = isPillarMap(value) ? value.get('comment') : undefined;
  return comment === undefined ? undefined : textOf(comment);
}

/** Whether a result reports a failure [salt/states/module.py _get_result]. */
function hasFailed(value: PlainData): boolean {
  if (!isPillarMap(value)) return value === false;
  return [...value].some(([key, one]) => {
    if (key === 'result' && one === false) return true;
    if (key === 'retcode' && one !== 0) return true;
    return isPillarMap(one) && hasFailed(one);
  });
}
