/** Rights of an order at a site. */

import test from 'ava';
import { allow, decide, type PolicyRule, type Question } from '#acl';
import type { Order, OrderWork } from '#edge/orders/order.ts';
import { checkOrderRights, runOrder } from '#edge/orders/run-order.ts';
import { type ExtensionHost, MasterError } from '#master';
import { policyOf } from '../helpers/policies.ts';

type JobWork = Omit<Extract<OrderWork, { kind: 'job' }>, 'kind' | 'tgt'>;

/** Returns a function that checks the order of a job at a site with this rule. */
function siteWith(resource: {
  readonly fun: string;
  readonly environment?: string;
}): (work: JobWork) => Promise<void> {
  const subject = { user: 'fred', eauth: 'centre' };
  const policy = policyOf([allow('orders', { subject, action: 'publish', resource })]);
  const host: Parameters<typeof checkOrderRights>[0] = {
    policy: () => policy,
    decide: (question) => decide(question, policy),
    resolveTarget: async () => ({ minions: ['web1'], missing: [], isNarrowed: false }),
  };
  return (work) => {
    const order: Order = {
      ...{ id: '1'.repeat(20), site: 'north', by: { name: 'fred', groups: [] } },
      ...{ issuedAt: 0, validUntil: 1 },
      work: { kind: 'job', tgt: 'web1', ...work },
    };
    return checkOrderRights(host, order);
  };
}

const denied = { code: 'ERR_ORDER_DENIED' };

test('the rules of a site apply to keyword arguments in the list of arguments', async (t) => {
  const check = siteWith({ fun: 'state.apply', environment: 'test' });
  const jobFor = (saltenv: string): JobWork => ({
    fun: 'state.apply',
    arg: ['app', { __kwarg__: true, saltenv }],
  });
  await t.notThrowsAsync(check(jobFor('test')));
  await t.throwsAsync(check(jobFor('prod')), denied);
});

test('a site refuses a job whose arguments Salt would interpret', async (t) => {
  const check = siteWith({ fun: 'state.apply' });
  const checkAny = siteWith({ fun: '*' });
  const slot = '__slot__:salt:cmd.run(id)';
  await t.notThrowsAsync(check({ fun: 'state.apply', arg: ['app'], kwarg: { pillar: { x: 1 } } }));
  for (const [more, message] of [
    [{ kwarg: { pillar: { x: slot } } }, /^pillar\.x must not contain __slot__:/],
    [{ arg: ['app', { __kwarg__: true, pillar: { x: slot } }] }, /^pillar\.x must not contain/],
    [{ arg: ['app', slot] }, /^arg\.1 must not begin with __slot__:/],
    [{ arg: ['app', `pillar={x: '${slot}'}`] }, /name=value/],
  ] as const) {
    const work = { fun: 'state.apply', ...more };
    await t.throwsAsync(check(work), { ...denied, message });
    await t.notThrowsAsync(checkAny(work), 'the rule permits everything');
  }
});

/** Site at which the rule permits `test.*` to fred, with what the master of the site was asked. */
function siteOfFred(rule: Partial<Pick<PolicyRule, 'rate'>> & { readonly within?: string }) {
  const { within, ...more } = rule;
  const resource = { fun: 'test.*', ...(within === undefined ? {} : { within }) };
  const subject = { user: 'fred', eauth: 'centre' };
  const policy = policyOf([allow('orders', { subject, action: 'publish', resource, ...more })]);
  const bounds: Parameters<ExtensionHost['resolveTarget']>[1][] = [];
  const jobs: object[] = [];
  const unknown = new MasterError('ERR_JOB_UNKNOWN', 'no such job');
  const host = {
    policy: () => policy,
    decide: (question: Question) => decide(question, policy),
    resolveTarget: async (_target: unknown, given: (typeof bounds)[number]) => {
      bounds.push(given);
      return { minions: ['web1'], missing: [], isNarrowed: within !== undefined };
    },
    master: () => ({
      jobs: {
        show: () => Promise.reject(unknown),
        run: async function* (request: { readonly leftOut: { readonly isNarrowed: boolean } }) {
          jobs.push(request);
          const published = { type: 'published', jid: '1', minions: ['web1'], missing: [] };
          yield { ...published, ...(request.leftOut.isNarrowed ? { isNarrowed: true } : {}) };
          yield { type: 'return', jid: '1', minion: 'web1', return: true, retcode: 0 };
        },
      },
    }),
    // Only these members are used.
  } as unknown as ExtensionHost;
  const work = {
    kind: 'job',
    tgt: 'I@password:a*',
    tgtType: 'compound',
    fun: 'test.ping',
  } as const;
  const order: Order = {
    ...{ id: '1'.repeat(20), site: 'north', by: { name: 'fred', groups: [] } },
    ...{ issuedAt: 0, validUntil: 1, work },
  };
  return { host, order, bounds, jobs };
}

test('the target of an order examines only minions on which its user has rights', async (t) => {
  const { host, order, bounds } = siteOfFred({ within: 'web*' });
  await checkOrderRights(host, order);
  const { result } = await runOrder(host, order, '1', 60);
  t.is(bounds.length, 2);
  for (const given of bounds) {
    t.deepEqual(
      ['web1', 'db1'].map((id) => given?.reach?.includes(id)),
      [true, false],
    );
    t.like(given?.who, { kind: 'user', name: 'fred', eauth: 'centre' });
  }
  t.like(result, { state: 'done', succeeded: 1 });
  t.regex(result.reason ?? '', /only to the minions that the rules of the site permit/);
});

test('the job of an order counts and is recorded for its user, not for the operator', async (t) => {
  const { host, order, jobs } = siteOfFred({});
  await runOrder(host, order, '1', 60);
  const who = { kind: 'user', name: 'fred', eauth: 'centre' };
  t.like(jobs, [{ by: { who, rule: 'orders' }, user: 'centre_fred' }]);
});

test('an order counts once towards the rate of its rule at the site', async (t) => {
  const { host, order, jobs } = siteOfFred({ rate: '1/minute', within: 'web*' });
  await checkOrderRights(host, order);
  t.is((await runOrder(host, order, '1', 60)).result.state, 'done');
  t.is(jobs.length, 1);
  await t.throwsAsync(checkOrderRights(host, order), denied);
});
