/** Targets of users in calls of runners must not reveal pillar values piece by piece. */

import test from 'ava';
import type { AuditRequester, JobUpdate, RunRequest } from '#master';
import type { WireMap, WireValue } from '#minion-protocol';
import type { FunctionTable } from '#salt/functions/define-function.ts';
import { mineRunner } from '#salt/mine/mine-runner.ts';
import type { MinionCalls, RequesterTargets } from '#salt/minion-calls.ts';
import { manageRunner } from '#salt/runners/manage-runner.ts';
import { startVectorMaster } from '../../helpers/vector-master.ts';
import { keys } from '../../helpers/vectors.ts';

const user: AuditRequester = { who: { kind: 'user', name: 'eve', eauth: 'pam' }, rule: 'r' };
const minion: AuditRequester = { who: { kind: 'minion', name: 'web1' }, rule: 'r' };

const pillar = { secret: 'hunter2', deep: { word: 'hunter2' } };

/** Patterns that match the pillar of the minion, but do not equal its values. */
const patterns: readonly WireMap[] = [
  { tgt: 'secret:h*', tgt_type: 'pillar' },
  { tgt: 'secret:hunter[0-9]', tgt_type: 'pillar' },
  { tgt: 'deep:word:h*', tgt_type: 'pillar' },
  { tgt: 'secret:^h', tgt_type: 'pillar_pcre' },
  { tgt: 'I@secret:h*', tgt_type: 'compound' },
  { tgt: 'J@secret:^h', tgt_type: 'compound' },
  { tgt: 'N@holders', tgt_type: 'compound' },
  { tgt: 'holders', tgt_type: 'nodegroup' },
];

test('patterns of users and minions match no pillar value in a runner', async (t) => {
  const { master } = await startVectorMaster(t, {
    facts: { [keys.minionId]: { grains: { os: 'Debian' }, pillar } },
    config: { nodegroups: { holders: 'I@secret:h*' } },
  });
  const found = async (kwarg: WireMap, by: AuditRequester | undefined): Promise<WireValue> => {
    const call = { fun: 'cache.grains', kwarg, ...(by === undefined ? {} : { by }) };
    return (await master.runners.run(call)).return;
  };
  const grains = { [keys.minionId]: { os: 'Debian' } };
  for (const target of patterns) {
    for (const by of [user, minion]) t.deepEqual(await found(target, by), {}, `${target.tgt}`);
  }
  for (const target of patterns) t.deepEqual(await found(target, undefined), grains);
  const whole = { tgt: 'secret:hunter2', tgt_type: 'pillar' };
  for (const by of [user, minion, undefined]) t.deepEqual(await found(whole, by), grains);
  for (const fun of ['cache.clear_grains', 'cache.clear_all', 'cache.clear_mine_func']) {
    const [kwarg = {}] = patterns;
    const more = fun === 'cache.clear_mine_func' ? { clear_mine_func_flag: 'x' } : {};
    const call = { fun, kwarg: { ...kwarg, ...more }, by: user };
    await master.runners.run(call);
    t.deepEqual(await found({ tgt: '*' }, undefined), grains, fun);
  }
});

/** Runners that publish a job, and the requests that they make. */
function runnersWith(requests: RunRequest[]): FunctionTable {
  const calls: MinionCalls = {
    jobs: {
      run: async function* (request): AsyncGenerator<JobUpdate, void, void> {
        requests.push(request);
        yield* [];
      },
    },
  };
  const targets: RequesterTargets = {
    resolve: () => Promise.reject(new Error('patterns are not evaluated for a user')),
    resolveExact: async () => ({ minions: ['db1'], missing: [], isNarrowed: false }),
  };
  const mineReader = { read: () => Promise.reject(new Error('no mine is read')) };
  return {
    ...mineRunner({ ...calls, targets, mineReader }),
    ...manageRunner({
      ...{ ...calls, targets, version: '1', acceptedIds: () => [], present: () => [] },
      keys: { delete: async () => [] },
    }),
  };
}

test('the job of a runner goes to the minions that the target of a user certainly means', async (t) => {
  for (const fun of ['manage.up', 'manage.down', 'manage.status', 'mine.update']) {
    const requests: RunRequest[] = [];
    const kwarg = { tgt: 'secret:h*', tgt_type: 'pillar' };
    const call = runnersWith(requests)[fun]?.bind([], kwarg);
    const context = {
      ...{ jid: '1', user: 'u', timeoutSeconds: undefined, emit: () => {} },
      closing: new AbortController().signal,
      asked: { fun, arg: [], kwarg },
      continueElsewhere: () => {},
      atEnd: () => {},
    };
    await call?.({ ...context, by: user });
    await call?.({ ...context, by: undefined });
    const [ofUser, ofOperator] = requests;
    t.like(ofUser, { tgt: ['db1'], tgtType: 'list' }, fun);
    t.like(ofOperator, { tgt: 'secret:h*', tgtType: 'pillar' }, fun);
  }
});
