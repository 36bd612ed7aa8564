/** `salt.function`: a function on minions [salt/states/saltmod.py]. */

import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { isList } from '../render/pillar-data.ts';
import { textOf, toWire } from '../render/pillar-wire.ts';
import { type JobAnswers, jobArguments, readFailMinions, runOnMinions } from './minion-job.ts';
import type { OrchestrationContext } from './orchestration-context.ts';
import { isTrue, SlsError, type StateCall, type StateFunction } from './state-function.ts';
import type { Outcome } from './state-result.ts';

export function saltFunction(context: OrchestrationContext): StateFunction {
  return {
    required: ['tgt'],
    optional: [...jobArguments, 'fail_function', 'arg', 'kwarg'],
    takesMore: true,
    call: async (call) => {
      const { given, name } = call;
      if (isTrue(given.get('fail_function'))) throw new SlsError('fail_function is not served');
      if (call.test) {
        const comment = `Function ${name} would be executed on target ${textOf(given.get('tgt') ?? null)}`;
        return { result: null, changes: {}, comment };
      }
      const { arg, warnings } = readArguments(call);
      const expectsAll = isTrue(given.get('expect_minions'));
      const work = { fun: name, arg, kwarg: functionKeywords(call), expectsAll };
      return saltFunctionOutcome(
        call,
        await runOnMinions(context, call, 'function', work),
        warnings,
      );
    },
  };
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
  throw new SlsError('kwarg is not a dictionary');
}

function saltFunctionOutcome(
  call: StateCall,
  { answers, jid, warnings: ofJob }: JobAnswers,
  given: readonly string[],
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
    return hasFailed || (value === false && !mayFail.has(id));
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
