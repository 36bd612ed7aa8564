/** Jobs that a runner starts for a minion or a service. */

import test from 'ava';
import { allow, type Call, decide, reachOf } from '#acl';
import type { InProcessApi } from '#master';
import type { WireValue } from '#minion-protocol';
import { minionWork } from '#runtime/work-budget.ts';
import { requesterJobs } from '#salt/requester-jobs.ts';
import { policyOf } from '../../helpers/policies.ts';

const who = { kind: 'minion', name: 'web1' } as const;
const subject = { kind: 'minion', id: 'web1' } as const;
const policy = policyOf([
  allow('all', { subject: { minion: '*' }, action: 'publish', resource: { fun: '*' } }),
]);

type JobRequest = Parameters<InProcessApi['jobs']['run']>[0];

/** Asks for a job of `state.apply`. Returns the calls that are judged, and the jobs that run. */
async function ask(
  arg: readonly WireValue[],
): Promise<{ readonly judged: readonly Call[]; readonly jobs: readonly JobRequest[] }> {
  const judged: Call[] = [];
  const jobs: JobRequest[] = [];
  const { run } = requesterJobs(who, {
    jobs: {
      run: async function* (request: JobRequest) {
        jobs.push(request);
        yield* [];
      },
    },
    targets: { resolveWithin: async () => ({ minions: ['web1'], missing: [], isNarrowed: false }) },
    work: minionWork,
    reach: (calls) => reachOf({ subject, action: 'publish', calls }, policy),
    decide: (calls, minions) => {
      judged.push(...calls);
      return decide({ subject, action: 'publish', resource: { calls, minions } }, policy);
    },
  });
  for await (const _ of run({ tgt: '*', fun: 'state.apply', arg })) void 0;
  return { judged, jobs };
}

test('keyword arguments in the list of arguments are judged', async (t) => {
  const { judged, jobs } = await ask(['app', { __kwarg__: true, saltenv: 'prod' }]);
  t.deepEqual(judged, [
    { fun: 'state.apply', args: ['app'], kwargs: new Map([['saltenv', 'prod']]) },
  ]);
  t.like(jobs[0], { arg: ['app'], kwarg: { saltenv: 'prod' } });
});

test('pillar values in the list of arguments are checked for text that Salt interprets', async (t) => {
  const pillar = { x: 'sdb://saltbridge/k' };
  await t.throwsAsync(ask(['app', { __kwarg__: true, pillar }]), { code: 'ERR_ARGS' });
});
