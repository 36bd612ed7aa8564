/**
 * Implements `salt.state`: SLS files, a top file or a highstate on minions
 * [salt/states/saltmod.py].
 */

import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { isList } from '../render/pillar-data.ts';
import { textOf, toWire } from '../render/pillar-wire.ts';
import {
  type Answer,
  type JobAnswers,
  jobArguments,
  membersOf,
  readFailMinions,
  runOnMinions,
} from './minion-job.ts';
import type { OrchestrationContext } from './orchestration-context.ts';
import { isTrue, type StateCall, type StateFunction, textGiven } from './state-function.ts';
import { failed, isSuccess, type Outcome } from './state-result.ts';

const own: readonly string[] = [
  'highstate',
  'sls',
  'top',
  'saltenv',
  'test',
  'pillar',
  'pillarenv',
  'exclude',
  'allow_fail',
  'concurrent',
  'queue',
  'orchestration_jid',
];

export function saltState(context: OrchestrationContext): StateFunction {
  return {
    required: ['tgt'],
    optional: [...jobArguments, ...own],
    takesMore: true,
    call: async (call) => {
      const { given } = call;
      const mayFailCount = numberOf(call);
      if (mayFailCount === undefined) {
        return failed("Passed invalid value for 'allow_fail', must be an int");
      }
      const what = whatIsRun(call);
      if (what === undefined) return failed('No highstate or sls specified, no execution made');
      if (typeof (given.get('concurrent') ?? false) !== 'boolean') {
        return failed("Must pass in boolean for value of 'concurrent'");
      }
      const expectsAll = isTrue(given.get('expect_minions') ?? true);
      const work = { ...what, kwarg: stateKeywords(call), expectsAll };
      const answered = await runOnMinions(context, call, 'state', work);
      if (answered.answers.size === 0 && expectsAll) return failed('No minions returned');
      return saltStateOutcome(call, answered, mayFailCount);
    },
  };
}

function numberOf({ given }: StateCall): number | undefined {
  const text = textOf(given.get('allow_fail') ?? 0);
  return /^[+-]?\d+$/.test(text) ? Number(text) : undefined;
}

function whatIsRun(
  call: StateCall,
): { readonly fun: string; readonly arg: readonly WireValue[] } | undefined {
  const sls = call.given.get('sls');
  if (isTrue(call.given.get('highstate'))) return { fun: 'state.highstate', arg: [] };
  const top = textGiven(call, 'top');
  if (top) return { fun: 'state.top', arg: [top] };
  if (!isTrue(sls)) return undefined;
  return { fun: 'state.sls', arg: [isList(sls) ? sls.map(textOf).join(',') : textOf(sls ?? '')] };
}

function stateKeywords({ given, test }: StateCall): WireMap {
  const kwarg: WireMap = {};
  const dry = given.get('test') ?? (test ? true : undefined);
  if (dry !== undefined) kwarg.test = toWire(dry);
  const pillar = given.get('pillar');
  if (isTrue(pillar)) kwarg.pillar = toWire(pillar ?? null);
  for (const name of ['pillarenv', 'saltenv', 'exclude']) {
    const value = given.get(name);
    if (value !== undefined && value !== null) kwarg[name] = toWire(value);
  }
  kwarg.queue = toWire(given.get('queue') ?? false);
  kwarg.concurrent = toWire(given.get('concurrent') ?? false);
  return kwarg;
}

function saltStateOutcome(
  call: StateCall,
  { answers, jid, warnings: ofJob }: JobAnswers,
  mayFailCount: number,
): Outcome {
  const { mayFail, warnings: own } = readFailMinions(call);
  const warnings = [...own, ...ofJob];
  const ret: WireMap = Object.create(null);
  const failures: string[] = [];
  const unchanged: string[] = [];
  for (const [id, answer] of answers) {
    if (!hasSucceeded(answer)) {
      if (!mayFail.has(id)) failures.push(id);
      ret[id] = answer.value ?? false;
    } else if (hasChanged(answer.value)) ret[id] = answer.value ?? false;
    else unchanged.push(id);
  }
  const updated = Object.keys(ret);
  const more: WireMap = {
    ...(warnings.length > 0 ? { warnings } : {}),
    ...(jid === undefined ? {} : { __jid__: jid }),
  };
  const changes: WireMap = updated.length > 0 ? { out: 'highstate', ret } : {};
  if (failures.length > mayFailCount) {
    const comment = `Run failed on minions: ${failures.join(', ')}`;
    return { result: false, changes, comment, more };
  }
  const comment = [
    'States ran successfully.',
    ...(updated.length > 0 ? [`Updating ${updated.join(', ')}.`] : []),
    ...(unchanged.length > 0 ? [`No changes made to ${unchanged.join(', ')}.`] : []),
  ].join(' ');
  const isDry = isTrue(call.given.get('test')) || call.test;
  return { result: isDry && updated.length > 0 ? null : true, changes, comment, more };
}

function hasSucceeded({ value }: Answer): boolean {
  return value !== undefined && isSuccess(value, true);
}

function hasChanged(value: WireValue | undefined): boolean {
  return membersOf(value).some((state) => {
    const changes = isWireMap(state) ? state.changes : undefined;
    return membersOf(changes).length > 0;
  });
}
