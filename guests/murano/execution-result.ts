/** Results of execution plans, in the envelope that Murano's engine reads. */

import { randomBytes } from 'node:crypto';
import { type CommandOutcome, isPlainMap } from '#heat-bridge';
import { resultOfRun } from '../run-result.ts';
import { ExecutionPlanError, errorCodes, type ScriptCall } from './execution-plan.ts';

/** Result of an execution plan. */
export interface ExecutionResult {
  readonly FormatVersion: '2.0.0';
  readonly ID: string;
  readonly SourceID: string;
  readonly Action: 'Execution:Result';
  readonly ErrorCode: number;
  readonly Body: unknown;
  readonly Time: string;
}

/**
 * Creates the result of a successful execution plan.
 * @param now - milliseconds since 1970
 */
export function executionResult(id: string, body: unknown, now: number): ExecutionResult {
  return envelope(id, 0, body, now);
}

/**
 * Creates the result of an execution plan that was rejected or failed.
 * @param error - the reason
 */
export function executionError(
  id: string,
  error: ExecutionPlanError,
  now: number,
): ExecutionResult {
  const { errorCode, message, additionalInfo } = error;
  return envelope(id, errorCode, { Message: message, AdditionalInfo: additionalInfo }, now);
}

function envelope(id: string, code: number, body: unknown, now: number): ExecutionResult {
  return {
    FormatVersion: '2.0.0',
    ID: randomBytes(16).toString('hex'),
    SourceID: id,
    Action: 'Execution:Result',
    ErrorCode: code,
    Body: body,
    Time: timeText(now),
  };
}

/** Formats a time in UTC as Python does: with microseconds, unless they are zero. */
function timeText(now: number): string {
  const [date = '', time = ''] = new Date(now).toISOString().slice(0, -1).split('T');
  const [seconds = '', fraction = '000'] = time.split('.');
  return fraction === '000' ? `${date} ${seconds}` : `${date} ${seconds}.${fraction}000`;
}

/**
 * Returns the value that the body of the execution plan returns: one field of the script's result,
 * or a map of all fields.
 * @throws ExecutionPlanError if the script failed
 */
export function bodyOfOutcome(call: Omit<ScriptCall, 'source'>, outcome: CommandOutcome): unknown {
  const { exitCode, stdout, stderr } = processOf(outcome);
  const { captureStdout, captureStderr, verifyExitcode } = call.options;
  const parts = {
    exitCode,
    stdout: captureStdout ? textOrNull(stdout) : null,
    stderr: captureStderr ? textOrNull(stderr) : null,
  };
  if (exitCode !== 0 && verifyExitcode) {
    const message = `Script ${call.name} returned error code`;
    throw new ExecutionPlanError(errorCodes.script, message, parts);
  }
  return call.member === undefined ? parts : parts[call.member];
}

/**
 * Returns standard output, standard error and exit code, if the function returned them as
 * `cmd.run_all` does. Any other return becomes the standard output.
 */
function processOf(outcome: CommandOutcome): {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
} {
  const { end, stdout, stderr, statusCode } = resultOfRun(outcome, [], undefined);
  if (end === 'unknown') throw new ExecutionPlanError(errorCodes.failure, stderr);
  const [result] = outcome.results;
  const value = result?.return;
  if (!isPlainMap(value) || typeof value.stdout !== 'string' || typeof value.stderr !== 'string') {
    return { exitCode: statusCode, stdout, stderr };
  }
  const own = Number.isInteger(value.retcode) ? Number(value.retcode) : 0;
  return { exitCode: own === 0 ? statusCode : own, stdout: value.stdout, stderr: value.stderr };
}

function textOrNull(text: string): string | null {
  const stripped = text.trim();
  return stripped === '' ? null : stripped;
}
