/** Implements `salt.function`: runs a function on minions [salt/states/saltmod.py]. */

import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { plainResult } from '#template';
import { isList } from '../render/pillar-data.ts';
import { fromWire, textOf, toWire } from '../render/pillar-wire.ts';
import { insteadOfFunction } from '../render/unserved-functions.ts';
import type { MasterFunctions } from './master-functions.ts';
import { type JobAnswers, jobArguments, readFailMinions, runOnMinions } from './minion-job.ts';
import type { OrchestrationContext } from './orchestration-context.ts';
import { isTrue, SlsError, type StateCall, type StateFunction } from './state-function.ts';
import { type Outcome, untouched } from './state-result.ts';

/**
 * Creates the state function `salt.function`.
 * @param functions - functions of the master that `fail_function` may name
 */
export function saltFunction(
  context: OrchestrationContext,
  functions: MasterFunctions,
): StateFunction {
  return {
    required: ['tgt'],
    optional: [...jobArguments, 'fail_function', 'arg', 'kwarg'],
    takesMore: true,
    call: async (call) => {
      const { given, name } = call;
      if (call.test) {
        const comment = `Function ${name} would be executed on target ${textOf(given.get('tgt') ?? null)}`;
        return untouched(comment);
      }
      const judge = judgeOf(call, functions);
      const { arg, warnings } = readArguments(call);
      const expectsAll = isTrue(given.get('expect_minions'));
      const work = { fun: name, arg, kwarg: functionKeywords(call), expectsAll };
      const answered = await runOnMinions(context, call, 'function', work);
      const rejected = await rejectedBy(judge, answered);
      return saltFunctionOutcome(call, answered, { warnings, rejected });
    },
  };
}

/**
 * Function that decides whether a minion succeeded. Its argument is the value that the minion
 * returned.
 */
type Judge = (value: WireValue) => Promise<boolean>;

/**
 * Returns the function that `fail_function` names, or `undefined` if the argument is not given.
 * @throws SlsError if the master does not serve the function
 */
function judgeOf({ given }: StateCall, functions: MasterFunctions): Judge | undefined {
  const name = given.get('fail_function');
  if (name === undefined || !isTrue(name)) return undefined;
  const fun = textOf(name);
  const judge = functions.get(fun);
  if (judge === undefined) {
    throw new SlsError(
      `the master cannot run the function ${fun} in \`fail_function\`: ${insteadOfFunction(fun)}; see docs/orchestration.md`,
    );
  }
  return async (value) => isTrue(plainResult(await judge([fromWire(value)], {})));
}

async function rejectedBy(
  judge: Judge | undefined,
  { answers }: JobAnswers,
): Promise<ReadonlySet<string>> {
  const rejected = new Set<string>();
  if (judge === undefined) return rejected;
  for (const [id, { value }] of answers) {
    if (value !== undefined && !(await judge(value))) rejected.add(id);
  }
  return rejected;
}

function readArguments({ given }: StateCall): {
  readonly arg: readonly WireValue[];
  readonly warnings: readonly string[];
} {
  const arg = given.get('arg') ?? [];
  if (typeof arg === 'string') {
    const warnings = ["Please specify 'arg' as a list of arguments."];
    return { arg: arg.split(/\s+/).filter(Boolean), warnings };
  }
  return { arg: (isList(arg) ? arg : [arg]).map(toWire), warnings: [] };
}

function functionKeywords({ given }: StateCall): WireMap {
  const kwarg = toWire(given.get('kwarg') ?? new Map());
  if (isWireMap(kwarg)) return kwarg;
  throw new SlsError('`kwarg` of salt.function must be a dictionary');
}

/**
 * Warnings about a job of `salt.function`, and the minions that have failed according to
 * `fail_function`.
 */
interface FunctionFindings {
  readonly warnings: readonly string[];
  /** Minions whose answers `fail_function` rejects. */
  readonly rejected: ReadonlySet<string>;
}

function saltFunctionOutcome(
  call: StateCall,
  { answers, jid, warnings: ofJob }: JobAnswers,
  { warnings: given, rejected }: FunctionFindings,
): Outcome {
  const { mayFail, warnings: own } = readFailMinions(call);
  const warnings = [...given, ...own, ...ofJob];
  const more: WireMap = {
    ...(warnings.length > 0 ? { warnings } : {}),
    ...(jid === undefined ? {} : { __jid__: jid }),
  };
  if (answers.size === 0) {
    return { result: false, changes: {}, comment: 'No minions responded', more };
  }
  const failed = [...answers].filter(([id, { value, hasFailed }]) => {
    if (value === undefined) return !mayFail.has(id);
    return hasFailed || ((value === false || rejected.has(id)) && !mayFail.has(id));
  });
  const ret: WireMap = Object.create(null);
  for (const [id, { value }] of answers) ret[id] = value ?? false;
  const ids = failed.map(([id]) => id).join(', ');
  const said =
    failed.length > 0
      ? `Running function ${call.name} failed on minions: ${ids}`
      : 'Function ran successfully.';
  const comment = `${said} Function ${call.name} ran on ${[...answers.keys()].join(', ')}.`;
  return { result: failed.length === 0, changes: { ret }, comment, more };
}
