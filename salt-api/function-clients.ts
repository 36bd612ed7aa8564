/** The clients `runner`, `runner_async`, `wheel` and `wheel_async`. */

import { type FunctionCall, MasterError, type UserApi } from '#master';
import { formatEventStamp, type WireMap, type WireValue } from '#minion-protocol';
import { longestTimerMs } from '#runtime';
import { masterForm } from './command-fields.ts';
import { SaltApiError } from './errors.ts';
import {
  argumentsOf,
  credentialFields,
  type Lowstate,
  omitFields,
  secondsOf,
  type WordReader,
} from './lowstate.ts';

interface FunctionClientDeps {
  readonly user: UserApi;
  /** Name of the caller. */
  readonly name: string;
  /** Time limit for a runner, in seconds (`rest_timeout`). */
  readonly timeout: number;
  /** Parses arguments of the caller. */
  readonly readWords: WordReader;
  /** Creates a jid for the response to a call that the master rejected. */
  readonly nextJid: () => string;
}

const ownFields = ['client', 'fun', 'arg', 'kwarg', 'full_return', ...credentialFields];

/**
 * Runs a runner and returns its value. If `full_return` is set, returns the event with the result
 * instead, as `{tag, data}`.
 */
export async function runRunner(
  { user, name, timeout, readWords }: FunctionClientDeps,
  low: Lowstate,
): Promise<WireValue> {
  const call = await toCall(low, readWords);
  try {
    const result = await withTimeout(secondsOf(low, 'timeout') ?? timeout, user.runners.run(call));
    if (low.full_return !== true) return result.return;
    const { jid, fun, success } = result;
    const event = {
      fun,
      jid,
      user: name,
      fun_args: functionArguments(call),
      _stamp: formatEventStamp(new Date()),
    };
    return { tag: `salt/run/${jid}/ret`, data: { ...event, return: result.return, success } };
  } catch (error) {
    return answerFor(error);
  }
}

/** Starts a runner and returns `{tag, jid}` of the call. */
export async function startRunner(
  { user, readWords }: FunctionClientDeps,
  low: Lowstate,
): Promise<WireMap> {
  const { tag, jid } = await user.runners.start(await toCall(low, readWords));
  return { tag, jid };
}

/**
 * Runs a wheel function and returns the event with its result, as `{tag, data}`, also if the
 * function failed.
 */
export async function runWheel(parts: FunctionClientDeps, low: Lowstate): Promise<WireMap> {
  const call = await toCall(low, parts.readWords);
  try {
    const { jid, return: value, success } = await parts.user.wheel.run(call);
    return wheelEvent(parts, call, { jid, return: value, success });
  } catch (error) {
    if (!(error instanceof MasterError) || !isAboutCall(error)) throw error;
    const text = `Exception occurred in wheel ${call.fun}: ${error.message}`;
    return wheelEvent(parts, call, { jid: parts.nextJid(), return: text, success: false });
  }
}

/** Starts a wheel function and returns `{tag, jid}` of the call. */
export async function startWheel(
  { user, readWords }: FunctionClientDeps,
  low: Lowstate,
): Promise<WireMap> {
  const { tag, jid } = await user.wheel.start(await toCall(low, readWords));
  return { tag, jid };
}

/**
 * Reads the call in a command. Its keyword arguments may be in `kwarg`, in further fields of the
 * command, or in `arg` as `name=value`.
 */
async function toCall(given: Lowstate, readWords: WordReader): Promise<FunctionCall> {
  const low = masterForm(given);
  const { timeout: _, ...more } = omitFields(low, ownFields);
  return { fun: low.fun, ...(await argumentsOf(low, readWords, more)), dropUnknown: true };
}

function wheelEvent(
  { name }: FunctionClientDeps,
  { fun }: FunctionCall,
  { jid, return: value, success }: { jid: string; return: WireValue; success: boolean },
): WireMap {
  const tag = `salt/wheel/${jid}`;
  const data = { fun: `wheel.${fun}`, jid, tag, user: name, _stamp: formatEventStamp(new Date()) };
  return { tag, data: { ...data, return: value, success } };
}

/**
 * Returns the positional values. If there are keyword arguments, a map of them is the last value.
 */
function functionArguments({ arg = [], kwarg = {} }: FunctionCall): WireValue[] {
  return Object.keys(kwarg).length === 0 ? [...arg] : [...arg, { ...kwarg }];
}

/**
 * Returns the text with which Salt responds to invalid arguments.
 * @throws `error` itself, if the arguments are not its cause
 */
function answerFor(error: unknown): WireValue {
  if (error instanceof MasterError && error.code === 'ERR_ARGS') {
    return `Passed invalid arguments: ${error.message}`;
  }
  throw error;
}

function isAboutCall({ code }: MasterError): boolean {
  return code === 'ERR_ARGS' || code === 'ERR_UNKNOWN_FUN' || code === 'ERR_NOT_SERVED';
}

/**
 * Waits for a runner, at most until the time limit. A runner that exceeds the limit continues to
 * run.
 * @throws SaltApiError ERR_HTTP_TIMEOUT
 */
async function withTimeout<T>(seconds: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new SaltApiError(
      'ERR_HTTP_TIMEOUT',
      `the runner did not end within ${seconds} s and is still running; use runner_async`,
    );
    timer = setTimeout(() => reject(error), Math.min(seconds * 1000, longestTimerMs));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
