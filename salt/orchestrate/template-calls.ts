/** Template functions of orchestrations that act on the master and on minions. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type RunRequest, returnerOf } from '#master';
import { plainNumber, type WireMap } from '#minion-protocol';
import type { PlainData } from '#template';
import type { AskedFunctions } from '../render/asked-functions.ts';
import { isGiven, takes, takesMore, text, textOr } from '../render/function-arguments.ts';
import { argumentsOf, keywordsOf, masterFunctions, wireOf } from '../render/master-functions.ts';
import { fromWire, textOf } from '../render/pillar-wire.ts';
import { type OrchestrationContext, requester } from './orchestration-context.ts';
import { runRunner, runWheel } from './salt-runner.ts';

/** Names of template functions that only orchestrations have. */
export const orchestrationCalls = ['saltutil.cmd', 'saltutil.wheel', 'test.sleep'] as const;

/** Maximum duration of `test.sleep`, in seconds. */
const maxSleepSeconds = 3600;

/**
 * Returns the functions that templates of one orchestration can call. The functions act with the
 * rights of the caller of the orchestration.
 */
export function templateCalls(context: OrchestrationContext, log: Logger): AskedFunctions {
  const place = { step: undefined, saltenv: 'base' };
  return {
    ...masterFunctions({
      runRunner: (call) => runRunner(context, place, call),
      log: (level, message) => log[level]({ jid: context.jid }, message),
    }),
    'saltutil.wheel': async ([name, ...args], kwargs) => {
      const fun = text(name, 'name');
      const call = { name: fun, arg: argumentsOf(args), kwarg: wireOf(kwargs) };
      const { jid, ...result } = await runWheel(context, place, call);
      const tag = `salt/wheel/${jid}`;
      return fromWire({ tag, data: { ...result, jid, tag, user: context.user } });
    },
    'test.sleep': takes(['length'], async ({ length = null }) => {
      const seconds = Math.trunc(Number(plainNumber(length)));
      if (Number.isNaN(seconds))
        throw new TypeError('the argument `length` must be a number of seconds');
      const bounded = Math.min(Math.max(seconds, 0), maxSleepSeconds);
      await sleep(bounded * 1000, undefined, { signal: context.signal });
      return true;
    }),
    'saltutil.cmd': takesMore(
      ['tgt', 'fun', 'arg', 'timeout', 'tgt_type', 'ret', 'kwarg', 'subset'],
      async (given, more) => {
        for (const name of Object.keys(more)) {
          throw new TypeError(`saltutil.cmd does not support the argument ${name}; remove it`);
        }
        return runOnMinions(context, given);
      },
    ),
  };
}

/** Runs a job on minions [salt/modules/saltutil.py _exec]. */
async function runOnMinions(
  context: OrchestrationContext,
  given: Readonly<Record<string, PlainData>>,
): Promise<PlainData> {
  const { tgt = null, ret } = given;
  const [timeout, subset] = [given.timeout, given.subset].map(plainNumber);
  const request: RunRequest = {
    tgt: Array.isArray(tgt) ? tgt.map(textOf) : textOf(tgt),
    tgtType: textOr(given.tgt_type, 'glob'),
    fun: text(given.fun, 'fun'),
    arg: argumentsOf(given.arg),
    kwarg: keywordsOf(given.kwarg),
    ...requester(context),
    ...(typeof timeout === 'number' ? { timeoutSeconds: timeout } : {}),
    ...(typeof subset === 'number' ? { subset } : {}),
    ...(isGiven(ret) && ret !== '' ? { ret: textOf(ret) } : {}),
  };
  const answers: WireMap = Object.create(null);
  for await (const update of context.jobs.run(request, context.signal)) {
    if (update.type === 'published' && update.minions.length > 0 && request.subset === undefined) {
      for (const name of update.missing) answers[name] = { failed: true };
    }
    if (update.type !== 'return') continue;
    const { return: value, retcode = 0, jid } = update;
    answers[returnerOf(update)] = { ret: value, retcode, jid };
  }
  context.signal.throwIfAborted();
  return fromWire(answers);
}
