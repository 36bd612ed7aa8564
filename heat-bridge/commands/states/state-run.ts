/** Creates the call that applies states on minions, and interprets its return. */

import { writeJson } from '#runtime';
import { isPlainMap, type MinionCall } from '../command-definition.ts';

/**
 * Key of the states in the minion's pillar, below `saltbridge:secrets:<reference to the run's
 * secrets>`.
 */
export const statesKey = 'states';

/** Salt function with which minions apply the states. */
export const statesFunction = 'state.template_str';

/**
 * Returns the function call that applies states. All minions can read a publication, but only the
 * addressed minions have the states in their pillar. The call therefore contains only the location
 * of the states in the pillar. The renderer `#!py` passes values unchanged.
 * @param reference - reference to the run's secrets, in hexadecimal digits
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

/** Report about the applied states, for users. */
export interface StatesReport {
  readonly isSuccess: boolean;
  /** Result of each state, one per line, with the output of commands. */
  readonly stdout: string;
  /** Failed states, with the reasons. */
  readonly stderr: string;
}

/**
 * Converts the return of a minion that has applied states to a report: whether all succeeded, and
 * texts for stdout and stderr.
 * @param labels - labels of all states by id, in the order of the states
 */
export function reportOfStates(
  value: unknown,
  labels: Readonly<Record<string, string>>,
): StatesReport {
  if (!isPlainMap(value)) {
    // The return is an error text, for example because the states cannot be parsed, or because
    // another run is in progress.
    const problems = (Array.isArray(value) ? value : [value]).map(textOf).join('\n');
    return {
      isSuccess: false,
      stdout: '',
      stderr: problems || 'the return of the minion contains no results of states',
    };
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
      failed.push(`${label}: ${textOf(result.comment)}${outputOf(result, 'stderr')}`);
    }
  }
  const isWhole = Object.keys(labels).every((id) => results.get(id)?.result === true);
  const reasons =
    isWhole || failed.length > 0 ? failed : ['the minion did not apply all states of the run'];
  return { isSuccess: isWhole, stdout: done.join('\n'), stderr: reasons.join('\n') };
}

/** Returns the reason why some states were not applied, or `undefined` if all were applied. */
export function problemOfStates(value: unknown): string | undefined {
  const results = isPlainMap(value) ? Object.values(value) : [];
  if (results.length === 0) return 'the return of the minion contains no results of states';
  const failed = results.find((it) => !isPlainMap(it) || it.result !== true);
  return failed === undefined ? undefined : 'the minion failed to apply at least one state';
}

/** Returns a text as it is, and any other value of a return as JSON. */
function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : writeJson(value);
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
