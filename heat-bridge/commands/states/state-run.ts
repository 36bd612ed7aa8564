/** Has a minion apply states, and reads what it returns. */

import { isPlainMap, type MinionCall } from '../command-definition.ts';

/** The key below that of the run, in the minion's own pillar. */
export const statesKey = 'states';

/** The function that applies them. */
export const statesFunction = 'state.template_str';

/**
 * The publication, which all minions can read, only says where the states are: in the pillar of the
 * minions that they are for. `#!py` because it reads values as values; no other renderer sees them.
 * @param reference - hexadecimal digits
 */
export function applyStatesCall(reference: string): MinionCall {
  const tem = [
    '#!py',
    'def run():',
    `    states = __salt__["pillar.get"]("saltbridge:secrets:${reference}:${statesKey}")`,
    '    if not states:',
    '        raise Exception("the states of this run are not in the pillar any more")',
    '    return states',
    '',
  ].join('\n');
  return { fun: statesFunction, kwarg: { tem, queue: true } };
}

/** What became of states, for people. */
export interface StatesReport {
  readonly isSuccess: boolean;
  /** What was done, one state a line, and what commands wrote. */
  readonly stdout: string;
  /** What failed, and why. */
  readonly stderr: string;
}

/** @param labels - of all states, by id, in their order */
export function reportOfStates(
  value: unknown,
  labels: Readonly<Record<string, string>>,
): StatesReport {
  if (!isPlainMap(value)) {
    // Why the states could not be read, or that others are being applied.
    const problems = Array.isArray(value) ? value.map(String).join('\n') : String(value ?? '');
    return { isSuccess: false, stdout: '', stderr: problems || 'the minion returned no states' };
  }
  const results = new Map<unknown, Readonly<Record<string, unknown>>>();
  for (const result of Object.values(value)) {
    if (isPlainMap(result)) results.set(result.__id__, result);
  }
  const done: string[] = [];
  const failed: string[] = [];
  for (const [id, label] of Object.entries(labels)) {
    const result = results.get(id);
    if (result === undefined) {
      done.push(`${label}: not applied`);
    } else if (result.result === true) {
      done.push(
        `${label}: ${isChanged(result) ? 'changed' : 'unchanged'}${outputOf(result, 'stdout')}`,
      );
    } else {
      done.push(`${label}: failed${outputOf(result, 'stdout')}`);
      failed.push(`${label}: ${String(result.comment ?? '')}${outputOf(result, 'stderr')}`);
    }
  }
  const isWhole = Object.keys(labels).every((id) => results.get(id)?.result === true);
  const reasons = isWhole || failed.length > 0 ? failed : ['the minion did not apply all states'];
  return { isSuccess: isWhole, stdout: done.join('\n'), stderr: reasons.join('\n') };
}

/** Why states were not all applied; `undefined`: they were. */
export function problemOfStates(value: unknown): string | undefined {
  const results = isPlainMap(value) ? Object.values(value) : [];
  if (results.length === 0) return 'the minion returned no states';
  const failed = results.find((it) => !isPlainMap(it) || it.result !== true);
  return failed === undefined ? undefined : 'a state was not applied';
}

function isChanged({ changes }: Readonly<Record<string, unknown>>): boolean {
  return isPlainMap(changes) && Object.keys(changes).length > 0;
}

function outputOf(
  { changes }: Readonly<Record<string, unknown>>,
  stream: 'stderr' | 'stdout',
): string {
  const text = isPlainMap(changes) ? changes[stream] : undefined;
  return typeof text === 'string' && text !== '' ? `\n${text}` : '';
}
