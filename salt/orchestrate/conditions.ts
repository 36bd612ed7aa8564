/**
 * Evaluates the conditions `onlyif` and `unless` of states. Conditions that are commands are
 * rejected [salt/state.py _run_check].
 */

import { traverseFacts, type WireMap } from '#minion-protocol';
import { type PlainData, plainResult, type SaltFunction } from '#template';
import { isList, isPillarMap, type PillarMap } from '../render/pillar-data.ts';
import { fromWire, textOf, toWire } from '../render/pillar-wire.ts';
import { isTrue, SlsError } from './state-function.ts';
import type { Outcome } from './state-result.ts';

/** Functions that conditions may call: the functions of templates. */
export type ConditionFunctions = Readonly<Record<string, SaltFunction>>;

/** Conditions that are rejected, because they would run a command or check a file on the master. */
const notServed: readonly string[] = ['creates', 'check_cmd'];

/**
 * Result of `onlyif` or `unless`. If `keeps` is true, the condition prevents the state from
 * running.
 */
interface Finding {
  readonly keeps: boolean;
  readonly comment: string;
}

/**
 * Evaluates the conditions of a state. If a condition prevents the state from running, returns the
 * state's outcome. Otherwise returns `undefined`.
 * @throws SlsError if a condition needs a command or an unknown function
 */
export function outcomeOfConditions(
  args: ReadonlyMap<string, PlainData>,
  functions: ConditionFunctions,
): Outcome | undefined {
  for (const name of notServed) {
    if (args.has(name))
      throw new SlsError(
        `the requisite ${name} is not supported, because this master runs no shell commands`,
      );
  }
  const onlyIf = args.get('onlyif');
  const unless = args.get('unless');
  const findings: Finding[] = [];
  if (onlyIf !== undefined) findings.push(judgeOnlyIf(listOf(onlyIf), functions));
  if (unless !== undefined) findings.push(judgeUnless(listOf(unless), functions));
  if (!findings.some(({ keeps }) => keeps)) return undefined;
  const comment = findings.map((finding) => finding.comment).join('\n');
  const more: WireMap = { skip_watch: true };
  return { result: true, changes: {}, comment, more };
}

/** Evaluates `onlyif`: the state runs only if all conditions are true. */
function judgeOnlyIf(conditions: readonly PlainData[], functions: ConditionFunctions): Finding {
  for (const condition of conditions) {
    const value = truthOf(condition, 'onlyif', functions);
    if (value === undefined) break;
    if (!value) return { keeps: true, comment: 'onlyif condition is false' };
  }
  return { keeps: false, comment: 'onlyif condition is true' };
}

/** Evaluates `unless`: the state does not run if all conditions are true. */
function judgeUnless(conditions: readonly PlainData[], functions: ConditionFunctions): Finding {
  let keeps = false;
  for (const condition of conditions) {
    const value = truthOf(condition, 'unless', functions);
    if (value === undefined) break;
    if (!value) return { keeps: false, comment: 'unless condition is false' };
    keeps = true;
  }
  return { keeps, comment: `unless condition is ${keeps}` };
}

/** Evaluates one condition. Returns `undefined` if it calls no function. */
function truthOf(
  condition: PlainData,
  kind: string,
  functions: ConditionFunctions,
): boolean | undefined {
  if (typeof condition === 'string') {
    throw new SlsError(
      `a command in ${kind} is not supported, because this master runs no shell commands`,
    );
  }
  if (!isPillarMap(condition) || !condition.has('fun')) return undefined;
  return isTrue(partOf(callOf(condition, functions), condition.get('get_return')));
}

function callOf(condition: PillarMap, functions: ConditionFunctions): PlainData {
  const name = textOf(condition.get('fun') ?? null);
  const found = Object.hasOwn(functions, name) ? functions[name] : undefined;
  if (found === undefined) throw new SlsError(`'${name}' is not available.`);
  const given = [...condition].filter(([key]) => !ownKeys.has(key));
  const value = found(
    listOf(condition.get('args') ?? []),
    Object.fromEntries(given.map(([key, one]) => [textOf(key), one])),
  );
  return plainResult(value);
}

const ownKeys: ReadonlySet<PlainData> = new Set(['fun', 'args', 'get_return']);

function partOf(value: PlainData, path: PlainData | undefined): PlainData {
  if (path === undefined || path === null) return value;
  const found = traverseFacts(toWire(value), textOf(path).split(':'));
  return found === undefined ? null : fromWire(found);
}

function listOf(value: PlainData): readonly PlainData[] {
  return isList(value) ? value : [value];
}
