/**
 * The states that orchestrations may use, a closed table, and how their functions are called
 * [salt/utils/args.py format_call, salt/states/saltmod.py].
 */

import type { FunctionResult } from '#master';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { inTime, linkSignals, timeLimit } from '#runtime';
import type { PlainData } from '#template';
import { isList, isPillarMap, textOf, toWire } from '../render/pillar-data.ts';
import type { BegunWork } from './journal.ts';
import { failed, isSuccess, type Outcome } from './low-chunk.ts';
import {
  type Answer,
  type JobAnswers,
  jobArguments,
  membersOf,
  readFailMinions,
  runOnMinions,
} from './minion-job.ts';
import { fireArguments, type OrchestrationContext, requester } from './orchestration-context.ts';
import {
  beginOnce,
  isTrue,
  SlsError,
  type StateCall,
  type StateFunction,
  type StateTable,
  textGiven,
} from './state-function.ts';

// `salt.runner` and `salt.wheel`: functions of the master [salt/states/saltmod.py].

/** Functions that tell what they do under the orchestration that they are part of. */
const orchestrations: ReadonlySet<string> = new Set([
  'state.orchestrate',
  'state.orch',
  'state.sls',
]);

function saltRunner(context: OrchestrationContext): StateFunction {
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

function saltWheel(context: OrchestrationContext): StateFunction {
  return {
    takesMore: true,
    call: async (call) => {
      const { name, saltenv } = call;
      if (call.test) return untouched(`Wheel function '${name}' would be executed.`);
      const kwarg = toWireMap(Object.fromEntries(call.given));
      if (context.wheel.declares(name, 'saltenv')) kwarg.saltenv = saltenv;
      const begun = await beginOnce(call.step, name);
      fireArguments(context, { type: 'wheel', name, args: kwarg });
      const result = await ended(
        context,
        context.wheel.run({ fun: name, kwarg, ...jidOf(begun), ...requester(context) }),
      );
      return masterFunctionOutcome('Wheel', call, result);
    },
  };
}

/** A runner, and what it is called with. */
interface RunnerCall {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: WireMap;
}

/** [salt/modules/saltutil.py runner] @throws MasterError ERR_UNKNOWN_FUN, ERR_NOT_SERVED, ERR_ARGS */
async function runRunner(
  context: OrchestrationContext,
  { step, saltenv }: Pick<StateCall, 'step' | 'saltenv'>,
  { fun, arg, kwarg }: RunnerCall,
): Promise<FunctionResult> {
  const { runners, jid } = context;
  const given: WireMap = { ...kwarg };
  if (runners.declares(fun, 'saltenv')) given.saltenv = saltenv;
  if (orchestrations.has(fun) && jid !== undefined) given.orchestration_jid = jid;
  // A part goes on where it was.
  const begun = orchestrations.has(fun) ? await step?.begin() : await beginOnce(step, fun);
  fireArguments(context, { type: 'runner', name: fun, args: [...arg], kwargs: given });
  const call = { fun, arg, kwarg: given, ...jidOf(begun), ...requester(context) };
  return ended(context, runners.run(call, { isResumed: begun?.wasBegun === true }));
}

function jidOf(begun: BegunWork | undefined): { readonly jid?: string } {
  return begun === undefined ? {} : { jid: begun.jid };
}

/** Waits for no longer than the orchestration may take. @throws what its signal says */
async function ended(
  { signal }: OrchestrationContext,
  work: Promise<FunctionResult>,
): Promise<FunctionResult> {
  const result = await inTime(work, signal);
  if (result !== undefined) return result;
  signal.throwIfAborted();
  throw new TypeError('a function of the master returned nothing');
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
function mapOf(value: PlainData | undefined): WireMap {
  return value instanceof Map
    ? toWireMap(Object.fromEntries(Array.from(value, ([name, one]) => [textOf(name), one])))
    : {};
}

function listOf(value: PlainData | undefined): WireValue[] {
  return isList(value) ? value.map(toWire) : [];
}

// `salt.parallel_runners`: several runners at the same time [salt/states/saltmod.py].

/** What one of them runs. */
interface NamedRunner {
  readonly id: string;
  readonly fun: string;
  readonly kwarg: WireMap;
}

/** What it returned, and whether that is a failure. */
interface Returned {
  readonly id: string;
  readonly value: WireValue;
  readonly hasFailed: boolean;
}

function parallelRunners(context: OrchestrationContext): StateFunction {
  return {
    required: ['runners'],
    takesMore: true,
    call: async (call) => {
      const { given } = call;
      const runners = readRunners(given.get('runners') ?? null);
      if (runners === undefined) {
        const comment = 'The runners parameter must be a string or dict.';
        return { result: false, changes: {}, comment };
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

/** Of orchestrations what their states changed; of all others what they returned. */
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

// `salt.function`: a function on minions [salt/states/saltmod.py].

function saltFunction(context: OrchestrationContext): StateFunction {
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
  { answers, jid }: JobAnswers,
  given: readonly string[],
): Outcome {
  const { mayFail, warnings: own } = readFailMinions(call);
  const warnings = [...given, ...own];
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

// `salt.state`: SLS, a top file or a highstate on minions [salt/states/saltmod.py].

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

function saltState(context: OrchestrationContext): StateFunction {
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
  { answers, jid }: JobAnswers,
  mayFailCount: number,
): Outcome {
  const { mayFail, warnings } = readFailMinions(call);
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
    ...(warnings.length > 0 ? { warnings: [...warnings] } : {}),
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

// The `test` state, for trying requisites and for telling something [salt/states/test.py].

/** What a state says that pretends to change something. */
const pretended = (): WireMap => ({
  testing: { old: 'Unchanged', new: 'Something pretended to change' },
});

function testStates(): StateTable {
  const succeeds: StateFunction = {
    takesMore: true,
    call: (call) => ({
      result: true,
      changes: {},
      comment: textGiven(call, 'comment') ?? 'Success!',
    }),
  };
  return new Map<string, StateFunction>([
    [
      'test.nop',
      { takesMore: true, call: () => ({ result: true, changes: {}, comment: 'Success!' }) },
    ],
    ['test.succeed_without_changes', succeeds],
    ['test.succeed_with_changes', { takesMore: true, call: succeedWithChanges }],
    ['test.fail_without_changes', { takesMore: true, call: failWithoutChanges }],
    ['test.fail_with_changes', { takesMore: true, call: failWithChanges }],
    ['test.show_notification', { takesMore: true, call: showNotification }],
    ['test.configurable_test_state', { optional: configured, call: configurableTestState }],
    ['test.mod_watch', { takesMore: true, call: watchFired }],
  ]);
}

function succeedWithChanges(call: StateCall): Outcome {
  return call.test
    ? told(null, "If we weren't testing, this would be successful with changes")
    : told(true, textGiven(call, 'comment') ?? 'Success!');
}

function failWithChanges(call: StateCall): Outcome {
  return call.test
    ? told(null, "If we weren't testing, this would be failed with changes")
    : told(false, textGiven(call, 'comment') ?? 'Failure!');
}

function failWithoutChanges(call: StateCall): Outcome {
  const comment = call.test
    ? "If we weren't testing, this would be a failure!"
    : (textGiven(call, 'comment') ?? 'Failure!');
  return { result: false, changes: {}, comment };
}

function told(result: boolean | null, comment: string): Outcome {
  return { result, changes: pretended(), comment };
}

function showNotification({ given }: StateCall): Outcome {
  const text = given.get('text');
  if (text === undefined || !isTrue(text)) throw new SlsError('Missing required argument text.');
  return { result: true, changes: {}, comment: textOf(text) };
}

function watchFired(call: StateCall): Outcome {
  return {
    result: call.given.has('result') ? isTrue(call.given.get('result')) : true,
    changes: { 'Requisites with changes': [...call.changed] },
    comment: textGiven(call, 'comment') ?? 'Watch statement fired.',
  };
}

const configured = ['changes', 'result', 'comment', 'warnings', 'allow_test_mode_failure'];

function configurableTestState(call: StateCall): Outcome {
  const { given, test } = call;
  const changes = choice(call, 'changes') ? pretended() : {};
  const result = choice(call, 'result');
  const comment = textGiven(call, 'comment') ?? '';
  const warnings = warningsOf(call);
  const more = warnings.length === 0 ? {} : { more: { warnings } };
  if (!test) return { result, changes, comment, ...more };
  const mayFail = isTrue(given.get('allow_test_mode_failure')) && given.get('result') === false;
  const tested = given.get('changes') === false ? true : null;
  return {
    result: mayFail ? false : tested,
    changes,
    comment: comment === '' ? 'This is a test' : comment,
    ...more,
  };
}

function choice({ given }: StateCall, name: string): boolean {
  const value = given.get(name) ?? true;
  if (typeof value === 'boolean') return value;
  if (typeof value === 'string' && value.toLowerCase() === 'random') return Math.random() < 0.5;
  throw new SlsError(
    `You have specified the state option '${name}' with invalid arguments. It must be either ` +
      "True, False, or 'Random'",
  );
}

function warningsOf({ given }: StateCall): string[] {
  const warnings = given.get('warnings') ?? [];
  if (typeof warnings === 'string') return [warnings];
  if (isList(warnings)) return warnings.map(textOf);
  throw new SlsError(
    "You have specified the state option 'warnings' with invalid arguments. It must be a string " +
      'or a list of strings',
  );
}

// `salt.wait_for_event`: waits until each of a list was heard of [salt/states/saltmod.py].

/** Seconds. */
const defaultTimeout = 300;

function waitForEvent(context: OrchestrationContext): StateFunction {
  return {
    required: ['id_list'],
    optional: ['event_id', 'timeout', 'node'],
    call: (call) => {
      if (!call.test) return wait(context, call);
      const comment = `Orchestration would wait for event '${call.name}'`;
      return { result: null, changes: {}, comment };
    },
  };
}

async function wait(
  { events, signal, now }: OrchestrationContext,
  call: StateCall,
): Promise<Outcome> {
  const { at: startedAt, events: after } = (await call.step?.start(now(), events.position())) ?? {
    at: now(),
  };
  const missing = idsOf(call);
  const seen: string[] = [];
  const late = timeLimit(Math.max(0, startedAt + timeoutOf(call) - now()));
  const key = textGiven(call, 'event_id') ?? 'id';
  const request = { match: call.name, ...(after === undefined ? {} : { after }) };
  const end = linkSignals(signal, late.signal);
  try {
    for await (const { data } of await events.subscribe(request, end.signal)) {
      const found = identifiersIn(data, key);
      for (const id of [...missing].filter((one) => found.includes(one))) {
        missing.delete(id);
        seen.push(id);
      }
      if (missing.size > 0) continue;
      const comment = `All events seen in ${(now() - startedAt) / 1000} seconds.`;
      return { result: true, changes: { minions_seen: seen }, comment };
    }
    signal.throwIfAborted();
    const changes: WireMap = seen.length > 0 ? { minions_seen: seen } : {};
    return { result: false, changes, comment: 'Timeout value reached.' };
  } finally {
    late.clear();
    end.unlink();
  }
}

function idsOf({ given }: StateCall): Set<string> {
  const list = given.get('id_list') ?? [];
  return new Set((isList(list) ? list : [list]).map(textOf));
}

function timeoutOf({ given }: StateCall): number {
  const seconds = given.get('timeout') ?? defaultTimeout;
  return (typeof seconds === 'number' ? seconds : defaultTimeout) * 1000;
}

/** What an event says of who it is about: of the event itself, or within its `data`. */
function identifiersIn(data: WireMap, key: string): string[] {
  const inner = isWireMap(data.data) ? data.data[key] : undefined;
  const found: WireValue | undefined = data[key] ?? inner;
  if (found === undefined || found === null) return [];
  return (Array.isArray(found) ? found : [found]).map(String);
}

// The table.

export function stateTable(context: OrchestrationContext): StateTable {
  return new Map([
    ...testStates(),
    ['salt.function', saltFunction(context)],
    ['salt.state', saltState(context)],
    ['salt.runner', saltRunner(context)],
    ['salt.wheel', saltWheel(context)],
    ['salt.wait_for_event', waitForEvent(context)],
    ['salt.parallel_runners', parallelRunners(context)],
  ]);
}
