/** Result of a deployment for Heat: standard output, standard error, status code and outputs. */

import {
  type CommandOutcome,
  type CommandResult,
  isPlainMap,
  maxResultBytes,
  type ResultDestination,
  states,
} from '#heat-bridge';
import { numberOf, type WireValue } from '#minion-protocol';
import { writeJson } from '#runtime';
import { labelsOf } from './cfn-init/states-command.ts';
import type { DeploymentCall } from './deployments/resolved-call.ts';
import { readScriptOutput } from './script-wrapper.ts';

const { reportOfStates } = states;

/**
 * Final state of a deployment. `refused`: nothing ran. `unknown`: it is not known whether it ran or
 * succeeded.
 */
export type DeploymentEnd = 'failed' | 'refused' | 'succeeded' | 'unknown';

/** Result of a deployment, before it is truncated to the transport's limit. */
export interface DeploymentResult {
  readonly end: DeploymentEnd;
  readonly stdout: string;
  readonly stderr: string;
  readonly statusCode: number;
  readonly outputs: Readonly<Record<string, unknown>>;
}

/** Returns the result of a deployment that did not run, or whose outcome is unknown. */
export function failedResult(end: 'refused' | 'unknown', reason: string): DeploymentResult {
  return { end, stdout: '', stderr: `${end}: ${reason}`, statusCode: 1, outputs: {} };
}

/**
 * Returns the result of a run on one minion.
 * @param names - names of the declared outputs
 * @param call - call of the deployment, which determines how the return of the minion is
 * interpreted; `undefined` for a command of the catalog
 */
export function resultOfRun(
  { status, results, jids }: CommandOutcome,
  names: readonly string[],
  call: DeploymentCall | undefined,
): DeploymentResult {
  const [result] = results;
  if (result === undefined)
    return failedResult('unknown', 'the run contains no result of the minion');
  const { state, reason = '' } = result;
  if (state === 'succeeded' || state === 'failed') {
    if (call?.kind === 'states') return resultOfStates(result, labelsOf(call.params));
    const text = call?.kind === 'code' ? call.params.code : undefined;
    const code = typeof text === 'string' ? text : undefined;
    return resultOfReturn({ ...result, jid: jids.at(-1) }, names, code);
  }
  const why = status === 'timeout' ? 'the command timed out before the minion returned' : reason;
  return failedResult('unknown', `${why}; it is unknown whether the command ran`);
}

/** Returns the result of applied states. It is a success only if every state was applied. */
function resultOfStates(
  { state, return: value }: CommandResult,
  labels: Readonly<Record<string, string>>,
): DeploymentResult {
  const { isSuccess, stdout, stderr } = reportOfStates(value, labels);
  const isApplied = isSuccess && state === 'succeeded';
  return {
    end: isApplied ? 'succeeded' : 'failed',
    stdout,
    stderr,
    statusCode: isApplied ? 0 : 1,
    outputs: {},
  };
}

function resultOfReturn(
  {
    state,
    return: value,
    retcode,
    reason,
    jid,
  }: CommandResult & { readonly jid?: string | undefined },
  names: readonly string[],
  code: string | undefined,
): DeploymentResult {
  const own = isPlainMap(value) ? value.retcode : undefined;
  const isSuccess = state === 'succeeded' && (code === undefined || own === 0);
  const { stdout, stderr, found } = partsOf(value, code);
  const known: Readonly<Record<string, unknown>> = {
    result: value,
    retcode,
    // heat-agents use these names for the outputs of the group `salt`.
    return: value,
    ...(jid === undefined ? {} : { jid }),
    ...found,
  };
  const outputs = Object.fromEntries(
    names.flatMap((name) => (Object.hasOwn(known, name) ? [[name, known[name]]] : [])),
  );
  const statusCode = isSuccess ? 0 : failureCode(value, retcode);
  const why = isSuccess || reason === undefined ? [] : [reason];
  return {
    end: isSuccess ? 'succeeded' : 'failed',
    stdout,
    stderr: [...why, stderr, ...(isSuccess || stderr !== '' ? [] : [stdout])]
      .filter((it) => it !== '')
      .join('\n'),
    statusCode,
    outputs,
  };
}

/**
 * Splits a minion's return into standard output, standard error, and the map that may contain
 * outputs (`found`). If the return lacks the texts `stdout` and `stderr` of `cmd.run_all`, the
 * whole return becomes the standard output.
 * @param code - shell code that the minion ran, or `undefined` if it ran none. With shell code, the
 * minion's `stdout` also contains the outputs of the script, and this function separates them
 */
function partsOf(
  value: WireValue | undefined,
  code: string | undefined,
): {
  readonly stdout: string;
  readonly stderr: string;
  readonly found: Readonly<Record<string, unknown>>;
} {
  if (!isPlainMap(value)) return { stdout: textOf(value), stderr: '', found: {} };
  const { stdout, stderr } = value;
  if (typeof stdout !== 'string' || typeof stderr !== 'string') {
    return { stdout: textOf(value), stderr: '', found: value };
  }
  if (code === undefined) return { stdout, stderr, found: value };
  const read = readScriptOutput(code, stdout);
  return { stdout: read.stdout, stderr, found: read.outputs };
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : writeJson(value);
}

function failureCode(value: unknown, retcode: unknown): number {
  const own = isPlainMap(value) ? value.retcode : undefined;
  const codes = [own, retcode].map(numberOf);
  return codes.find((it) => Number.isInteger(it) && it !== 0) ?? 1;
}

/**
 * Returns the request body with the result. If it exceeds the transport's limit, the result is
 * truncated and a note is added.
 * @param id - id of the deployment, which makes each body unique; Heat ignores it
 */
export function answerBody(
  id: string,
  result: DeploymentResult,
  transport: ResultDestination['transport'],
): string {
  const limit = maxResultBytes(transport);
  const whole = bodyOf(id, result);
  if (Buffer.byteLength(whole) <= limit) return whole;
  for (let share = 1 / 4; share > 1 / 4096; share /= 2) {
    const cut = bodyOf(id, cutResult(result, Math.floor(limit * share)));
    if (Buffer.byteLength(cut) <= limit) return cut;
  }
  const { end, statusCode } = result;
  const stderr = 'cut: the result exceeds the size limit of the transport';
  return bodyOf(id, { end, statusCode, stdout: '', stderr, outputs: {} });
}

function bodyOf(id: string, { stdout, stderr, statusCode, outputs }: DeploymentResult): string {
  return writeJson({
    ...outputs,
    deploy_stdout: stdout,
    deploy_stderr: stderr,
    deploy_status_code: statusCode,
    saltbridge_deployment: id,
  });
}

/**
 * Truncates the standard output, the standard error and each output of a result.
 * @param length - maximum length of each of them, in characters
 */
function cutResult(result: DeploymentResult, length: number): DeploymentResult {
  const outputs = Object.fromEntries(
    Object.entries(result.outputs).map(([name, value]) => {
      const text = typeof value === 'string' ? value : writeJson(value ?? null);
      return [name, text.length <= length ? value : cutEnd(text, length)];
    }),
  );
  const stdout = cutStart(result.stdout, length);
  const stderr = cutStart(result.stderr, length);
  return { ...result, stdout, stderr, outputs };
}

/**
 * Truncates a text at its start, because the end of a program's output is the most relevant part.
 */
function cutStart(text: string, length: number): string {
  if (text.length <= length) return text;
  return `[cut: the last ${length} of ${text.length} characters]\n${text.slice(-length)}`;
}

function cutEnd(text: string, length: number): string {
  return `${text.slice(0, length)}\n[cut: the first ${length} of ${text.length} characters]`;
}
