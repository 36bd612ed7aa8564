/** The clients `runner`, `runner_async`, `wheel` and `wheel_async`. */

import { type FunctionCall, MasterError, type UserApi } from '#master';
import { formatEventStamp, type WireMap, type WireValue } from '#minion-protocol';
import { longestTimerMs } from '#runtime';
import type { BodyReader } from './body.ts';
import { masterForm } from './command-fields.ts';
import { SaltApiError } from './errors.ts';
import { argumentsOf, credentialFields, type Lowstate, omitFields, secondsOf } from './lowstate.ts';

interface FunctionClientDeps {
  readonly user: UserApi;
  /** Name of whoever asks. */
  readonly name: string;
  /** Seconds that a runner has: `rest_timeout`. */
  readonly timeout: number;
  readonly bodies: Pick<BodyReader, 'readWords'>;
  /** For calls that were not begun. */
  readonly nextJid: () => string;
}

const ownFields = ['client', 'fun', 'arg', 'kwarg', 'full_return', ...credentialFields];

/** The runner's value; with `full_return` all of its event. */
export async function runRunner(
  { user, name, timeout, bodies }: FunctionClientDeps,
  low: Lowstate,
): Promise<WireValue> {
  const call = await toCall(low, bodies);
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

/** `{tag, jid}` of the call that goes on. */
export async function startRunner(
  { user, bodies }: FunctionClientDeps,
  low: Lowstate,
): Promise<WireMap> {
  const { tag, jid } = await user.runners.start(await toCall(low, bodies));
  return { tag, jid };
}

/** Always all of the event: what went wrong is an answer, too. */
export async function runWheel(parts: FunctionClientDeps, low: Lowstate): Promise<WireMap> {
  const call = await toCall(low, parts.bodies);
  try {
    const { jid, return: value, success } = await parts.user.wheel.run(call);
    return wheelEvent(parts, call, { jid, return: value, success });
  } catch (error) {
    if (!(error instanceof MasterError) || !isAboutCall(error)) throw error;
    const text = `Exception occurred in wheel ${call.fun}: ${error.message}`;
    return wheelEvent(parts, call, { jid: parts.nextJid(), return: text, success: false });
  }
}

/** `{tag, jid}` of the call that goes on. */
export async function startWheel(
  { user, bodies }: FunctionClientDeps,
  low: Lowstate,
): Promise<WireMap> {
  const { tag, jid } = await user.wheel.start(await toCall(low, bodies));
  return { tag, jid };
}

/** Keywords stand in `kwarg`, beside the command's own fields, or in `arg` as `name=value`. */
async function toCall(
  given: Lowstate,
  bodies: FunctionClientDeps['bodies'],
): Promise<FunctionCall> {
  const low = masterForm(given);
  const { timeout: _, ...more } = omitFields(low, ownFields);
  return { fun: low.fun, ...(await argumentsOf(low, bodies, more)), dropUnknown: true };
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

/** Positional values, then one map of keywords if there are any. */
function functionArguments({ arg = [], kwarg = {} }: FunctionCall): WireValue[] {
  return Object.keys(kwarg).length === 0 ? [...arg] : [...arg, { ...kwarg }];
}

/** Wrong arguments are told as a value. @throws what else it was */
function answerFor(error: unknown): WireValue {
  if (error instanceof MasterError && error.code === 'ERR_ARGS') {
    return `Passed invalid arguments: ${error.message}`;
  }
  throw error;
}

function isAboutCall({ code }: MasterError): boolean {
  return code === 'ERR_ARGS' || code === 'ERR_UNKNOWN_FUN' || code === 'ERR_NOT_SERVED';
}

/** @throws SaltApiError ERR_HTTP_TIMEOUT; the work goes on */
async function withTimeout<T>(seconds: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new SaltApiError('ERR_HTTP_TIMEOUT', `the runner took more than ${seconds} s`);
    timer = setTimeout(() => reject(error), Math.min(seconds * 1000, longestTimerMs));
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
